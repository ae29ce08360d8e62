/** Group sessions with their subagents, and order the groups. */
import { dayKey } from "../lib/time-format.js";

/** The time of the last activity; the API orders its list by it. */
export function lastActivity({ lastAt, fileModifiedAt, updatedAt }) {
  const stored = Date.parse(updatedAt);
  const last = lastAt ?? fileModifiedAt;
  return last === undefined ? stored : Math.min(Date.parse(last), stored);
}

/** True if a session was stored long after it was written. */
export function isImported(session) {
  return Date.parse(session.updatedAt) - lastActivity(session) >= 60_000;
}

/**
 * A session with its subagents. `time` is the last activity of any of them.
 * @typedef {{key: string, lead: any, time: number, children: any[]}} SessionGroup
 */

/**
 * Group sessions with their subagents. The newest subagent leads a group if its root session is not loaded.
 *
 * @returns {SessionGroup[]}
 */
export function groupSessions(sessions, byId) {
  const groups = new Map();
  for (const session of [...sessions].sort(newestFirst)) {
    const key = rootOf(session, byId);
    const group = groups.get(key) ?? newGroup(key, byId.get(key) ?? session, lastActivity(session));
    if (session.id !== group.lead.id) group.children.push(session);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** One group per session. */
export function singleGroups(sessions) {
  return [...sessions]
    .sort(newestFirst)
    .map((session) => newGroup(session.id, session, lastActivity(session)));
}

/**
 * The groups that are out of place. A live group stays where it is unless an older, quiet one is above it: otherwise
 * live groups would keep swapping places.
 *
 * @param {SessionGroup[]} groups
 * @param {Map<string, number>} places the time that last determined each group's place
 * @param {(group: SessionGroup) => boolean} isLive
 */
export function groupsToMove(groups, places, isLive) {
  const placed = groups.filter(({ key }) => places.has(key)).sort(byPlace(places));
  const moving = groups.filter(({ key }) => !places.has(key));
  let oldest = Infinity;
  for (const group of placed) {
    if (group.time > oldest || dayKey(group.time) !== dayKey(places.get(group.key))) moving.push(group);
    if (!isLive(group)) oldest = Math.min(oldest, group.time);
  }
  return moving;
}

export function byPlace(places) {
  return (one, other) => places.get(other.key) - places.get(one.key) || (one.key < other.key ? 1 : -1);
}

/** @returns {SessionGroup} */
function newGroup(key, lead, time) {
  return { key, lead, time, children: [] };
}

function newestFirst(one, other) {
  return lastActivity(other) - lastActivity(one) || (one.id < other.id ? 1 : -1);
}

/** The id of the parent, or the external id of one that is not stored. */
export function parentKey(session) {
  return session?.parentId ?? session?.parentExternalId;
}

/** The key of the topmost ancestor, which may not be loaded. */
function rootOf(session, byId) {
  const seen = new Set();
  let { id } = session;
  for (let parent = parentKey(session); parent !== undefined; parent = parentKey(byId.get(id))) {
    if (seen.has(parent)) return session.id;
    seen.add(parent);
    id = parent;
  }
  return id;
}
