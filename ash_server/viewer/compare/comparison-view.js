import { compareAddress } from "../lib/compare-address.js";
import { costHint, costText } from "../lib/cost-text.js";
import { button, el } from "../lib/dom.js";
import { markHidden } from "../lib/hidden-characters.js";
import { formatDuration, formatNumber, pluralize } from "../lib/number-format.js";
import { agentOf, sourceName } from "../lib/source-names.js";
import { momentText } from "../lib/time-format.js";
import { lineCounts } from "../session/changes.js";
import { placeUrl, sessionAddress } from "../session/permalinks.js";
import { sessionTitle } from "../session/session-header.js";
import { differentPart } from "./word-marks.js";

/** Longer runs of equal prompts are folded. */
const MAX_EQUAL_PROMPTS = 3;
const NOTHING = "–";
const SIDES = /** @type {const} */ (["a", "b"]);

const NAMES = {
  agent: "Agent",
  version: "Version",
  models: "Models",
  project: "Project",
  folder: "Folder",
  branch: "Branch",
  commit: "Commit",
  machine: "Machine",
  person: "Person",
  cause: "Started by",
  firstAt: "Start",
  durationMs: "Duration",
  activeMs: "Active",
  prompts: "Prompts",
  turns: "Turns",
  toolCalls: "Tool calls",
  toolFailures: "Failed calls",
  errors: "Errors",
  filesChanged: "Changed files",
  linesAdded: "Added lines",
  linesRemoved: "Removed lines",
  messages: "Messages",
  inputTokens: "Input tokens",
  outputTokens: "Output tokens",
  cacheReadTokens: "Tokens from the cache",
  cacheWriteTokens: "Tokens to the cache",
  costUsd: "Cost",
};
const CAUSES = { person: "a person", schedule: "a schedule", program: "a program" };

/** @type {Record<string, (value: any, session: any) => any>} */
const FORMATS = {
  agent: (value) => sourceName(value),
  models: (value) => value.join(", "),
  cause: (value) => CAUSES[value] ?? value,
  firstAt: (value) => el("time", { datetime: value }, momentText(Date.parse(value))),
  durationMs: formatDuration,
  activeMs: formatDuration,
  costUsd: (_, { totalUsage, usage }) => el("span", { title: costHint(totalUsage ?? usage) }, costText(totalUsage ?? usage)),
};

/** The tables of a comparison: facts, calls, files and prompts. */
export class ComparisonView {
  constructor() {
    this.toggle = button({ "aria-pressed": "false" }, "Only differences", () => this.toggleEqual());
    this.status = el("p", { class: "visually-hidden", role: "status" });
    this.element = el("div", { class: "comparison" });
  }

  toggleEqual() {
    const isHidden = this.element.toggleAttribute("data-differences");
    this.toggle.setAttribute("aria-pressed", String(isHidden));
    this.status.textContent = isHidden ? "Equal rows are hidden." : "All rows are shown.";
  }

  show(comparison) {
    const { a, b, files, moreFiles, tools, facts, prompts, morePrompts } = comparison;
    const swap = el("a", { href: compareAddress({ a: b.id, b: a.id }) }, "Swap A and B");
    const parts = [
      el("div", { class: "compare-sides" }, sideCard("a", a, b), sideCard("b", b, a)),
      commonNote(comparison),
      el("p", { class: "compare-controls" }, this.toggle, swap),
      this.status,
      table("Facts", facts.map((fact) => factRow(fact, comparison))),
      table("Tool calls", tools.map(toolRow)),
      table("Changed files", files.map(fileRow), moreFiles && "More files were changed than are compared."),
      promptTable(comparison, prompts, morePrompts),
    ];
    this.element.replaceChildren(...parts.filter((part) => part instanceof Element));
  }
}

/** A session with links to its page, and to a comparison with another one. */
function sideCard(side, session, other) {
  const title = el("a", { href: sessionAddress(session.id), dir: "auto" }, ...titleOf(session));
  const agent = sourceName(agentOf(session));
  const time = session.lastAt && momentText(Date.parse(session.lastAt));
  const others = compareAddress(side === "a" ? { b: other.id } : { a: other.id });
  return el(
    "section",
    { class: "compare-side", "aria-label": side.toUpperCase() },
    el("h2", {}, badge(side), title),
    el("p", {}, [agent, time].filter(Boolean).join(" · "), " · ", el("a", { href: others }, "Choose another")),
  );
}

/** The title of a session, with marks for hidden characters. */
export function titleOf(session) {
  return markHidden(sessionTitle(session), "prose");
}

function badge(side) {
  return el("span", { class: "compare-badge", "data-side": side }, side.toUpperCase());
}

/** A note about the messages that a copy or a fork has in common with the other session. */
function commonNote({ a, b, common, prompts }) {
  if (a.id === b.id) return el("p", { class: "compare-note" }, "Both are the same session.");
  if (!common) return undefined;
  const { messages, original } = common;
  const isOfThird = original !== a.id && original !== b.id;
  const [copy, origin] = original === b.id ? ["A", "B"] : ["B", "A"];
  const where = isOfThird ? el("a", { href: sessionAddress(original) }, "their original") : origin;
  const [noun, verb] = messages === 1 ? ["message", "is"] : [`${formatNumber(messages)} messages`, "are"];
  const relation = [`The first ${noun} of ${isOfThird ? "both" : copy} ${verb} the same as in `, where, "."];
  const next = prompts.findIndex(({ isCopied }) => !isCopied);
  const follows = prompts.slice(next < 0 ? prompts.length : next);
  const links = SIDES.map((side) => [side, follows.find((pair) => pair[side])?.[side]]).filter(([, prompt]) => prompt);
  const sessions = { a, b };
  const after = links.flatMap(([side, prompt]) => [
    " ",
    el("a", { href: promptAddress(sessions[side], prompt) }, `Next prompt in ${side.toUpperCase()}`),
  ]);
  const usage = isOfThird ? "" : ` Their tokens and cost count in ${origin}.`;
  return el("p", { class: "compare-note" }, ...relation, usage, ...after);
}

/**
 * @param {string} title
 * @param {Element[]} rows
 * @param {string | false} [note]
 */
function table(title, rows, note) {
  if (!rows.length) return undefined;
  const differing = rows.filter((row) => !row.hasAttribute("data-equal")).length;
  const count = differing ? pluralize(differing, "difference") : "No difference";
  const corner = el("th", { scope: "col" }, el("span", { class: "visually-hidden" }, title));
  return el(
    "section",
    { class: "compare-section", "data-same": differing === 0 },
    el(
      "table",
      { class: "compare-table" },
      el("caption", {}, title, el("span", { class: "compare-count" }, count)),
      el("thead", {}, el("tr", {}, corner, ...SIDES.map((side) => el("th", { scope: "col" }, badge(side))))),
      el("tbody", {}, ...rows),
    ),
    note && el("p", { class: "compare-more" }, note),
  );
}

/** A row; equal ones are muted, and others say so to screen readers. */
function row(name, cells, isEqual) {
  const differs = !isEqual && el("span", { class: "visually-hidden" }, " (differs)");
  return el(
    "tr",
    { "data-equal": isEqual },
    el("th", { scope: "row" }, name, differs),
    ...SIDES.map((side, place) => el("td", { "data-side": side.toUpperCase() }, cells[place])),
  );
}

function factRow({ name, isEqual, ...values }, sessions) {
  const format = FORMATS[name] ?? ((value) => (typeof value === "number" ? formatNumber(value) : value));
  const cells = SIDES.map((side) =>
    values[side] === undefined ? NOTHING : el("bdi", {}, format(values[side], sessions[side])),
  );
  return row(NAMES[name] ?? name, cells, isEqual);
}

function toolRow({ tool, isEqual, ...sides }) {
  const texts = SIDES.map((side) => callsText(sides[side]));
  return row(el("bdi", {}, ...markHidden(tool)), texts, isEqual);
}

function callsText(count) {
  if (!count) return NOTHING;
  const failed = count.failures > 0 && el("span", { class: "compare-failed" }, ` ${formatNumber(count.failures)} failed`);
  return el("span", {}, formatNumber(count.calls), failed);
}

function fileRow({ path, isEqual, ...sides }) {
  const texts = SIDES.map((side) => (sides[side] ? lineCounts(sides[side]) || "changed" : NOTHING));
  return row(el("bdi", { class: "changed-path" }, ...markHidden(path)), texts, isEqual);
}

// Prompts.

function promptTable(sessions, prompts, morePrompts) {
  const rows = prompts.map((pair, place) => ({ pair, element: promptRow(pair, place, sessions) }));
  const note = morePrompts && "A session has more prompts than the 1,000 that are compared.";
  const section = table("Prompts", rows.map(({ element }) => element), note);
  section?.classList.add("compare-prompts");
  const body = section?.querySelector("tbody");
  const longRuns = body ? equalRuns(rows).filter((run) => run.length > MAX_EQUAL_PROMPTS) : [];
  longRuns.forEach((run) => fold(run.map(({ element }) => element)));
  return section;
}

/** The runs of rows with equal prompts. */
function equalRuns(rows) {
  /** @type {any[][]} */
  const runs = [[]];
  for (const each of rows) {
    if (each.pair.isEqual) runs.at(-1)?.push(each);
    else runs.push([]);
  }
  return runs;
}

/** Hide rows behind a row with a button that shows them. */
function fold(rows) {
  const show = () => {
    line.remove();
    rows.forEach((each) => (each.hidden = false));
    rows[0].querySelector("a")?.focus();
  };
  const text = `Show ${pluralize(rows.length, "equal prompt")}`;
  const line = el("tr", { class: "compare-fold", "data-equal": true }, el("td", { colspan: 3 }, button({}, text, show)));
  rows[0].before(line);
  rows.forEach((each) => (each.hidden = true));
}

function promptRow({ a, b, isEqual }, place, sessions) {
  const name = formatNumber(place + 1);
  if (isEqual) {
    const text = promptLink(a, markHidden(a.text, "prose"), sessions.a);
    const other = el("a", { class: "compare-same", href: promptAddress(sessions.b, b) }, "the same");
    return row(name, [text, other], true);
  }
  const [before, one, other, after] = (a && b && differentPart(a.text, b.text)) ?? [];
  const shown = (text) => markHidden(text ?? "", "prose");
  const marked = (text) => [...shown(before), text && el("mark", {}, ...shown(text)), ...shown(after)];
  const texts = before === undefined ? [shown(a?.text), shown(b?.text)] : [marked(one), marked(other)];
  const cells = SIDES.map((side, index) => {
    const prompt = { a, b }[side];
    return prompt ? promptLink(prompt, texts[index], sessions[side]) : NOTHING;
  });
  return row(name, cells, false);
}

function promptLink(prompt, parts, session) {
  return el("a", { class: "compare-prompt", href: promptAddress(session, prompt), dir: "auto" }, ...parts);
}

function promptAddress({ id }, { sequence, messageSequence }) {
  const place = messageSequence === undefined ? { at: sequence } : { message: messageSequence };
  return placeUrl(sessionAddress(id), place);
}
