/** Sums of the rows of a report. No DOM. */
import { formatCents } from "../lib/number-format.js";

const COUNTS = [
  "answers",
  "input_tokens",
  "output_tokens",
  "total_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
  "reasoning_tokens",
  "web_searches",
  "reportedAnswers",
  "unpricedAnswers",
];
const COSTS = ["costUsd", "computedCostUsd", "reportedCostUsd"];
const NANO = 1e9;
/** The value of a dimension that no record states. */
export const UNKNOWN = "unknown";

/** The series of a chart: at most as many as there are colours. */
const MAX_SERIES = 7;

/**
 * The figures of a row, a part of a row or of a total.
 * @typedef {Record<string, any>} Counts
 */

/**
 * A value of the first dimension: its figures and its parts by the value of the second one.
 * @typedef {{value: string, row: any, counts: Counts, parts: Map<string, Counts>}} Group
 */

/** A value of the second dimension. @typedef {{value: string, counts: Counts}} Series */

/** All tokens, including cache tokens. */
export function allTokens(counts) {
  return allInput(counts) + counts.output_tokens;
}

/** Input tokens, including those read from the cache and written to it. */
export function allInput(counts) {
  return counts.input_tokens + counts.cache_read_input_tokens + counts.cache_creation_input_tokens;
}

/** The size of a bar. */
export function measureOf(counts, measure) {
  return measure === "tokens" ? allTokens(counts) : Math.max(0, counts.costUsd ?? 0);
}

/** The cost in a table, as in the command line: with a plus sign if answers without a price are not included. */
export function costCell(counts) {
  if (counts.costUsd === undefined) return counts.unpricedAnswers ? "unpriced" : "–";
  return formatCents(counts.costUsd) + (counts.unpricedAnswers ? "+" : "");
}

/**
 * The rows of a report by the first dimension, in their order.
 *
 * @param {any[]} rows
 * @param {string} by
 * @param {string | undefined} parts
 * @returns {Group[]}
 */
export function groupRows(rows, by, parts) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const row of rows) {
    const value = valueOf(row, by);
    const group = groups.get(value) ?? { value, row, counts: row, parts: new Map() };
    if (groups.has(value)) group.counts = addCounts(group.counts, row);
    if (parts !== undefined) group.parts.set(valueOf(row, parts), row);
    groups.set(value, group);
  }
  return [...groups.values()];
}

/**
 * The values of the second dimension, the largest first.
 *
 * @param {Group[]} groups
 * @param {string} measure
 * @returns {Series[]}
 */
export function seriesOf(groups, measure) {
  const sums = new Map();
  for (const { parts } of groups) {
    for (const [value, counts] of parts) sums.set(value, sums.has(value) ? addCounts(sums.get(value), counts) : counts);
  }
  return sortBySize([...sums].map(([value, counts]) => ({ value, counts })), measure);
}

/** Sort groups or series, the largest first. */
export function sortBySize(groups, measure) {
  const size = ({ counts }) => [measureOf(counts, measure), allTokens(counts)];
  return [...groups].sort((one, other) => compare(size(other), size(one)));
}

/** The value of a dimension of a row, as a text. */
export function valueOf(row, dimension) {
  const value = row[dimension];
  return (dimension === "session" ? value?.id : value) ?? UNKNOWN;
}

/** Whether a series shares its colour with others, because there are more series than colours. */
export function isShared(index, count) {
  return count > MAX_SERIES && index >= MAX_SERIES - 1;
}

/** The class of a series, which styles/usage.css gives a colour. */
export function seriesClass(index, count) {
  return isShared(index, count) ? "series-other" : `series-${index + 1}`;
}

/** The sum; costs are added in nano-dollars, and absent if neither has one. */
export function addCounts(one, other) {
  const sum = {};
  for (const name of COUNTS) sum[name] = (one[name] ?? 0) + (other[name] ?? 0);
  for (const name of COSTS) {
    const values = [one[name], other[name]].filter((value) => value !== undefined);
    if (values.length) sum[name] = values.reduce((total, value) => total + Math.round(value * NANO), 0) / NANO;
  }
  return sum;
}

function compare(ones, others) {
  const index = ones.findIndex((value, place) => value !== others[place]);
  return index < 0 ? 0 : ones[index] - others[index];
}
