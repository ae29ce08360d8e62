/**
 * Find the retracted events. The rules are in docs/events.md; ash_shared/projections/_retractions.py has the same.
 *
 * @typedef {import("./event-log.js").ChatEvent} ChatEvent
 * @typedef {{event: ChatEvent, hasTurns: boolean}} Kept an event that was not truncated; `hasTurns`: the log had turn
 *   ids or turn starts when it came
 */

export const CHUNKS = new Set(["assistant_chunk", "audio_chunk", "thinking_chunk", "tool_input_chunk", "tool_output_chunk"]);

/** Types of events that count as content of a turn. */
export const CONTENT = new Set([
  "agent_callback",
  "assistant_done",
  "audio_done",
  "thinking_done",
  "tool_call",
  "user_audio",
  "user_message",
]);

export const PROMPTS = new Set(["user_audio", "user_message"]);

/** @param {ChatEvent} event */
export function isChunk({ type }) {
  return CHUNKS.has(type);
}

/**
 * The ids of revoked events: listed events, a record's events and all later ones, or the events of the last turns.
 *
 * @param {ChatEvent[]} events in order
 */
export function revokedEventIds(events) {
  /** @type {Set<string>} */
  const revoked = new Set();
  const knownIds = new Set();
  /** @type {Kept[]} */
  const kept = [];
  let hasTurns = false;
  const truncate = (index) => kept.splice(index).forEach(({ event }) => revoked.add(event.id));
  for (const event of events) {
    if (event.type !== "retraction") {
      hasTurns ||= !isChunk(event) && (event.turnId !== undefined || event.type === "turn_start");
      kept.push({ event, hasTurns });
      knownIds.add(event.id);
      continue;
    }
    const { eventIds = [], messageIds = [], fromMessageId, turns = 0 } = event.payload;
    const names = new Set(messageIds);
    const isNamed = (each) => messageIdsOf(each).some((id) => names.has(id));
    eventIds.filter((id) => knownIds.has(id)).forEach((id) => revoked.add(id));
    if (names.size) kept.filter(isNamed).forEach((each) => revoked.add(each.event.id));
    if (fromMessageId !== undefined) truncate(startOfMessage(kept, fromMessageId));
    if (turns > 0) truncate(turnStarts(kept).at(-turns) ?? 0);
  }
  return revoked;
}

function messageIdsOf({ event }) {
  return [event.recordId, event.responseId];
}

/** The index of the first complete event of a record or response; 0 if there is none. */
function startOfMessage(kept, id) {
  return Math.max(0, kept.findIndex((each) => !isChunk(each.event) && messageIdsOf(each).includes(id)));
}

/**
 * The indices where the turns with content start: by turn ids, else by turn starts, else, without either, by prompts.
 *
 * @param {Kept[]} kept
 */
function turnStarts(kept) {
  const starts = [0];
  const seen = new Set();
  let hasContent = false;
  kept.forEach(({ event, hasTurns }, index) => {
    if (isChunk(event)) return;
    if (event.turnId === undefined ? isTurnStart(event, hasTurns) : !seen.has(event.turnId)) {
      seen.add(event.turnId);
      if (!hasContent) starts.pop();
      starts.push(index);
      hasContent = false;
    }
    hasContent ||= CONTENT.has(event.type);
  });
  if (!hasContent) starts.pop();
  return starts;
}

function isTurnStart({ type, payload }, hasTurns) {
  return type === "turn_start" || (!hasTurns && PROMPTS.has(type) && !payload.synthetic);
}
