import { EventLog } from "/viewer/render/event-log.js";

/** The marks of the turns of a log, its retracted events, and those that each further retraction of a turn adds. */
export function folded(events, maxTurns) {
  const log = new EventLog();
  events.forEach((event) => log.add(event));
  const marked = [...log.turns.values()].filter(({ start, end }) => start || end);
  const turns = Object.fromEntries(marked.map(({ id, start, end }) => [id, marks(start, end)]));
  const known = new Set();
  const retracted = [takeNew(log, known)];
  for (let turn = 1; turn <= maxTurns; turn++) {
    log.add({ ...events[0], id: `retraction ${turn}`, sequence: undefined, type: "retraction", payload: { turns: 1 } });
    retracted.push(takeNew(log, known));
  }
  return { turns, retracted };
}

function marks(start, end) {
  return [start?.event.id ?? null, start?.event.payload.trigger ?? null, end?.event.id ?? null];
}

function takeNew(log, known) {
  const ids = [...log.revoked()].filter((id) => !known.has(id));
  ids.forEach((id) => known.add(id));
  return ids.sort();
}
