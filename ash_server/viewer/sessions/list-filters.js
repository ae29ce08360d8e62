/** The filters of the list: parsed from the page's address, sent to the API, and matched against sessions. */
import { withQuery } from "../lib/api.js";
import { lastActivity } from "./session-groups.js";
import { agentOf } from "../lib/source-names.js";
import { midnight, readDate, startOfDate, toIso } from "../lib/time-span.js";
import { oneLine } from "../lib/title-text.js";

export const NO_FILTERS = { q: "", source: "", since: "", until: "", errors: "", tools: "" };

/** Days before today, by the name in the address. */
export const SPANS = { today: 0, "7d": 6, "30d": 29 };

const READERS = {
  q: oneLine,
  source: (text) => text.trim(),
  since: (text) => (Object.hasOwn(SPANS, text) ? text : readDate(text)),
  until: readDate,
  errors: flag,
  tools: flag,
};

export function parseFilters(search) {
  const query = new URLSearchParams(search);
  const values = Object.entries(READERS).map(([name, read]) => [name, read(query.get(name) ?? "")]);
  return { ...NO_FILTERS, ...Object.fromEntries(values) };
}

export function filtersUrl(filters) {
  return withQuery("/", filters);
}

/** True if there is a filter besides the text. Searches ignore the errors filter. */
export function isNarrowed({ q, source, since, until, errors }) {
  return Boolean(source || since || until || (errors && !q));
}

/** The same search without other filters. */
export function withoutFilters({ q, tools }) {
  return { ...NO_FILTERS, q, tools };
}

/** The query parameters shared by the list and the search of the API. */
export function apiParameters({ source, since, until, errors }, now) {
  return { source, since: toIso(startTime(since, now)), until: toIso(endTime(until)), errors };
}

/** True if a session matches the filters and is not archived. */
export function matchesFilters(session, { source, since, until, errors }, now) {
  const activity = lastActivity(session);
  return (
    !session.labels?.archived &&
    (!source || session.source === source || agentOf(session) === source) &&
    (!since || activity >= (startTime(since, now) ?? 0)) &&
    (!until || activity < (endTime(until) ?? 0)) &&
    (!errors || session.errorCount > 0)
  );
}

function flag(text) {
  return text === "true" ? text : "";
}

function startTime(since, now) {
  if (!since) return undefined;
  return Object.hasOwn(SPANS, since) ? midnight(now, -SPANS[since]) : startOfDate(since);
}

/** The end of the named day, which is included. */
function endTime(until) {
  return until ? startOfDate(until, 1) : undefined;
}
