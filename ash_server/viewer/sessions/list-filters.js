/** The filters of the list: parsed from the page's address, sent to the API, and matched against sessions. */
import { withQuery } from "../lib/api.js";
import { lastActivity } from "./session-groups.js";
import { folderName } from "../lib/session-facts.js";
import { agentOf } from "../lib/source-names.js";
import { midnight, readDate, startOfDate, toIso } from "../lib/time-span.js";
import { oneLine } from "../lib/title-text.js";

export const NO_FILTERS = {
  q: "", source: "", since: "", until: "", errors: "", tools: "",
  project: "", branch: "", model: "", machine: "", person: "", tag: "", starred: "", archived: "",
};

/** Filters without a control of their own: shown while they are set, by the names of the API. */
export const NAMED_FILTERS = { tag: "Tag", archived: "Archived" };

/** Days before today, by the name in the address. */
export const SPANS = { today: 0, "7d": 6, "30d": 29 };

const READERS = {
  q: oneLine,
  source: (text) => text.trim(),
  since: (text) => (Object.hasOwn(SPANS, text) ? text : readDate(text)),
  until: readDate,
  errors: flag,
  tools: flag,
  starred: flag,
  archived: flag,
  ...Object.fromEntries(["project", "branch", "model", "machine", "person", "tag"].map((name) => [name, oneLine])),
};

export function parseFilters(search) {
  const query = new URLSearchParams(search);
  const values = Object.entries(READERS).map(([name, read]) => [name, read(query.get(name) ?? "")]);
  return { ...NO_FILTERS, ...Object.fromEntries(values) };
}

export function filtersUrl(filters) {
  return withQuery("/", filters);
}

/** True if there is a filter besides the text. */
export function isNarrowed(filters) {
  return Object.keys(MATCHES).some((name) => filters[name]);
}

/** The same search without other filters. */
export function withoutFilters({ q, tools }) {
  return { ...NO_FILTERS, q, tools };
}

/** The query parameters shared by the list and the search of the API. */
export function apiParameters({ source, since, until, errors, starred, archived, ...filters }, now) {
  const { project, branch, model, machine, person, tag } = filters;
  const times = { since: toIso(startTime(since, now)), until: toIso(endTime(until)) };
  const places = { source, project, branch, model, machine, person };
  return { ...places, ...times, errors, tag, starred, archived: archived ? "only" : undefined };
}

/** Whether a session matches the value of a filter. */
const MATCHES = {
  source: (session, source) => session.source === source || agentOf(session) === source,
  since: (session, since, now) => lastActivity(session) >= (startTime(since, now) ?? 0),
  until: (session, until) => lastActivity(session) < (endTime(until) ?? 0),
  errors: ({ errorCount }) => errorCount > 0,
  project: isInProject,
  branch: (session, branch) => session.branch === branch,
  model: ({ models = [] }, model) => models.includes(model),
  machine: (session, machine) => session.machine === machine,
  person: (session, person) => session.person === person,
  tag: ({ labels }, tag) => Boolean(labels?.tags.includes(tag)),
  starred: ({ labels }) => Boolean(labels?.starred),
  archived: ({ labels }) => Boolean(labels?.archived),
};

/** True if a session matches the filters. Without the filter for archived sessions, these do not. */
export function matchesFilters(session, filters, now) {
  const isShown = filters.archived || !session.labels?.archived;
  return isShown && Object.entries(MATCHES).every(([name, matches]) => !filters[name] || matches(session, filters[name], now));
}

/** True for the root of a project, a folder below it, and the last name of its path. */
function isInProject({ project, folder }, wanted) {
  const root = wanted.replace(/(?<=.)\/+$/, "");
  const paths = [project, folder].filter((path) => path !== undefined);
  return paths.some((path) => path === root || path.startsWith(`${root}/`)) || folderName(project) === root;
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
