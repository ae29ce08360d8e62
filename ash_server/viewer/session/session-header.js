import { button, el } from "../lib/dom.js";
import { counted, dollars, duration, number, ofCache } from "../lib/number-format.js";
import { sourceName } from "../lib/source-names.js";
import { lastPart, plainly } from "../lib/title-text.js";

const MODELS = 2;
const LONG_TITLE = 80;

const from = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const EXPORTS = [
  ["Markdown", ".md"],
  ["JSON", ".json"],
  ["JSONL, as it was stored", ".jsonl"],
  ["HTML, one page", ".html"],
];

/** The title of a session, and what is known of it as a whole. */
export class Header {
  constructor() {
    this.title = el("h1", { class: "session-title", dir: "auto" });
    this.facts = el("p", { class: "session-facts" });
    this.relations = el("p", { class: "session-relations", hidden: true });
    this.element = el("header", { class: "session-header" }, this.title, this.facts, this.relations);
  }

  /** `summary` is that of projections/session-summary, once it is there. */
  show(session, { summary, onUnrecognised } = {}) {
    const title = titleOf(session);
    this.title.textContent = title;
    this.title.title = session.title ?? session.externalId ?? "";
    this.title.toggleAttribute("data-long", title.length > LONG_TITLE);
    const told = [
      source(session),
      models(summary),
      span(session),
      ...counts(session, summary),
      errors(session, summary),
      ...costs(summary),
      unrecognised(session, onUnrecognised),
    ];
    this.facts.replaceChildren(...told.filter(Boolean));
  }

  /** The session that started this one, and those that it started. */
  relate(parent, children) {
    const up = parent && ["Started by ", linkTo(parent)];
    const down = children.length && details(children);
    this.relations.replaceChildren(...[up, down].filter(Boolean).flat());
    this.relations.hidden = !up && !down;
  }
}

export function titleOf(session) {
  const { title, externalId } = session;
  return plainly(title ?? "") || lastPart(externalId ?? "") || "Untitled";
}

/** A menu of the forms in which a session can be had. */
export function exports(path) {
  const link = ([label, suffix]) => el("a", { class: "menu-item", href: path + suffix, download: true }, label);
  const body = el("div", { class: "menu-body" }, ...EXPORTS.map(link));
  return el("details", { class: "menu forms" }, el("summary", {}, "Export"), body);
}

function fact(text, title) {
  return el("span", { class: "fact", title }, text);
}

function source({ source, metadata }) {
  const version = typeof metadata?.cliVersion === "string" && ` ${metadata.cliVersion}`;
  return el("span", { class: "fact" }, el("span", { class: "source-dot", "data-source": source }), sourceName(source), version);
}

function span({ firstAt, lastAt, createdAt }) {
  const [begin, end] = [firstAt ?? createdAt, lastAt ?? createdAt].map((time) => Date.parse(time));
  const took = end - begin >= 1000 ? ` · ${duration(end - begin)}` : "";
  const [first, last] = [begin, end].map((time) => new Date(time).toISOString());
  const told = el("time", { datetime: first }, from.formatRange(begin, end));
  return el("span", { class: "fact", title: `${first} – ${last}` }, told, took);
}

/** Of those that answered, the most used first. */
function models(summary) {
  const names = Object.keys(summary?.models ?? {});
  if (!names.length) return undefined;
  const more = names.length > MODELS ? ` +${names.length - MODELS}` : "";
  return fact(names.slice(0, MODELS).join(", ") + more, `Answers: ${named(summary.models)}`);
}

function counts({ messageCount, eventCount }, summary) {
  const all = `${counted(messageCount, "stored message")}, ${counted(eventCount, "event")}`;
  const { turns = 0, toolCalls = {} } = summary ?? {};
  const calls = Object.values(toolCalls).reduce((sum, count) => sum + count, 0);
  return [
    fact(turns > 0 ? counted(turns, "turn") : counted(eventCount, "event"), all),
    calls > 0 && fact(counted(calls, "tool call"), named(toolCalls)),
  ];
}

/** Those of tools and all others, as the list of sessions and the rail count them. */
function errors({ errorCount }, summary) {
  if (!errorCount) return undefined;
  return el("span", { class: "fact errors", title: named({ ...summary?.toolErrors, ...summary?.errors }) }, counted(errorCount, "error"));
}

function named(counts) {
  return Object.entries(counts).map(([name, count]) => `${name} ${number(count)}`).join(" · ");
}

function costs(summary) {
  const { usage, costUsd } = summary ?? {};
  const told = usage && [counted(usage.total_tokens, "token"), ...ofCache(usage)].filter(Boolean).join(" + ");
  const exact = usage && `${number(usage.input_tokens)} in, ${number(usage.output_tokens)} out`;
  return [usage && fact(told, exact), costUsd !== undefined && fact(dollars(costUsd))];
}

function unrecognised({ unrecognisedCount, eventCount }, onUnrecognised) {
  if (unrecognisedCount === undefined) return undefined;
  const told = `${number(unrecognisedCount)} unrecognised of ${number(eventCount)}`;
  if (!unrecognisedCount || !onUnrecognised) return fact(told, "Records that no table of Ash knows");
  return button({ class: "fact unrecognised", title: "Go to the first" }, told, onUnrecognised);
}

function linkTo(session) {
  return el("a", { href: `/sessions/${encodeURIComponent(session.id)}` }, titleOf(session));
}

function details(children) {
  const rows = children.map((child) => el("li", {}, linkTo(child)));
  const told = `Started ${counted(children.length, "session")}`;
  return el("details", { class: "children" }, el("summary", {}, told), el("ul", {}, ...rows));
}
