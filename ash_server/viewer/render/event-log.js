/**
 * Fold the events of a session into items and turns. No DOM, no clock, no requests.
 *
 * The result depends on the set of events only. Their order, duplicates and where a stream was cut into chunks make no
 * difference, so live, replay and pages loaded backwards give the same result.
 */

import { isChunk, revokedEventIds } from "./retractions.js";

const NEVER = Number.POSITIVE_INFINITY;

/**
 * @typedef {{sequence?: number, id: string, type: string, timestamp: number, turnId?: string, responseId?: string,
 *   recordId?: string, messageSequence?: number, payload: any}} ChatEvent
 * @typedef {{event: ChatEvent, seq: number, isOpen?: boolean}} Entry an event at its place
 */

/**
 * One thing to show. `seq` is its place in the log, `event` the event that identifies it.
 * @typedef {{key: string, kind: string, seq: number, event: ChatEvent, parent?: string, [more: string]: any}} Item
 */

/**
 * Events that are folded together: the chunks of a stream, a tool call with its results, or a single event.
 * @typedef {{key: string, kind: string, fold: (group: Group, log: EventLog) => Item[], entries: Entry[],
 *   items: Item[]}} Group
 */

/**
 * `start` is the first start of the turn, `restart` the last one.
 * @typedef {{id: string, first: number, last?: Entry, start?: Entry, restart?: Entry, end?: Entry, interrupt?: Entry}} Turn
 */

export class EventLog {
  /** Events up to this sequence were discarded by a reset. */
  resetSeq = 0;
  lastSeq = 0;
  /** @type {Map<number | string, ChatEvent>} */
  events = new Map();
  /** @type {Map<string, Group>} */
  groups = new Map();
  /** Groups with citations, which are joined only if no other event is between them. @type {Set<Group>} */
  citedGroups = new Set();
  /** The events of groups by their place in the log. @type {Map<number, ChatEvent[]>} */
  places = new Map();
  /** @type {Map<string, Turn>} */
  turns = new Map();
  /** The turns with new events since the last call of takeChangedTurns(). @type {Set<Turn>} */
  changedTurns = new Set();
  /** Marks of turns without an id. @type {any} */
  unnamed = { id: null, first: 0 };
  lastRetraction = 0;
  /** @type {Set<string> | undefined} */
  revokedIds = undefined;
  /** Ids of events of deleted messages, with the sequence of the retraction. @type {Map<string, number>} */
  deletedIds = new Map();
  /** Ids of superseded events, with the sequence of the retraction. @type {Map<string, number>} */
  supersededIds = new Map();
  /** The groups by the ids of their events. @type {Map<string, Group>} */
  groupsById = new Map();
  /** @type {Set<Group>} */
  dirty = new Set();
  /** Set by a reset; the renderer clears it. */
  wasReset = false;

  clear() {
    const { wasReset } = this;
    Object.assign(this, new EventLog(), { wasReset });
  }

  /**
   * Add an event; true if it is new.
   *
   * @param {ChatEvent} event
   */
  add(event) {
    const seq = event.sequence ?? this.lastSeq + 1;
    const identity = identityOf(event);
    if (seq <= this.resetSeq || this.events.has(identity)) return false;
    if (this.isDeleted(event)) event = emptied(event);
    this.events.set(identity, event);
    this.lastSeq = Math.max(this.lastSeq, seq);
    const handle = Object.hasOwn(HANDLERS, event.type) ? HANDLERS[event.type] : addSingle("event");
    handle(this, event, seq);
    if (seq <= this.lastRetraction) this.revokedIds = undefined;
    if (seq < this.lastSeq) this.citedGroups.forEach((group) => spans(group, seq) && this.dirty.add(group));
    return true;
  }

  /** Fold the groups that changed since the last call: their items before and now. */
  takeChanges() {
    const changed = [...this.dirty];
    this.dirty = new Set();
    return changed.map((group) => {
      const before = group.items;
      const entries = group.entries.filter((entry) => !this.isSuperseded(entry));
      group.items = entries.length ? group.fold({ ...group, entries }, this) : [];
      return { before, now: group.items };
    });
  }

  /** The turns with new events since the last call. */
  takeChangedTurns() {
    const changed = this.changedTurns;
    this.changedTurns = new Set();
    return changed;
  }

  /**
   * The tool call of a subagent's item, if it is loaded.
   *
   * @param {Item} item
   */
  parentCallOf(item) {
    const calls = this.groups.get(`tool\0${item.parent}`)?.items ?? [];
    return calls.findLast((call) => call.seq < item.seq);
  }

  /** The ids of the events revoked by retractions. */
  revoked() {
    return (this.revokedIds ??= revokedEventIds(this.lastRetraction ? inOrder(this.events.values()) : []));
  }

  /**
   * The turn of an event, extended by it.
   *
   * @param {ChatEvent} event
   * @param {number} seq
   */
  extendTurn(event, seq) {
    const id = event.turnId;
    if (id === undefined) return undefined;
    /** @type {Turn} */
    const turn = this.turns.get(id) ?? { id, first: NEVER };
    turn.first = Math.min(turn.first, seq);
    if (isTimed(event) && !(turn.last && seq < turn.last.seq)) turn.last = { event, seq };
    this.turns.set(id, turn);
    this.changedTurns.add(turn);
    return turn;
  }

  /**
   * The id of the last turn, unless it has ended or was interrupted: null for a turn without an id. The summary of the
   * session has the same rule (ash_shared/projections/session_summary.py).
   *
   * @returns {string | null | undefined}
   */
  openTurn() {
    const { unnamed } = this;
    const begin = (/** @type {Turn} */ { restart, first }) => restart?.seq ?? first;
    const last = [...this.turns.values()].reduce((one, other) => (begin(other) > begin(one) ? other : one), unnamed);
    const ends = [last.end, last.interrupt, unnamed.end, unnamed.interrupt].map((end) => end?.seq ?? 0);
    return begin(last) > Math.max(...ends) ? last.id : undefined;
  }

  /**
   * The group of an event, created if needed, and marked as changed.
   *
   * @param {Entry} entry
   * @param {string} key
   * @param {Group["fold"]} fold
   */
  groupOf({ event, seq }, key, fold) {
    /** @type {Group} */
    const group = this.groups.get(key) ?? { key, kind: "", fold, entries: [], items: [] };
    this.groups.set(key, group);
    this.dirty.add(group);
    this.places.set(seq, [...(this.places.get(seq) ?? []), event]);
    this.groupsById.set(event.id, group);
    return group;
  }

  /** Show earlier events no more, also those that arrive later: newer versions of them follow. */
  supersede(ids, seq) {
    for (const id of ids) {
      this.supersededIds.set(id, Math.max(seq, this.supersededIds.get(id) ?? 0));
      const group = this.groupsById.get(id);
      if (group) this.dirty.add(group);
    }
    this.citedGroups.forEach((group) => this.dirty.add(group));
  }

  /** @param {Entry} entry */
  isSuperseded({ event, seq }) {
    return seq < (this.supersededIds.get(event.id) ?? 0);
  }

  /** Remove events before a retraction, also those that arrive later: the log is as if read after the deletion. */
  remove(ids, seq) {
    ids.forEach((id) => this.deletedIds.set(id, seq));
    const events = [...this.events.values()];
    if (!events.some((event) => this.isDeleted(event))) return;
    const kept = events.map((event) => (this.isDeleted(event) ? emptied(event) : event));
    const { resetSeq, lastSeq } = this;
    this.clear();
    Object.assign(this, { resetSeq, lastSeq, wasReset: true });
    kept.forEach((event) => this.add(event));
  }

  /** @param {ChatEvent} event */
  isDeleted({ id, type, sequence = 0 }) {
    return type !== "retraction" && sequence < (this.deletedIds.get(id) ?? 0);
  }

  reset(seq) {
    if (seq <= this.resetSeq) return;
    const later = [...this.events.values()].filter((event) => (event.sequence ?? seq) > seq);
    this.clear();
    this.resetSeq = seq;
    this.lastSeq = seq;
    this.wasReset = true;
    later.forEach((event) => this.add(event));
  }
}

// Streams. A complete event contains the chunks before it, so only chunks after the last complete one are kept.

const COMPLETE = {
  assistant_done: "text",
  thinking_done: "thinking",
  audio_done: "speech",
};

function addStreamed(kind) {
  return (log, event, seq) => {
    log.extendTurn(event, seq);
    const { parentToolCallId: parent } = event.payload;
    const entry = { event, seq };
    const group = log.groupOf(entry, JSON.stringify([kind, event.turnId, event.responseId, parent]), foldStream);
    group.kind = kind;
    insertInOrder(group.entries, entry);
    const isNextChunk = !isComplete(entry) && group.entries.at(-1) === entry;
    if (!isNextChunk) group.entries = withoutOldChunks(group.entries);
    if (hasCitations(event)) log.citedGroups.add(group);
  };
}

function withoutOldChunks(entries) {
  const lastComplete = entries.findLastIndex(isComplete);
  return entries.filter((entry, index) => index >= lastComplete || isComplete(entry));
}

function isComplete({ event }) {
  return event.type in COMPLETE;
}

/** @type {Group["fold"]} */
function foldStream({ key, kind, entries }, log) {
  const complete = entries.filter(isComplete);
  const items = [];
  let previous;
  for (const entry of [...complete, ...joinOpenChunks(entries.slice(complete.length))]) {
    const { event, seq, isOpen } = entry;
    if (!continues(log, previous, entry)) {
      items.push({ ...newItem(kind, event, seq), ...(isOpen && { key: `${key}\0open` }), parts: [] });
    }
    const item = items[items.length - 1];
    item.parts.push(event);
    item.isOpen = isOpen;
    previous = entry;
  }
  return items.map((item) => ({ ...item, text: joinTexts(item.parts.map(({ payload }) => payload.text)) }));
}

/** Join texts. A single one is returned unchanged, since it may not be a string. */
function joinTexts(texts) {
  return texts.length === 1 ? texts[0] : texts.join("");
}

function joinOpenChunks(chunks) {
  if (!chunks.length) return [];
  const [{ event, seq }] = chunks;
  const text = chunks.map((chunk) => chunk.event.payload.text ?? "").join("");
  return [{ event: { ...event, payload: { ...event.payload, text } }, seq, isOpen: true }];
}

// Claude splits a text where a part cites a source. The part continues the text before it if no event is between them.

function continues(log, previous, entry) {
  if (!previous || !(hasCitations(previous.event) || hasCitations(entry.event))) return false;
  return entry.event.responseId !== undefined && !isInterrupted(log, previous, entry);
}

/** True if another event of the same agent is between two entries. */
function isInterrupted(log, previous, entry) {
  const { parentToolCallId: parent } = entry.event.payload;
  const isOther = (event, seq) =>
    event.payload?.parentToolCallId === parent && !isChunk(event) && !log.isSuperseded({ event, seq });
  for (let seq = previous.seq + 1; seq < entry.seq; seq++) {
    if (log.places.get(seq)?.some((event) => isOther(event, seq))) return true;
  }
  return false;
}

/** True if the citations of an event apply to its whole text, so that it is a part of a longer text. */
export function hasCitations({ payload: { citations } }) {
  return Array.isArray(citations) && citations.some((citation) => typeof citation?.cited_text === "string");
}

function spans({ entries }, seq) {
  return entries[0].seq < seq && seq < entries[entries.length - 1].seq;
}

// Tool calls with their results. An id may be reused: each call takes the results that follow it.

function addToToolCall(log, event, seq) {
  log.extendTurn(event, seq);
  const entry = { event, seq };
  insertInOrder(log.groupOf(entry, `tool\0${event.payload.toolCallId}`, foldToolCalls).entries, entry);
}

/** @type {Group["fold"]} */
function foldToolCalls({ key, entries }) {
  const items = [];
  let last;
  for (const { event, seq } of entries) {
    const isStart = event.type === "tool_call" || event.type === "tool_input_chunk";
    if (!last || (isStart && (last.call || last.results.length))) {
      last = { ...newItem("tool", event, seq), key: `${key}\0${items.length}`, input: "", output: [], outputLength: 0, results: [] };
      items.push(last);
    }
    TOOL_UPDATES[event.type](last, event, seq);
  }
  return items;
}

/** Add a piece of output, except the part before its offset that earlier pieces already contain. */
function addOutput(item, payload) {
  const { chunk, offset } = payload;
  const characters = [...String(chunk)];
  const shown = Number.isInteger(offset) ? Math.max(0, item.outputLength - offset) : 0;
  if (shown && shown >= characters.length) return;
  item.output.push(shown ? { ...payload, chunk: characters.slice(shown).join("") } : payload);
  item.outputLength += characters.length - shown;
}

const TOOL_UPDATES = {
  tool_call: (item, event, seq) => Object.assign(item, newItem("tool", event, seq), { key: item.key, call: event }),
  tool_input_chunk: (item, event) => (item.input += event.payload.chunk),
  tool_output_chunk: (item, event) => addOutput(item, event.payload),
  tool_result: (item, event) => item.results.push(event),
};

// Messages to other agents with their answers.

function addToAgentMessage(log, event, seq) {
  log.extendTurn(event, seq);
  const entry = { event, seq };
  insertInOrder(log.groupOf(entry, `agent\0${event.payload.messageId}`, foldAgentMessage).entries, entry);
}

/** @type {Group["fold"]} */
function foldAgentMessage({ key, entries }) {
  const sent = entries.find(({ event }) => event.type === "agent_message");
  const { event, seq } = sent ?? entries[0];
  const answers = entries.filter((entry) => entry.event.type === "agent_callback").map((entry) => entry.event);
  return [{ ...newItem("agent", event, seq), key, message: sent?.event, answers }];
}

// Single events.

function addSingle(kind) {
  return (log, event, seq) => {
    log.extendTurn(event, seq);
    const entry = { event, seq };
    const group = log.groupOf(entry, `event\0${identityOf(event)}`, foldSingle);
    group.kind = kind;
    group.entries = [entry];
  };
}

/** @type {Group["fold"]} */
function foldSingle({ key, kind, entries: [{ event, seq }] }) {
  return [{ ...newItem(kind, event, seq), key }];
}

/** @returns {Item} */
function newItem(kind, event, seq) {
  return { key: `${kind}\0${identityOf(event)}`, kind, seq, event, parent: event.payload?.parentToolCallId };
}

/**
 * The sequence, or the id of an event without one; another event may later take its place.
 *
 * @param {ChatEvent} event
 */
function identityOf({ sequence, id }) {
  return sequence ?? id;
}

/** True if the timestamp says when it happened. Events that close an abandoned turn have the time of the next event. */
function isTimed({ type, payload }) {
  return type !== "turn_end" && !payload?.partial && !(type === "interrupt" && payload.reason === "error");
}

// Turn boundaries. Of several, the first start and the last end count.

function startTurn(log, event, seq) {
  const turn = markedTurn(log, event, seq);
  turn.start = earlier(turn.start, { event, seq });
  turn.restart = later(turn.restart, { event, seq });
}

function endTurn(log, event, seq) {
  const turn = markedTurn(log, event, seq);
  turn.end = later(turn.end, { event, seq });
}

function interruptTurn(log, event, seq) {
  addSingle("event")(log, event, seq);
  const turn = markedTurn(log, event, seq);
  turn.interrupt = later(turn.interrupt, { event, seq });
}

function markedTurn(log, event, seq) {
  return log.extendTurn(event, seq) ?? log.unnamed;
}

function earlier(one, other) {
  return one && one.seq < other.seq ? one : other;
}

function later(one, other) {
  return one && one.seq > other.seq ? one : other;
}

function addRetraction(log, event, seq) {
  const { reason, eventIds = [] } = event.payload;
  if (reason === "deleted") return log.remove(eventIds, seq);
  if (reason === "superseded" && eventIds.length) {
    log.extendTurn(event, seq);
    log.supersede(eventIds, seq);
  } else addSingle("event")(log, event, seq);
  log.lastRetraction = Math.max(log.lastRetraction, seq);
}

/**
 * Handlers by type; an event of any other type is an item by itself, of the kind "event".
 *
 * @type {Record<string, (log: EventLog, event: ChatEvent, seq: number) => void>}
 */
const HANDLERS = {
  turn_start: startTurn,
  turn_end: endTurn,
  user_message: addSingle("user"),
  user_audio: addSingle("user"),
  assistant_chunk: addStreamed("text"),
  assistant_done: addStreamed("text"),
  thinking_chunk: addStreamed("thinking"),
  thinking_done: addStreamed("thinking"),
  tool_call: addToToolCall,
  tool_input_chunk: addToToolCall,
  tool_output_chunk: addToToolCall,
  tool_result: addToToolCall,
  agent_message: addToAgentMessage,
  agent_callback: addToAgentMessage,
  interrupt: interruptTurn,
  audio_chunk: addStreamed("speech"),
  audio_done: addStreamed("speech"),
  retraction: addRetraction,
  reset: (log, _, seq) => log.reset(seq),
};

/**
 * Return the event that the server has in the place of a deleted one: it shows nothing.
 *
 * @param {ChatEvent} event
 * @returns {ChatEvent}
 */
function emptied(event) {
  const outside = { turnId: undefined, responseId: undefined, recordId: undefined };
  return { ...event, ...outside, type: "retraction", payload: { eventIds: [event.id], reason: "deleted" } };
}

/** Insert an entry by its sequence; nearly all are appended. */
function insertInOrder(entries, entry) {
  let index = entries.length;
  while (index > 0 && entries[index - 1].seq > entry.seq) index--;
  entries.splice(index, 0, entry);
}

function inOrder(events) {
  return [...events].sort((one, other) => (one.sequence ?? NEVER) - (other.sequence ?? NEVER));
}
