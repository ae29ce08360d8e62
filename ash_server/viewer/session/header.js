import { el } from "../dom.js";
import { counted, dollars, duration, number } from "../numbers.js";

const TOOLS = {
  claude: "Claude",
  codex: "Codex",
  gemini: "Gemini",
  gemini_cli: "Gemini CLI",
  cursor: "Cursor",
  opencode: "opencode",
  pi: "pi",
  openai_chat: "OpenAI Chat",
  openai_responses: "OpenAI Responses",
  bedrock: "Bedrock",
  langchain: "LangChain",
  vercel: "AI SDK",
};

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
  show(session, { summary, model, onUnrecognised } = {}) {
    this.title.textContent = titleOf(session);
    const told = [
      source(session),
      model && fact(model, "The model of the last answer"),
      span(session),
      ...counts(session, summary),
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
  return session.title ?? session.externalId ?? "Untitled";
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
  const name = Object.hasOwn(TOOLS, source) ? TOOLS[source] : source;
  const version = typeof metadata?.cliVersion === "string" && ` ${metadata.cliVersion}`;
  return el("span", { class: "fact" }, el("span", { class: "source-dot", "data-source": source }), name, version);
}

function span({ firstAt, lastAt, createdAt }) {
  const [begin, end] = [firstAt ?? createdAt, lastAt ?? createdAt].map((time) => Date.parse(time));
  const took = end - begin >= 1000 ? ` · ${duration(end - begin)}` : "";
  const [first, last] = [begin, end].map((time) => new Date(time).toISOString());
  const told = el("time", { datetime: first }, from.formatRange(begin, end));
  return el("span", { class: "fact", title: `${first} – ${last}` }, told, took);
}

function counts({ messageCount, eventCount }, summary) {
  const all = `${counted(messageCount, "message")}, ${counted(eventCount, "event")}`;
  if (!summary) return [fact(counted(messageCount, "message"), all)];
  const total = (byName) => Object.values(byName).reduce((sum, count) => sum + count, 0);
  const [calls, failures] = [total(summary.toolCalls), total(summary.toolErrors)];
  const failed = failures ? `, ${number(failures)} failed` : "";
  return [
    fact(counted(summary.turns, "turn"), all),
    calls > 0 && fact(counted(calls, "tool call") + failed, named(summary.toolCalls)),
  ];
}

function named(counts) {
  return Object.entries(counts).map(([name, count]) => `${name} ${number(count)}`).join(" · ");
}

function costs(summary) {
  const { usage, costUsd } = summary ?? {};
  const cached = usage?.cache_read_input_tokens;
  const told = usage && `${counted(usage.total_tokens, "token")}${cached ? ` + ${number(cached)} from the cache` : ""}`;
  const exact = usage && `${number(usage.input_tokens)} in, ${number(usage.output_tokens)} out`;
  return [usage && fact(told, exact), costUsd !== undefined && fact(dollars(costUsd))];
}

function unrecognised({ unrecognisedCount, eventCount }, onUnrecognised) {
  if (unrecognisedCount === undefined) return undefined;
  const told = `${number(unrecognisedCount)} unrecognised of ${number(eventCount)}`;
  if (!unrecognisedCount || !onUnrecognised) return fact(told, "Records that no table of Ash knows");
  const button = el("button", { class: "fact unrecognised", type: "button", title: "Go to the first" }, told);
  button.addEventListener("click", onUnrecognised);
  return button;
}

function linkTo(session) {
  return el("a", { href: `/sessions/${encodeURIComponent(session.id)}` }, titleOf(session));
}

function details(children) {
  const rows = children.map((child) => el("li", {}, linkTo(child)));
  const told = `Started ${counted(children.length, "session")}`;
  return el("details", { class: "children" }, el("summary", {}, told), el("ul", {}, ...rows));
}
