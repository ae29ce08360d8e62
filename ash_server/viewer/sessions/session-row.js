import { el } from "../lib/dom.js";
import { costHint, costText, subagentsText } from "../lib/cost-text.js";
import { formatCents, formatCompact, formatNumber, pluralize } from "../lib/number-format.js";
import { sessionAddress } from "../session/permalinks.js";
import { agentOf, sourceName } from "../lib/source-names.js";
import { durationText, folderName, starter } from "../lib/session-facts.js";
import { agoTime } from "../lib/time-format.js";
import { isBeginningOf, oneLine, stripMarkdown, transcriptName } from "../lib/title-text.js";
import { lastActivity } from "./session-groups.js";

/** A row of the list: one link with the facts of a session. */
export function rowLink(session, { now, isLive, isSubagent }) {
  const { name, isNamed, prompt, path } = sessionName(session);
  const { eventCount, errorCount, unrecognisedCount } = session;
  return el(
    "a",
    { class: "session-row", href: sessionAddress(session.id) },
    el("span", { class: isNamed ? "session-title" : "session-title untitled", dir: "auto", title: path }, name),
    " ",
    el("span", { class: "session-when" }, ...timeOrigin(session), agoTime(lastActivity(session), now)),
    " ",
    place(session),
    prompt && el("span", { class: "session-prompt", dir: "auto" }, prompt, " "),
    el(
      "span",
      { class: "session-facts" },
      ...spaced(
        el("span", { class: "session-source" }, sourceName(agentOf(session))),
        isSubagent && el("span", { class: "fact relation" }, "subagent"),
        el("span", { class: "fact" }, pluralize(eventCount, "event")),
        ...amounts(session),
        errorCount > 0 && el("span", { class: "fact errors" }, pluralize(errorCount, "error")),
        unrecognisedCount > 0 &&
          el("span", { class: "fact unrecognised" }, `${formatNumber(unrecognisedCount)} unrecognised`),
        isLive && el("span", { class: "live-mark" }, "live"),
      ),
    ),
  );
}

/** A line with labels, project, branch, model, prompts, duration and person; false if all are unknown. */
function place({ labels, project, branch, models = [], promptCount, machine, ...session }) {
  const more = models.length > 1 ? ` +${models.length - 1}` : "";
  const facts = [
    labels?.starred && el("span", { class: "star", title: "Starred" }, "★"),
    project && isolated("project", folderName(project), machine ? `${project} on ${machine}` : project),
    branch && isolated("branch", branch, "Git branch"),
    models.length > 0 && isolated("model", models[0] + more, models.join(", ")),
    promptCount > 0 && el("span", {}, pluralize(promptCount, "prompt")),
    durationText(session) && el("span", { class: "duration" }, durationText(session)),
    starter(session) && isolated("person", starter(session), "Who or what began it"),
    ...(labels?.tags ?? []).map((tag) => isolated("tag", tag, "Tag")),
  ].filter(Boolean);
  return facts.length > 0 && el("span", { class: "session-place" }, ...spaced(...facts), " ");
}

/** A text of others, which may have another direction. */
function isolated(name, text, title) {
  return el("span", { class: name, title }, el("bdi", {}, text));
}

/** Tokens and cost, including subagents. Sessions without usage have empty columns. */
function amounts({ usage, totalUsage = usage }) {
  if (!totalUsage?.answers) return [el("span", { class: "amount" }), el("span", { class: "amount cost" })];
  const { total_tokens: tokens, cache_read_input_tokens: read, cache_creation_input_tokens: written } = totalUsage;
  const cost = costText(totalUsage, formatCents);
  const hints = [costHint(totalUsage), totalUsage !== usage && subagentsText(usage, totalUsage, formatCents)];
  const all = tokens + read + written;
  return [
    el("span", { class: "amount", title: pluralize(all, "token") }, `${formatCompact(all)} tokens`),
    el("span", { class: "amount cost", title: hints.filter(Boolean).join("; ") }, cost),
  ];
}

/** The origin of the shown time, for sessions without timestamps in their messages. */
function timeOrigin({ lastAt, fileModifiedAt }) {
  if (lastAt !== undefined) return [];
  return fileModifiedAt === undefined
    ? [el("span", { title: "No message names a time; they were stored at this time" }, "stored"), " "]
    : [el("span", { title: "No message names a time; the file was modified at this time" }, "file changed"), " "];
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
