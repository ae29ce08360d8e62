/** What is looked for, as the address of the page has it, as the API takes it, and as a session meets it. */
import { withQuery } from "../lib/api.js";
import { activeAt } from "./session-groups.js";
import { oneLine } from "./session-row.js";

export const NOTHING = { q: "", source: "", since: "", until: "", errors: "", tools: "" };

/** Days back from today, by the word in the address. */
export const SPANS = { today: 0, "7d": 6, "30d": 29 };

const DATE = /^\d{4}-\d\d-\d\d$/;

const READERS = {
  q: oneLine,
  source: (text) => text.trim(),
  since: (text) => (Object.hasOwn(SPANS, text) ? text : date(text)),
  until: date,
  errors: flag,
  tools: flag,
};

export function filtersOf(search) {
  const given = new URLSearchParams(search);
  const read = Object.entries(READERS).map(([name, reader]) => [name, reader(given.get(name) ?? "")]);
  return { ...NOTHING, ...Object.fromEntries(read) };
}

export function addressOf(filters) {
  return withQuery("/", filters);
}

/** Whether anything but the text is asked for. A search does not look for errors. */
export function isNarrowed({ q, source, since, until, errors }) {
  return Boolean(source || since || until || (errors && !q));
}

/** The same search, everywhere. */
export function withoutFilters({ q, tools }) {
  return { ...NOTHING, q, tools };
}

/** What list and search of the API have in common. */
export function parametersOf({ source, since, until, errors }, now) {
  return { source, since: isoOf(begin(since, now)), until: isoOf(end(until)), errors };
}

/** Whether a session that just changed belongs to the list. */
export function isMet(session, { source, since, until, errors }, now) {
  const at = activeAt(session);
  return (
    (!source || session.source === source) &&
    (!since || at >= begin(since, now)) &&
    (!until || at < end(until)) &&
    (!errors || session.errorCount > 0)
  );
}

function date(text) {
  return DATE.test(text) && !Number.isNaN(Date.parse(`${text}T00:00`)) ? text : "";
}

function flag(text) {
  return text === "true" ? text : "";
}

function begin(since, now) {
  if (!since) return undefined;
  return Object.hasOwn(SPANS, since) ? midnight(now, -SPANS[since]) : Date.parse(`${since}T00:00`);
}

/** The day that is named belongs to it. */
function end(until) {
  return until ? midnight(Date.parse(`${until}T00:00`), 1) : undefined;
}

function midnight(milliseconds, days) {
  const day = new Date(milliseconds);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + days).getTime();
}

function isoOf(milliseconds) {
  return milliseconds === undefined ? undefined : new Date(milliseconds).toISOString();
}
