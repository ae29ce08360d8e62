/** Which sessions belong together, in which order they stand, and on which day. */
import { dayKey } from "../lib/time-format.js";

/** When something last happened, as the list of the API is ordered. */
export function activeAt({ lastAt, updatedAt }) {
  const stored = Date.parse(updatedAt);
  return lastAt === undefined ? stored : Math.min(Date.parse(lastAt), stored);
}

/**
 * Sessions with their subagents, as old as the newest of them. Where the one that started them is not there,
 * the newest stands for it.
 */
export function grouped(sessions, byId) {
  const groups = new Map();
  for (const session of [...sessions].sort(newestFirst)) {
    const key = rootOf(session, byId);
    const group = groups.get(key) ?? alone(key, byId.get(key) ?? session, activeAt(session));
    if (session.id !== group.lead.id) group.children.push(session);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Each for itself. */
export function single(sessions) {
  return [...sessions]
    .sort(newestFirst)
    .map((session) => alone(session.id, session, activeAt(session)));
}

/**
 * The groups that should stand elsewhere than they do. Those that are live, with nothing quiet and older
 * above them, are left where they are: else two of them would change places all the time.
 */
export function movers(groups, places, isLive) {
  const placed = groups.filter(({ key }) => places.has(key)).sort(inPlace(places));
  const moved = groups.filter(({ key }) => !places.has(key));
  let oldest = Infinity;
  for (const group of placed) {
    if (group.at > oldest || dayKey(group.at) !== dayKey(places.get(group.key))) moved.push(group);
    if (!isLive(group)) oldest = Math.min(oldest, group.at);
  }
  return moved;
}

export function inPlace(places) {
  return (one, other) => places.get(other.key) - places.get(one.key) || (one.key < other.key ? 1 : -1);
}

function alone(key, lead, at) {
  return { key, lead, at, children: [] };
}

function newestFirst(one, other) {
  return activeAt(other) - activeAt(one) || (one.id < other.id ? 1 : -1);
}

/** The id of the first ancestor, whether or not that is there. */
function rootOf(session, byId) {
  const seen = new Set();
  let { id } = session;
  for (let parent = session.parentId; parent !== undefined; parent = byId.get(id)?.parentId) {
    if (seen.has(parent)) return session.id;
    seen.add(parent);
    id = parent;
  }
  return id;
}
