import { activityOf, activityParts } from "../lib/activity-text.js";
import { el } from "../lib/dom.js";
import { costHint, costText, subagentsText } from "../lib/cost-text.js";
import { markHidden } from "../lib/hidden-characters.js";
import { formatCents, formatNumber, formatShort, pluralize } from "../lib/number-format.js";
import { sessionAddress } from "../session/permalinks.js";
import { agentName, hasPromptsOnly } from "../lib/source-names.js";
import { isolated, placeFacts } from "../lib/session-facts.js";
import { clockTime, dayKey, momentTime } from "../lib/time-format.js";
import { isBeginningOf, oneLine, stripMarkdown, transcriptName } from "../lib/title-text.js";
import { lastActivity } from "./session-groups.js";

/**
 * A row of the list: one link with the facts of a session.
 *
 * @param {any} session
 * @param {{day?: string, isLive?: boolean, isSubagent?: boolean, hasMachine?: boolean, hasPerson?: boolean}} options
 *   `day` is the day in the heading above; `hasMachine` and `hasPerson` show these
 */
export function rowLink(session, { day, isLive, isSubagent, hasMachine, hasPerson }) {
  const { name, isNamed, prompt, path } = sessionName(session);
  const { eventCount, errorCount, unrecognisedCount, lastAt } = session;
  const shownTime = timeUnder(day, lastActivity(session));
  const activity = isLive && activityOf(session, Date.now());
  return el(
    "a",
    { class: "session-row", href: sessionAddress(session.id) },
    el("span", { class: isNamed ? "session-title" : "session-title untitled", dir: "auto", title: path }, ...markHidden(name, "prose")),
    " ",
    el("span", { class: "session-when" }, lastAt !== undefined && shownTime),
    " ",
    place(session, { isNamed, hasMachine, hasPerson }, lastAt === undefined && storedAt(session, shownTime)),
    prompt && el("span", { class: "session-prompt", dir: "auto" }, ...markHidden(prompt, "prose"), " "),
    el(
      "span",
      { class: "session-facts" },
      ...spaced(
        el("span", { class: "session-source" }, agentName(session)),
        isSubagent && el("span", { class: "fact relation" }, "subagent"),
        hasPromptsOnly(session) && el("span", { class: "fact relation" }, "prompts only"),
        counted(eventCount, "event"),
        ...amounts(session),
        errorCount > 0 && counted(errorCount, "error", "errors"),
        unrecognisedCount > 0 &&
          el("span", { class: "fact unrecognised" }, `${formatNumber(unrecognisedCount)} not recognized`),
        isLive && el("span", { class: "live-mark" }, "live"),
      ),
    ),
    activity && el("span", { class: "activity" }, ...activityParts(activity, Date.now())),
  );
}

/** A line with labels, project, branch, model, prompts, duration and others; false if all are unknown. */
function place(session, options, stored) {
  const { labels } = session;
  const facts = [
    labels?.starred && el("span", { class: "star", title: "Starred" }, "★"),
    ...placeFacts(session, options),
    ...(labels?.tags ?? []).map((tag) => isolated("tag", tag, "Tag")),
    stored,
  ].filter(Boolean);
  return facts.length > 0 && el("span", { class: "session-place" }, ...spaced(...facts), " ");
}

/** A count; the exact number is its title if it is shortened. */
function counted(count, noun, name = "") {
  const shown = pluralize(count, noun, formatShort);
  const exact = pluralize(count, noun);
  return el("span", { class: name ? `fact ${name}` : "fact", title: shown !== exact && exact }, shown);
}

/** Tokens and cost, including subagents. Sessions without usage have empty columns. */
function amounts({ usage, totalUsage = usage }) {
  if (!totalUsage?.answers) return [el("span", { class: "amount" }), el("span", { class: "amount cost" })];
  const { total_tokens: tokens, cache_read_input_tokens: read, cache_creation_input_tokens: written } = totalUsage;
  const cost = costText(totalUsage, formatCents);
  const hints = [costHint(totalUsage), totalUsage !== usage && subagentsText(usage, totalUsage, formatCents)];
  const all = tokens + read + written;
  return [
    el("span", { class: "amount", title: pluralize(all, "token") }, pluralize(all, "token", formatShort)),
    el("span", { class: "amount cost", title: hints.filter(Boolean).join("; ") }, cost),
  ];
}

/** The time of day under the heading of its day, else with the date. */
function timeUnder(day, moment) {
  return day === dayKey(moment) ? clockTime(moment) : momentTime(moment);
}

/** The time in the place of the last activity, of a session without times in its messages. */
function storedAt({ fileModifiedAt }, time) {
  const [event, hint] =
    fileModifiedAt === undefined
      ? ["stored", "Its messages have no times; they were stored at this time"]
      : ["file changed", "Its messages have no times; the file was modified at this time"];
  return el("span", { class: "stored", title: hint }, `${event} `, time);
}

/** The name of a session, and its first prompt unless the title repeats it. */
export function sessionName({ title, prompt, externalId }) {
  const promptLine = oneLine(prompt);
  const titleLine = oneLine(title);
  if (titleLine) {
    const isRepeated = isBeginningOf(titleLine, promptLine) || isBeginningOf(promptLine, titleLine);
    return { name: stripMarkdown(titleLine), isNamed: true, prompt: isRepeated ? "" : stripMarkdown(promptLine) };
  }
  if (promptLine) return { name: stripMarkdown(promptLine), isNamed: true, prompt: "" };
  return { name: transcriptName(externalId ?? "") || "Untitled", isNamed: false, prompt: "", path: externalId };
}

/** Separate elements by spaces, for screen readers and copied text. */
function spaced(...elements) {
  return elements.filter(Boolean).flatMap((element, index) => (index ? [" ", element] : [element]));
}
