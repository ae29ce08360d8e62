/** The choices of the page of usage: parsed from its address, and sent to the API. */
import { likePage, withQuery } from "../lib/api.js";
import { midnight, readDate, startOfDate, toIso } from "../lib/time-span.js";
import { oneLine } from "../lib/title-text.js";

/** Dimensions of rows, by the name in the address. */
export const DIMENSIONS = {
  hour: "Hour",
  day: "Day",
  week: "Week",
  month: "Month",
  block: "Five hours",
  session: "Session",
  project: "Project",
  model: "Model",
  source: "Source",
  agent: "Program",
  machine: "Machine",
  key: "Key",
};
export const PERIODS = new Set(["hour", "day", "week", "month", "block"]);

/** Dimensions that split the bars. */
export const PARTS = ["model", "project", "source", "agent", "machine"];
export const NO_PARTS = "none";

/** Days before today, by the name in the address; "all" has no start. */
export const SPANS = { today: 0, "7d": 6, "30d": 29, "90d": 89, all: Infinity };
const DEFAULT_SPAN = "30d";

/** Filters with the exact value of a dimension. */
export const VALUES = ["project", "model", "source", "agent", "machine", "key", "session"];

const COSTS = { reported: "reported", computed: "computed" };
const MEASURES = { tokens: "tokens" };
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

export const NO_FILTERS = {
  by: "",
  parts: "",
  measure: "",
  cost: "",
  since: "",
  until: "",
  project: "",
  model: "",
  source: "",
  agent: "",
  machine: "",
  key: "",
  session: "",
};

const READERS = {
  by: oneOf(DIMENSIONS),
  parts: oneOf({ ...Object.fromEntries(PARTS.map((name) => [name, name])), [NO_PARTS]: NO_PARTS }),
  measure: oneOf(MEASURES),
  cost: oneOf(COSTS),
  since: (text) => (Object.hasOwn(SPANS, text) ? text : readMoment(text)),
  until: readMoment,
};

/** @typedef {typeof NO_FILTERS} UsageFilters */

/** @returns {UsageFilters} */
export function parseFilters(search) {
  const query = new URLSearchParams(search);
  const names = Object.keys(NO_FILTERS);
  return /** @type {any} */ (
    Object.fromEntries(names.map((name) => [name, (READERS[name] ?? oneLine)(query.get(name) ?? "")]))
  );
}

/** The address of the page; a redacted page leads to redacted ones. */
export function usageAddress(filters) {
  return likePage(withQuery("/usage", filters));
}

/** The span in the address, or the one that applies without any. */
export function spanOf({ since, until }) {
  return since || (until ? "all" : DEFAULT_SPAN);
}

/** The first dimension: without a choice, hours of a day, days of some weeks, else months. */
export function rowsOf(filters) {
  if (filters.by) return filters.by;
  const { since, until } = boundsOf(filters, Date.now());
  const days = since === undefined ? Infinity : ((until ?? Date.now()) - since) / 86_400_000;
  if (days <= 1.5) return "hour";
  return days <= 100 ? "day" : "month";
}

/** The dimension that splits the rows, if any: without a choice, periods are split by model. */
export function partsOf(filters) {
  const by = rowsOf(filters);
  const parts = filters.parts || (PERIODS.has(by) ? "model" : NO_PARTS);
  return parts === NO_PARTS || parts === by ? undefined : parts;
}

/** True if something besides the time narrows the report. */
export function isNarrowed(filters) {
  return VALUES.some((name) => filters[name]);
}

/** The same choices without filters. */
export function withoutFilters(filters) {
  const { by, parts, measure, cost } = filters;
  return { ...NO_FILTERS, by, parts, measure, cost };
}

/** The first moment and the end, in milliseconds. */
export function boundsOf(filters, now) {
  const span = spanOf(filters);
  return { since: startTime(span, now), until: endTime(filters.until) };
}

/** The parameters of the API. */
export function apiParameters(filters, dimensions, now) {
  const { since, until } = boundsOf(filters, now);
  const values = Object.fromEntries(VALUES.map((name) => [name, filters[name]]));
  return {
    by: dimensions.join(","),
    timezone: timeZone(),
    since: toIso(since),
    until: toIso(until),
    ...values,
    cost: filters.cost,
  };
}

/** The time zone of the browser. */
export function timeZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

function oneOf(choices) {
  return (text) => (Object.hasOwn(choices, text) ? text : "");
}

function readMoment(text) {
  return TIME.test(text) && !Number.isNaN(Date.parse(text)) ? text : readDate(text);
}

function startTime(since, now) {
  if (Object.hasOwn(SPANS, since)) return Number.isFinite(SPANS[since]) ? midnight(now, -SPANS[since]) : undefined;
  return TIME.test(since) ? Date.parse(since) : startOfDate(since);
}

/** A named day is included; a time is the end. */
function endTime(until) {
  if (!until) return undefined;
  return TIME.test(until) ? Date.parse(until) : startOfDate(until, 1);
}
