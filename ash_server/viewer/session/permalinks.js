/** Addresses of places within a session. A message keeps its sequence for ever; an event may get another one. */

/** @typedef {{id?: string, message?: number, at?: number}} Place */

/** Where an address leads to; undefined where it names no place. */
export function placeIn({ search, hash }) {
  const query = new URLSearchParams(search);
  const id = hash.startsWith("#e-") ? decoded(hash.slice(3)) : undefined;
  const place = { id, message: sequence(query.get("message")), at: sequence(query.get("at")) };
  return Object.values(place).some((value) => value !== undefined) ? place : undefined;
}

/** The place of an item. */
export function placeOf({ event }) {
  const { id, messageSequence, sequence } = event;
  return messageSequence === undefined ? { id, at: sequence } : { id, message: messageSequence };
}

/** The path, the query and the hash that lead there. */
export function addressOf(path, { id, message, at }) {
  const named = Object.entries({ message, at }).find(([, value]) => value !== undefined);
  return `${path}${named ? `?${named.join("=")}` : ""}${id === undefined ? "" : `#e-${encodeURIComponent(id)}`}`;
}

/** What has to be asked for to see it. */
export function pageOf({ message, at }) {
  if (message !== undefined) return { message };
  return at === undefined ? undefined : { at };
}

/** The element of a place, if it is loaded. */
export function find(renderer, { id, message, at }) {
  if (id === undefined) return first(renderer, { message, at }, (one, other) => one === other);
  return renderer.inOrder.find(({ item }) => eventsOf(item).some((event) => event.id === id))?.element;
}

/** The one next to a place that is not there any more: of its message, behind it, or the last. */
export function findNear(renderer, { message, at }) {
  const place = { message, at };
  const is = (compared) => first(renderer, place, compared);
  return is((one, other) => one === other) ?? is((one, other) => one > other) ?? renderer.inOrder.at(-1)?.element;
}

function first(renderer, { message, at }, compared) {
  const [key, value] = message === undefined ? ["sequence", at] : ["messageSequence", message];
  if (value === undefined) return undefined;
  return renderer.inOrder.find(({ item }) => eventsOf(item).some((event) => compared(event[key], value)))?.element;
}

/** The events that an item shows. */
export function eventsOf({ event, call, message, parts = [], results = [], answers = [] }) {
  return [...new Set([event, call, message, ...parts, ...results, ...answers])].filter(Boolean);
}

function sequence(text) {
  return /^[1-9]\d*$/.test(text ?? "") && Number.isSafeInteger(Number(text)) ? Number(text) : undefined;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
