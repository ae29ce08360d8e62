import { showHiddenCharacters } from "../lib/ansi.js";
import { button, el } from "../lib/dom.js";
import { formatCents, formatCompact, formatNumber, formatShare, pluralize } from "../lib/number-format.js";
import { commandLine, placeholder } from "../lib/placeholders.js";
import { BarChart } from "./bar-chart.js";
import { axisOf, longName, startOf } from "./periods.js";
import { DIMENSIONS, NO_FILTERS, PERIODS, boundsOf, isNarrowed, partsOf, rowsOf, spanOf } from "./usage-filters.js";
import {
  addCounts,
  allInput,
  allTokens,
  costCell,
  groupRows,
  isShared,
  measureOf,
  seriesClass,
  seriesOf,
  sortBySize,
} from "./usage-figures.js";
import { addressOf, nameOf, sourceOf } from "./usage-names.js";
import { notes } from "./usage-notes.js";
import { UsageTable, hitRate, swatch } from "./usage-table.js";

/** The figures of a report: totals, bars, a table and notes. */
export class UsageView {
  /** @param {{go: (filters: import("./usage-filters.js").UsageFilters) => void}} on */
  constructor(on) {
    this.on = on;
    this.chart = new BarChart();
    this.table = new UsageTable();
    this.element = el("div", { class: "usage-view" });
  }

  /**
   * @param {any} report
   * @param {import("./usage-filters.js").UsageFilters} filters
   */
  show(report, filters) {
    if (!report.totals.answers && !report.rows.length) {
      this.element.replaceChildren(this.emptyNotice(filters), ...notes(report));
      return;
    }
    const by = rowsOf(filters);
    const parts = partsOf(filters);
    const { measure } = filters;
    const isPeriod = PERIODS.has(by);
    const read = groupRows(report.rows, by, parts);
    const groups = isPeriod ? read : sortBySize(read, measure);
    const series = parts === undefined ? [] : seriesOf(groups, measure);
    const content = { by, parts, groups, series, filters, totals: report.totals };
    this.element.replaceChildren(
      totals(report.totals, filters.cost),
      ...(isPeriod ? this.bars(content) : []),
      ...(parts === undefined ? [] : [legend(content)]),
      this.figures(content),
      ...notes(report),
    );
    if (isPeriod) this.chart.draw();
  }

  bars({ by, parts, groups, series, filters }) {
    const now = Date.now();
    const { measure } = filters;
    const byStart = new Map(groups.map((group) => [startOf(by, group.value), group]));
    const starts = [...byStart.keys()].filter((start) => !Number.isNaN(start));
    const slots = axisOf(by, starts, boundsOf(filters, now), now).map((start) => {
      const group = byStart.get(start);
      return { start, group, href: group && addressOf(filters, [[by, group.value, group.row]]) };
    });
    if (!slots.length) return [];
    this.chart.show({ by, measure, slots, series, label: describe(by, parts, measure, slots) });
    return [this.chart.element];
  }

  figures({ by, parts, groups, series, filters, totals }) {
    const { measure } = filters;
    const isPeriod = PERIODS.has(by);
    const classes = new Map(series.map(({ value }, index) => [value, seriesClass(index, series.length)]));
    const rows = groups.map((group) => tableRow(group, { by, parts, filters, classes }));
    const sizes = groups.map(({ counts }) => measureOf(counts, measure));
    this.table.show({
      caption: caption(by, parts),
      dimension: DIMENSIONS[by],
      parts: parts && DIMENSIONS[parts].toLowerCase(),
      rows: isPeriod ? rows.reverse() : rows,
      totals,
      measure,
      ...(!isPeriod && { largest: sizes.reduce((one, other) => Math.max(one, other), 0) }),
    });
    return this.table.element;
  }

  emptyNotice(filters) {
    const isAll = spanOf(filters) === "all" && !filters.until;
    if (isAll && !isNarrowed(filters)) return noUsage();
    const { by, parts, measure, cost } = filters;
    const all = { ...NO_FILTERS, by, parts, measure, cost, since: "all" };
    return placeholder("none", "No usage", {
      detail: isNarrowed(filters) ? "The filters exclude all answers." : "No model answered in this time.",
      children: [button({ class: "action" }, "Show all", () => this.on.go(all))],
    });
  }
}

function noUsage() {
  const { tenant } = document.body.dataset;
  return placeholder("empty", "No usage yet", {
    detail: tenant
      ? "Send the sessions that command-line agents have stored on your machine:"
      : "Import the sessions that command-line agents have stored on this machine:",
    children: [commandLine(tenant ? "ash push --discover" : "ash import --all")],
  });
}

function totals(counts, mode) {
  return el(
    "dl",
    { class: "usage-totals" },
    tile("Cost", costCell(counts), costDetail(counts, mode)),
    tile("Tokens", formatCompact(allTokens(counts)), `${formatCompact(counts.output_tokens)} output`, allTokens(counts)),
    tile("Cache hit rate", hitRate(counts), `of ${formatCompact(allInput(counts))} input tokens`),
    tile("Answers", formatNumber(counts.answers), answersDetail(counts)),
  );
}

function tile(name, value, detail, exact) {
  const title = exact === undefined ? undefined : formatNumber(exact);
  return el("div", {}, el("dt", {}, name), el("dd", { class: "total", title }, value), el("dd", { class: "detail" }, detail));
}

/** What the total cost consists of: reported costs, and costs at API prices. */
function costDetail({ answers, costUsd, reportedCostUsd, reportedAnswers, unpricedAnswers }, mode) {
  const isMixed = mode === "" && reportedAnswers > 0 && costUsd !== undefined && reportedCostUsd !== undefined;
  const isReported = mode === "reported" || (mode === "" && reportedAnswers === answers);
  const rest = isMixed && !isReported && `, ${formatCents(costUsd - reportedCostUsd)} at API prices`;
  const origin = rest ? `${formatCents(reportedCostUsd)} as reported${rest}` : isReported ? "as reported" : "at API prices";
  const missing = unpricedAnswers > 0 && `${pluralize(unpricedAnswers, "answer")} unpriced`;
  return [costUsd !== undefined && origin, missing].filter(Boolean).join(" · ");
}

function answersDetail({ answers, costUsd, unpricedAnswers, web_searches: searches }) {
  const each = costUsd !== undefined && !unpricedAnswers && `${formatCents(costUsd / answers)} each`;
  const web = searches > 0 && `${formatNumber(searches)} web search${searches === 1 ? "" : "es"}`;
  return [each, web].filter(Boolean).join(" · ");
}

/** The values of the second dimension: colour, figures and sessions. */
function legend({ parts, series, filters, totals }) {
  const { measure } = filters;
  const whole = measureOf(totals, measure);
  const line = (index, name, counts) => {
    const figure = measure === "tokens" ? formatCompact(allTokens(counts)) : costCell(counts);
    const size = measureOf(counts, measure);
    const facts = [figure, size > 0 && formatShare(size, whole)].filter(Boolean).join(" · ");
    const mark = swatch(seriesClass(index, series.length));
    return el("li", {}, mark, name, " ", el("span", { class: "legend-figure" }, facts));
  };
  const own = series.filter((_, index) => !isShared(index, series.length));
  const shared = series.slice(own.length);
  const others = shared.length > 0 && shared.map(({ counts }) => counts).reduce(addCounts);
  return el(
    "ul",
    { class: "legend", "aria-label": `By ${DIMENSIONS[parts].toLowerCase()}` },
    ...own.map(({ value, counts }, index) => line(index, valueLink(filters, parts, value), counts)),
    others && line(own.length, `${formatNumber(shared.length)} others`, others),
  );
}

function valueLink(filters, dimension, value) {
  const href = addressOf(filters, [[dimension, value]]);
  return el(href ? "a" : "span", { href, title: showHiddenCharacters(value), dir: "auto" }, nameOf(dimension, value));
}

function tableRow({ value, row, counts, parts: byPart }, { by, parts, filters, classes }) {
  const at = /** @type {[string, string, any]} */ ([by, value, row]);
  const known = [...classes].flatMap(([part, series]) => (byPart.has(part) ? [{ part, series, counts: byPart.get(part) }] : []));
  return {
    name: nameOf(by, value, row),
    title: by === "project" ? showHiddenCharacters(value) : undefined,
    href: addressOf(filters, [at]),
    source: sourceOf(by, value, row),
    notes: rowNotes(row),
    counts,
    parts: known.map(({ part, series, counts }) => ({
      name: nameOf(parts, part),
      href: by === "session" ? undefined : addressOf(filters, [at, [parts, part]]),
      series,
      counts,
    })),
  };
}

function rowNotes({ withSubagents, differenceUsd, reportedCostUsd, computedCostUsd, burn }) {
  const notes = [];
  if (withSubagents) notes.push(`${costCell(withSubagents)} with subagents`);
  if (differenceUsd) {
    notes.push(`reported ${formatCents(reportedCostUsd)}, computed ${formatCents(computedCostUsd)}`);
  }
  if (burn) notes.push(burnText(burn));
  return notes;
}

function burnText({ tokensPerMinute, costUsdPerMinute, projectedTokens, projectedCostUsd }) {
  const pace = [`${formatCompact(tokensPerMinute)} tokens`, costUsdPerMinute !== undefined && formatCents(costUsdPerMinute)];
  const end = [`${formatCompact(projectedTokens)} tokens`, projectedCostUsd !== undefined && formatCents(projectedCostUsd)];
  const list = (texts) => texts.filter(Boolean).join(", ");
  return `active: ${list(pace)} a minute; at this pace ${list(end)} at its end`;
}

function caption(by, parts) {
  const name = DIMENSIONS[by].toLowerCase();
  return parts === undefined ? `By ${name}` : `By ${name} and ${DIMENSIONS[parts].toLowerCase()}`;
}

/** The text alternative of the bars. */
function describe(by, parts, measure, slots) {
  const name = measure === "tokens" ? "Tokens" : "Cost";
  const used = slots.filter(({ group }) => group);
  const size = ({ group }) => measureOf(group.counts, measure);
  const highest = used.reduce((one, other) => (size(other) > size(one) ? other : one));
  const { counts } = highest.group;
  const figure = measure === "tokens" ? `${formatNumber(allTokens(counts))} tokens` : costCell(counts);
  const split = parts === undefined ? "" : `, stacked by ${DIMENSIONS[parts].toLowerCase()}`;
  const [first, last] = [slots[0], slots[slots.length - 1]].map(({ start }) => longName(by, start));
  const range = `${first} to ${last}`;
  return `${name} by ${DIMENSIONS[by].toLowerCase()}${split}: ${range}; the most is ${figure} on ${longName(by, highest.start)}. The table below has these figures.`;
}
