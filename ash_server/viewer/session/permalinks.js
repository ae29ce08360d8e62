/** Addresses of sessions and of places within them. Sequences of messages never change; an event's may. */

/**
 * An event id, and the sequence of its message or, for posted events, of the event.
 * @typedef {{id?: string, message?: number, at?: number}} Place
 */

export function sessionAddress(id) {
  return `/sessions/${encodeURIComponent(id)}`;
}

/**
 * The place that an address names, if any.
 *
 * @param {{search: string, hash: string}} address
 * @returns {Place | undefined}
 */
export function placeFromUrl({ search, hash }) {
  const query = new URLSearchParams(search);
  const id = hash.startsWith("#e-") ? decode(hash.slice(3)) : undefined;
  const place = { id, message: parseSequence(query.get("message")), at: parseSequence(query.get("at")) };
  return Object.values(place).some((value) => value !== undefined) ? place : undefined;
}

/** The place of an item. @param {{event: any}} item @returns {Place} */
export function placeOf({ event }) {
  const { id, messageSequence, sequence } = event;
  return messageSequence === undefined ? { id, at: sequence } : { id, message: messageSequence };
}

/**
 * The address of a place: path, query and hash.
 *
 * @param {string} path
 * @param {Place} place
 */
export function placeUrl(path, { id, message, at }) {
  const parameter = Object.entries({ message, at }).find(([, value]) => value !== undefined);
  const query = parameter ? `?${parameter.join("=")}` : "";
  const hash = id === undefined ? "" : `#e-${encodeURIComponent(id)}`;
  return path + query + hash;
}

/**
 * The query for the page of events that contains a place; undefined if the place has no sequence.
 *
 * @param {Place} place
 */
export function pageQuery({ message, at }) {
  if (message !== undefined) return { message };
  return at === undefined ? undefined : { at };
}

/**
 * The element of a place, if it is loaded.
 *
 * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
 * @param {Place} place
 */
export function findElement(renderer, { id, message, at }) {
  if (id === undefined) return findBySequence(renderer, { message, at }, (one, other) => one === other);
  return renderer.inOrder.find(({ item }) => eventsOf(item).some((event) => event.id === id))?.element;
}

/** The element nearest to a place that no longer exists: of its message, after it, or the last. */
export function findNearest(renderer, { message, at }) {
  const find = (matches) => findBySequence(renderer, { message, at }, matches);
  const isEqual = (one, other) => one === other;
  const isAfter = (one, other) => one > other;
  return find(isEqual) ?? find(isAfter) ?? renderer.inOrder.at(-1)?.element;
}

function findBySequence(renderer, { message, at }, matches) {
  const [key, value] = message === undefined ? ["sequence", at] : ["messageSequence", message];
  if (value === undefined) return undefined;
  return renderer.inOrder.find(({ item }) => eventsOf(item).some((event) => matches(event[key], value)))?.element;
}

/**
 * The events that an item shows.
 *
 * @param {any} item
 */
export function eventsOf({ event, call, message, parts = [], results = [], answers = [] }) {
  return [...new Set([event, call, message, ...parts, ...results, ...answers])].filter(Boolean);
}

function parseSequence(text) {
  return /^[1-9]\d*$/.test(text ?? "") && Number.isSafeInteger(Number(text)) ? Number(text) : undefined;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
