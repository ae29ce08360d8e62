import { withQuery } from "../lib/api.js";
import { compareAddress } from "../lib/compare-address.js";
import { costHint, costText, subagentsText } from "../lib/cost-text.js";
import { button, el } from "../lib/dom.js";
import { markHidden, nameHidden } from "../lib/hidden-characters.js";
import { formatCacheUsage, formatNumber, formatShort, pluralize } from "../lib/number-format.js";
import { markdown } from "../lib/markdown.js";
import { placeFacts } from "../lib/session-facts.js";
import { agentName, agentOf, hasPromptsOnly } from "../lib/source-names.js";
import { momentText, rangeText } from "../lib/time-format.js";
import { isBeginningOf, oneLine, stripMarkdown, transcriptName } from "../lib/title-text.js";
import { changedFilesText } from "./changes.js";
import { sessionAddress } from "./permalinks.js";
import { shortPlanText } from "./plan.js";

const LONG_TITLE_LENGTH = 80;

/** The title and the facts of a session. */
export class SessionHeader {
  session = {};
  /** The text of the first prompt, once the beginning of the log is loaded. @type {string | undefined} */
  firstPrompt;

  /** @param {{hasList?: boolean}} [options] `hasList` links projects and tags to the list of sessions */
  constructor({ hasList = true } = {}) {
    this.hasList = hasList;
    this.title = el("h1", { class: "session-title", dir: "auto" });
    this.facts = el("p", { class: "session-facts" });
    this.place = el("p", { class: "session-place" });
    this.labels = el("div", { class: "session-labels", hidden: true });
    this.relations = el("p", { class: "session-relations", hidden: true });
    this.replacement = el("p", { class: "session-replacement", hidden: true });
    const parts = [this.title, this.replacement, this.place, this.facts, this.labels, this.relations];
    this.element = el("header", { class: "session-header" }, ...parts);
  }

  /**
   * @param {any} session
   * @param {{summary?: any, usage?: any, onError?: () => void, onUnrecognised?: () => void,
   *   onChanges?: () => void, plan?: any, onPlan?: () => void}} [facts] `summary` is the session-summary projection, once
   *   loaded, `usage` its row in the report of usage, and `plan` its last plan
   */
  show(session, { summary, usage, onError, onUnrecognised, onChanges, plan, onPlan } = {}) {
    this.session = session;
    this.hideRepeatedTitle();
    const title = sessionTitle(session);
    this.title.replaceChildren(...markHidden(title, "prose"));
    this.title.title = nameHidden(session.title ?? session.externalId ?? "");
    this.title.toggleAttribute("data-long", title.length > LONG_TITLE_LENGTH);
    /** @type {any[]} */
    const facts = [
      source(session),
      hasPromptsOnly(session) && fact("prompts only", "The transcript was deleted before it was stored"),
      span(session),
      ...counts(session, summary),
      tokens(summary),
      cost(usage?.answers ? usage : usageOf(summary)),
      errors(session, summary, onError),
      unrecognised(session, onUnrecognised),
      changedFiles(session, onChanges),
      lastPlan(plan, onPlan),
    ];
    this.facts.replaceChildren(...facts.filter(Boolean));
    this.place.replaceChildren(...place(session, summary, this.hasList));
    this.showLabels(session.labels);
    this.showReplacement(session);
  }

  /** Link to the session with the transcript, which replaces a session of prompts alone. */
  showReplacement({ replacedBy }) {
    this.replacement.hidden = !(replacedBy && this.hasList);
    const link = el("a", { href: sessionAddress(replacedBy) }, "Open the transcript");
    this.replacement.replaceChildren("Only the prompts of a session. The whole transcript is stored, too: ", link);
  }

  showLabels({ starred, archived, tags = [], note } = /** @type {any} */ ({})) {
    const marks = [
      starred && el("span", { class: "fact star", title: "Starred" }, "★"),
      archived && el("span", { class: "fact" }, "Archived"),
      ...tags.map((tag) => this.tagMark(tag)),
    ].filter(Boolean);
    const shown = [
      marks.length > 0 && el("p", { class: "session-place" }, ...marks),
      note && el("div", { class: "session-note prose", dir: "auto" }, markdown(note)),
    ].filter((part) => part instanceof Element);
    this.labels.replaceChildren(...shown);
    this.labels.hidden = !shown.length;
  }

  tagMark(tag) {
    const text = el("bdi", {}, tag);
    return this.hasList
      ? el("a", { class: "fact tag", href: withQuery("/", { tag }) }, text)
      : el("span", { class: "fact tag" }, text);
  }

  /** @param {string} text the first prompt in the log; empty if there is none */
  setFirstPrompt(text) {
    this.firstPrompt = text;
    this.hideRepeatedTitle();
  }

  /** Hide a title that the first prompt below repeats, except from screen readers. */
  hideRepeatedTitle() {
    const { title, prompt } = this.session;
    const isPrompt = title !== undefined && prompt === undefined;
    const isRepeated = isPrompt && (this.firstPrompt === undefined || isBeginningOf(title, this.firstPrompt));
    this.title.classList.toggle("visually-hidden", isRepeated);
  }

  /**
   * Show links to the parent session, at the call that started this one, to the sessions started by this one, and to
   * the session that its first messages come from.
   */
  showRelations(parent, children, original) {
    const parentLink = parent && el("span", {}, "Started by ", linkTo(parent));
    const upTo = original && ` up to message ${formatNumber(original.messages)}`;
    const compared = original && compareAddress({ a: original.id, b: this.session.id });
    const compare = original && el("a", { href: compared }, "Compare with the original");
    const originalLink = original && el("span", {}, "Copy of ", linkTo(original), upTo, " · ", compare);
    const childList = children.length && childDetails(children);
    const relations = [parentLink, originalLink, childList].filter(Boolean);
    this.relations.replaceChildren(...relations);
    this.relations.hidden = !relations.length;
  }
}

export function sessionTitle(session) {
  const { title, externalId } = session;
  return stripMarkdown(oneLine(title)) || transcriptName(externalId ?? "") || "Untitled";
}

/**
 * @param {string} text
 * @param {string} [title]
 */
function fact(text, title) {
  return el("span", { class: "fact", title }, text);
}

function source(session) {
  const { metadata, externalId } = session;
  const agent = agentOf(session);
  const version = typeof metadata?.cliVersion === "string" && ` ${metadata.cliVersion}`;
  const dot = el("span", { class: "source-dot", "data-source": agent });
  return el("span", { class: "fact", title: externalId }, dot, agentName(session), version);
}

function span({ firstAt, lastAt, fileModifiedAt, createdAt }) {
  if (firstAt === undefined) {
    return fileModifiedAt === undefined ? moment("stored", createdAt) : moment("file changed", fileModifiedAt);
  }
  const [begin, end] = [firstAt, lastAt].map((time) => Date.parse(time));
  const [first, last] = [begin, end].map((time) => new Date(time).toISOString());
  const range = el("time", { datetime: first }, rangeText(begin, end));
  return el("span", { class: "fact", title: `${first} – ${last}` }, range);
}

/** A labelled time, for a session without timestamps in its messages. */
function moment(label, text) {
  const time = Date.parse(text);
  const shown = el("time", { datetime: new Date(time).toISOString() }, momentText(time));
  return el("span", { class: "fact", title: "Its messages have no times" }, label, " ", shown);
}

/** The same facts as in the list, with the models by their answers. A server with keys has several people. */
function place(session, summary, hasList) {
  const { project, folder, person, title, externalId } = session;
  const models = Object.keys(summary?.models ?? {});
  const root = project ?? folder;
  return placeFacts(session, {
    ...(models.length > 0 && { models, modelsHint: `Answers: ${listCounts(summary.models)}` }),
    projectAddress: hasList && root ? withQuery("/", { project: root }) : undefined,
    hasMachine: person !== undefined,
    hasPerson: true,
    isNamed: Boolean(title || !externalId),
  });
}

/** Files and lines that its tools changed; the panel has the differences. */
function changedFiles({ filesChanged, linesAdded: added, linesRemoved: removed }, onChanges) {
  if (!filesChanged) return undefined;
  const text = changedFilesText(filesChanged, { added, removed });
  return onChanges ? button({ class: "fact changes", title: "Show the changes" }, text, onChanges) : fact(text);
}

/** The steps of the last plan that are done; the panel has the plan. */
function lastPlan(plan, onPlan) {
  return plan && button({ class: "fact changes", title: "Show the plan" }, shortPlanText(plan), () => onPlan?.());
}

function counts({ messageCount, eventCount, toolCallCount }, summary) {
  const { turns = 0, toolCalls = {} } = summary ?? {};
  const all = [pluralize(messageCount, "stored message"), pluralize(eventCount, "event"), turns > 0 && pluralize(turns, "turn")];
  const calls = Object.values(toolCalls).reduce((sum, count) => sum + count, 0) || toolCallCount;
  return [
    fact(pluralize(eventCount, "event", formatShort), all.filter(Boolean).join(", ")),
    calls > 0 && fact(pluralize(calls, "tool call", formatShort), listCounts(toolCalls) || pluralize(calls, "tool call")),
  ];
}

/** Errors of tools and others, counted as in the list of sessions and in the rail. */
function errors({ errorCount }, summary, onError) {
  if (!errorCount) return undefined;
  const counts = listCounts({ ...summary?.toolErrors, ...summary?.errors });
  const title = [counts, "Go to the next"].filter(Boolean).join(". ");
  return button({ class: "fact errors", title }, pluralize(errorCount, "error", formatShort), () => onError?.());
}

function listCounts(counts) {
  return Object.entries(counts).map(([name, count]) => `${name} ${formatNumber(count)}`).join(" · ");
}

function tokens(summary) {
  const { usage: own, totalUsage: usage = own } = summary ?? {};
  if (!usage) return undefined;
  const parts = [pluralize(usage.total_tokens, "token", formatShort), ...formatCacheUsage(usage, formatShort)];
  const exact = [inAndOut(usage), usage !== own && `without subagents: ${own ? inAndOut(own) : "none"}`];
  return fact(parts.filter(Boolean).join(" + "), exact.filter(Boolean).join("; "));
}

function cost(usage) {
  const total = usage?.withSubagents ?? usage;
  if (total?.costUsd === undefined) return undefined;
  const parts = total !== usage && subagentsText(usage, total);
  return fact([costText(total), parts].filter(Boolean).join(", "), costHint(total));
}

/** The cost in the summary, as in a report of usage: as reported, else computed. */
function usageOf(summary) {
  const { costUsd, computedCostUsd, totalCostUsd, totalComputedCostUsd } = summary ?? {};
  const own = eitherCost(costUsd, computedCostUsd);
  const total = eitherCost(totalCostUsd, totalComputedCostUsd);
  return total.costUsd === undefined ? own : { ...own, withSubagents: total };
}

function eitherCost(reported, computed) {
  return { answers: 1, costUsd: reported ?? computed, reportedAnswers: reported === undefined ? 0 : 1 };
}

function inAndOut(usage) {
  const { input_tokens: input, output_tokens: output } = usage;
  return [`${formatNumber(input)} in`, `${formatNumber(output)} out`, ...formatCacheUsage(usage)].filter(Boolean).join(", ");
}

function unrecognised({ unrecognisedCount, eventCount }, onUnrecognised) {
  if (!unrecognisedCount) return undefined;
  const count = `${formatNumber(unrecognisedCount)} of ${pluralize(eventCount, "event")}`;
  const title = `${count}. Go to the first`;
  return button({ class: "fact unrecognised", title }, `${formatNumber(unrecognisedCount)} not recognized`, () =>
    onUnrecognised?.(),
  );
}

/** A link to a session; `start` is the address of a place in it. */
function linkTo({ start, ...session }) {
  return el("a", { href: start ?? sessionAddress(session.id) }, sessionTitle(session));
}

function childDetails(children) {
  const rows = children.map((child) => el("li", {}, linkTo(child)));
  const summary = `Started ${pluralize(children.length, "session")}`;
  return el("details", { class: "children" }, el("summary", {}, summary), el("ul", {}, ...rows));
}
