import { button, el } from "../lib/dom.js";
import { formatCompact, formatNumber, formatShare } from "../lib/number-format.js";
import { svg } from "../lib/svg.js";
import { allInput, allTokens, costCell, measureOf } from "./usage-figures.js";

const PAGE = 100;
const BAR_LENGTH = 1000;

/**
 * The columns of figures: title, description, text of a cell, and exact number.
 *
 * @type {[title: string, hint: string, text: (counts: any) => string, exact?: (counts: any) => number][]}
 */
const COLUMNS = [
  ["Cost", "In US dollars", costCell, ({ costUsd }) => costUsd],
  ["Tokens", "Input and output, with tokens of the cache", tokens(allTokens), allTokens],
  ["Input", "Input tokens that are neither read from the cache nor written to it", ...count("input_tokens")],
  ["Cache read", "Input tokens read from the cache", ...count("cache_read_input_tokens")],
  ["Cache written", "Input tokens written to the cache", ...count("cache_creation_input_tokens")],
  ["Output", "Output tokens, with reasoning", ...count("output_tokens")],
  ["Hit rate", "Tokens read from the cache, of all input tokens", hitRate],
  ["Answers", "Answers of models", ({ answers }) => formatNumber(answers), ({ answers }) => answers],
];

/** The share of the input that was read from the cache. */
export function hitRate(counts) {
  return formatShare(counts.cache_read_input_tokens, allInput(counts)) || "–";
}

/**
 * A row of the table. `parts` are its rows by the second dimension, the largest first.
 * @typedef {{name: string, title?: string, href?: string, source?: string, notes: string[], counts: any,
 *   parts: {name: string, href?: string, series: string, counts: any}[]}} TableRow
 */

/** The figures of a report: one row for each value of the first dimension, which unfolds to its parts. */
export class UsageTable {
  constructor() {
    this.body = el("tbody", { role: "rowgroup" });
    this.foot = el("tfoot", { role: "rowgroup" });
    this.caption = el("caption");
    this.head = el("thead", { role: "rowgroup" });
    this.table = el("table", { class: "usage-table", role: "table" }, this.caption, this.head, this.body, this.foot);
    this.unfold = button({ class: "unfold-all", "aria-pressed": "false" }, null, () => this.toggleAll());
    this.more = button({ class: "more" }, null, () => this.add());
    this.all = button({ class: "all-columns", "aria-pressed": "false" }, "All figures", () => this.toggleColumns());
    const buttons = el("div", { class: "table-buttons" }, this.all, this.unfold);
    this.element = el("div", { class: "usage-figures" }, buttons, this.table, this.more);
  }

  /**
   * @param {{caption: string, dimension: string, parts?: string, rows: TableRow[], totals: any, largest?: number,
   *   measure: string}} content `largest` is the longest bar, if rows have bars
   */
  show({ caption, dimension, parts, rows, totals, largest, measure }) {
    this.caption.textContent = caption;
    this.head.replaceChildren(headRow(dimension));
    this.foot.replaceChildren(el("tr", { role: "row" }, rowHead("Total"), ...cells(totals)));
    this.unfold.textContent = `Each row by ${parts ?? ""}`;
    this.unfold.setAttribute("aria-pressed", "false");
    this.unfold.hidden = !rows.some((row) => row.parts.length);
    this.body.replaceChildren();
    this.rest = rows.map((row) => () => tableRows(row, { largest, measure }));
    this.add();
  }

  /** Add the next rows. */
  add() {
    const next = this.rest?.splice(0, PAGE) ?? [];
    this.body.append(...next.flatMap((make) => make()));
    const left = this.rest?.length ?? 0;
    this.more.hidden = !left;
    this.more.textContent = `${formatNumber(left)} more`;
    if (this.isUnfolded) this.setAll(true);
  }

  get isUnfolded() {
    return this.unfold.getAttribute("aria-pressed") === "true";
  }

  toggleAll() {
    this.unfold.setAttribute("aria-pressed", String(!this.isUnfolded));
    this.setAll(this.isUnfolded);
  }

  /** On narrow screens, show all figures of each row, or the most important ones. */
  toggleColumns() {
    const isAll = this.table.toggleAttribute("data-all");
    this.all.setAttribute("aria-pressed", String(isAll));
  }

  setAll(isOpen) {
    this.body.querySelectorAll(".parts-toggle").forEach((toggle) => setOpen(toggle, isOpen));
  }
}

function headRow(dimension) {
  const columns = COLUMNS.map(([title, hint]) => el("th", { role: "columnheader", scope: "col", title: hint }, title));
  return el("tr", { role: "row" }, el("th", { role: "columnheader", scope: "col" }, dimension), ...columns);
}

/** A row and the rows of its parts. */
function tableRows(row, { largest, measure }) {
  const toggle = row.parts.length > 0 && partsToggle(row.name);
  const dot = row.source && el("span", { class: "source-dot", "data-source": row.source });
  const notes = row.notes.map((note) => el("p", { class: "row-note" }, note));
  const bar = largest !== undefined && rowBar(row, largest, measure);
  const name = el("div", { class: "row-name" }, el("div", { class: "row-title" }, toggle, dot, link(row)), ...notes, bar);
  const parts = row.parts.map(partRow);
  return [el("tr", { role: "row", class: "usage-row" }, rowHead(name), ...cells(row.counts)), ...parts];
}

function partRow({ name, href, series, counts }) {
  const label = el("div", { class: "row-title" }, swatch(series), link({ name, href }));
  return el("tr", { role: "row", class: "usage-part", hidden: true }, rowHead(label), ...cells(counts));
}

function partsToggle(name) {
  const attributes = { class: "parts-toggle icon-button", "aria-expanded": "false", "aria-label": `Parts of ${name}` };
  const toggle = button(attributes, null, () => setOpen(toggle, toggle.getAttribute("aria-expanded") !== "true"));
  return toggle;
}

/** Show or hide the parts below a row. */
function setOpen(toggle, isOpen) {
  toggle.setAttribute("aria-expanded", String(isOpen));
  let row = toggle.closest("tr")?.nextElementSibling;
  for (; row?.classList.contains("usage-part"); row = row.nextElementSibling) row.hidden = !isOpen;
}

export function swatch(series) {
  return el("span", { class: `swatch ${series}`, "aria-hidden": "true" });
}

/** @param {{name: string, title?: string, href?: string}} row */
function link({ name, title, href }) {
  return href ? el("a", { href, title, dir: "auto" }, name) : el("span", { title, dir: "auto" }, name);
}

function rowHead(content) {
  return el("th", { role: "rowheader", scope: "row" }, content);
}

function cells(counts) {
  return COLUMNS.map(([title, , text, exact]) => {
    const number = exact?.(counts);
    const hint = number === undefined ? undefined : title === "Cost" ? `$${number}` : formatNumber(number);
    return el("td", { role: "cell", "data-label": title, title: hint }, text(counts));
  });
}

/** The size of a row as a bar, with its parts. */
function rowBar({ counts, parts }, largest, measure) {
  const pieces = parts.length ? parts.map((part) => [part.series, part.counts]) : [["series-1", counts]];
  let start = 0;
  const rects = pieces.map(([series, piece]) => {
    const width = largest ? (measureOf(piece, measure) / largest) * BAR_LENGTH : 0;
    start += width;
    return svg("rect", { class: series, x: start - width, y: 0, width, height: 1 });
  });
  const box = { class: "row-bar", viewBox: `0 0 ${BAR_LENGTH} 1`, preserveAspectRatio: "none", "aria-hidden": "true" };
  return svg("svg", box, ...rects);
}

function tokens(number) {
  return (counts) => formatCompact(number(counts));
}

/** @returns {[text: (counts: any) => string, exact: (counts: any) => number]} */
function count(name) {
  const number = (counts) => counts[name];
  return [tokens(number), number];
}

