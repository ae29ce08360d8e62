/** Names of the values of dimensions, and the addresses that they lead to. */
import { showHiddenCharacters } from "../lib/ansi.js";
import { likePage } from "../lib/api.js";
import { agentOf, sourceName } from "../lib/source-names.js";
import { dateOf } from "../lib/time-span.js";
import { oneLine, stripMarkdown } from "../lib/title-text.js";
import { sessionAddress } from "../session/permalinks.js";
import { longName, spanOfPeriod, startOf } from "./periods.js";
import { UNKNOWN } from "./usage-figures.js";
import { PERIODS, boundsOf, usageAddress } from "./usage-filters.js";

const UNKNOWN_NAMES = {
  project: "No project",
  model: "No model",
  machine: "Unknown machine",
  key: "Without a key",
};
const ID_LENGTH = 8;

/**
 * A value as people read it.
 *
 * @param {string} dimension
 * @param {string} value
 * @param {any} [row] the row of the report, for sessions
 */
export function nameOf(dimension, value, row) {
  if (PERIODS.has(dimension)) return value === UNKNOWN ? "Unknown time" : longName(dimension, startOf(dimension, value));
  if (value === UNKNOWN) return UNKNOWN_NAMES[dimension] ?? "Unknown";
  const name = Object.hasOwn(NAMES, dimension) ? NAMES[dimension](value, row) : value;
  return showHiddenCharacters(name || value);
}

const NAMES = {
  session: (id, row) => stripMarkdown(oneLine(row?.session?.title)) || id.slice(0, ID_LENGTH),
  project: (path) => path.split(/[/\\]+/).filter(Boolean).slice(-2).join("/"),
  source: sourceName,
  agent: sourceName,
  key: (id) => id.slice(0, ID_LENGTH),
};

/** The source of a value, for its dot. */
export function sourceOf(dimension, value, row) {
  if (dimension === "session") return row?.session?.source && agentOf(row.session);
  return dimension === "source" || dimension === "agent" ? value : undefined;
}

/**
 * The address of a figure: a session, or the sessions with these values. Undefined if no filter has a value.
 *
 * @param {import("./usage-filters.js").UsageFilters} filters
 * @param {[dimension: string, value: string, row?: any][]} values
 */
export function addressOf(filters, values) {
  if (values.some(([, value]) => value === UNKNOWN)) return undefined;
  const [[dimension, value]] = values;
  if (dimension === "session") return likePage(sessionAddress(value));
  const narrowed = values.map((each) => narrow(filters, ...each));
  return usageAddress(Object.assign({ ...filters, by: "session", parts: "" }, ...narrowed));
}

function narrow(filters, dimension, value, row) {
  if (!PERIODS.has(dimension)) return { [dimension]: value };
  if (dimension === "block") return { since: row.window.start, until: row.window.end };
  return intersect(filters, spanOfPeriod(dimension, startOf(dimension, value)));
}

/** The span of a period, without the parts that the filters exclude. */
function intersect(filters, span) {
  const now = Date.now();
  const [outer, inner] = [boundsOf(filters, now), boundsOf({ ...filters, ...span }, now)];
  const isSinceLater = outer.since !== undefined && inner.since !== undefined && outer.since > inner.since;
  const isUntilEarlier = outer.until !== undefined && inner.until !== undefined && outer.until < inner.until;
  const since = isSinceLater && outer.since !== undefined ? dateOrTime(filters.since, outer.since) : span.since;
  return { since, until: isUntilEarlier ? filters.until : span.until };
}

function dateOrTime(text, moment) {
  return text.includes("T") ? text : dateOf(moment);
}
