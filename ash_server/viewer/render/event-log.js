/**
 * What the events of a session say together: turns, and the items in them. No DOM, no clock, no requests.
 *
 * A log is a function of the set of its events. In which order they come, whether one comes twice, and where a stream
 * was cut into chunks makes no difference, so that live, replay and pages that come from the end give the same.
 */

const NEVER = Number.POSITIVE_INFINITY;

/** @typedef {{sequence?: number, id: string, type: string, timestamp: number, turnId?: string, responseId?: string,
 *   recordId?: string, messageSequence?: number, payload: any}} ChatEvent */

/**
 * One thing to show. `seq` is its place, `event` the one that it is called by.
 * @typedef {{key: string, kind: string, seq: number, event: ChatEvent, parent?: string, [more: string]: any}} Item
 */

export class Log {
  constructor() {
    this.clear();
  }

  clear() {
    this.floor = 0;
    this.last = 0;
    this.events = new Map();
    this.strands = new Map();
    this.cited = new Set();
    this.turns = new Map();
    this.retracted = 0;
    this.taken = undefined;
    this.dirty = new Set();
  }

  /** Whether it is new. */
  add(event) {
    const seq = event.sequence ?? this.last + 1;
    const name = nameOf(event);
    if (seq <= this.floor || this.events.has(name)) return false;
    this.events.set(name, event);
    this.last = Math.max(this.last, seq);
    const known = Object.hasOwn(HANDLERS, event.type) ? HANDLERS[event.type] : alone("raw");
    known(this, event, seq);
    if (seq <= this.retracted) this.taken = undefined;
    this.cited.forEach((strand) => isWithin(seq, strand.entries[0], strand.entries.at(-1)) && this.dirty.add(strand));
    return true;
  }

  /** What changed since it was asked last: each strand folded anew gives the items that it has now. */
  changes() {
    const changed = [...this.dirty];
    this.dirty = new Set();
    return changed.map((strand) => {
      const before = strand.items;
      strand.items = strand.fold(strand, this);
      return { before, now: strand.items };
    });
  }

  /** The call that a subagent's item belongs to, as far as it is known. */
  callOf(item) {
    const calls = this.strands.get(`tool\0${item.parent}`)?.items ?? [];
    return calls.findLast((call) => call.seq < item.seq);
  }

  /** The ids of the events that later ones take back. */
  revoked() {
    return (this.taken ??= standing(this.retracted ? inOrder(this.events.values()) : []));
  }

  turn(event, seq) {
    const id = event.turnId;
    if (id === undefined) return;
    const turn = this.turns.get(id) ?? { id, first: NEVER };
    turn.first = Math.min(turn.first, seq);
    if (isTimed(event) && !(seq < turn.last?.seq)) turn.last = { event, seq };
    this.turns.set(id, turn);
    return turn;
  }

  strand(key, fold) {
    const strand = this.strands.get(key) ?? { key, fold, entries: [], items: [] };
    this.strands.set(key, strand);
    this.dirty.add(strand);
    return strand;
  }

  restart(seq) {
    if (seq <= this.floor) return;
    const later = [...this.events.values()].filter((event) => (event.sequence ?? seq) > seq);
    this.clear();
    this.floor = seq;
    this.last = seq;
    this.wasRestarted = true;
    later.forEach((event) => this.add(event));
  }
}

// What is told in pieces. Pieces that lie before a whole are in it: only those behind the last one are kept.

const WHOLES = {
  assistant_done: "text",
  thinking_done: "thinking",
  audio_done: "speech",
};

function streamed(kind) {
  return (log, event, seq) => {
    log.turn(event, seq);
    const { parentToolCallId: parent } = event.payload;
    const strand = log.strand(JSON.stringify([kind, event.turnId, event.responseId, parent]), foldStream);
    strand.kind = kind;
    insert(strand.entries, { event, seq });
    const whole = strand.entries.findLastIndex((entry) => entry.event.type in WHOLES);
    strand.entries = strand.entries.filter((entry, place) => place >= whole || entry.event.type in WHOLES);
    if (isCited(event)) log.cited.add(strand);
  };
}

function foldStream({ key, kind, entries }, log) {
  const wholes = entries.filter((entry) => entry.event.type in WHOLES);
  const items = [];
  let before;
  for (const entry of [...wholes, ...stillOpen(entries.slice(wholes.length))]) {
    const { event, seq, isOpen } = entry;
    if (!goesOn(log, before, entry)) items.push({ ...of(kind, event, seq), ...(isOpen && { key: `${key}\0open` }), parts: [] });
    items.at(-1).parts.push(event);
    items.at(-1).isOpen = isOpen;
    before = entry;
  }
  return items.map((item) => ({ ...item, text: joined(item.parts.map(({ payload }) => payload.text)) }));
}

/** One alone is left as it is: it may be anything. */
function joined(texts) {
  return texts.length === 1 ? texts[0] : texts.join("");
}

function stillOpen(pieces) {
  if (!pieces.length) return [];
  const [{ event, seq }] = pieces;
  const text = pieces.map((piece) => piece.event.payload.text ?? "").join("");
  return [{ event: { ...event, payload: { ...event.payload, text } }, seq, isOpen: true }];
}

// Claude cuts a text where what it says rests on a source: that text follows the one ahead of it, and nothing between.

function goesOn(log, before, entry) {
  if (!before || !(isCited(before.event) || isCited(entry.event))) return false;
  const { parentToolCallId: parent } = entry.event.payload;
  const isBetween = ({ event, seq }) =>
    isWithin(seq, before, entry) && event.payload?.parentToolCallId === parent && !event.type.endsWith("_chunk");
  return entry.event.responseId !== undefined && !log.strands.values().some(({ entries }) => entries.some(isBetween));
}

/** Whether its sources are those of all that it says, so that it is but a piece of a text. */
export function isCited({ payload: { citations } }) {
  return Array.isArray(citations) && citations.some((citation) => typeof citation?.cited_text === "string");
}

function isWithin(seq, before, after) {
  return before.seq < seq && seq < after.seq;
}

// A call and what came of it. One id may be used again: each call takes what follows it.

function ofCall(log, event, seq) {
  log.turn(event, seq);
  insert(log.strand(`tool\0${event.payload.toolCallId}`, foldCalls).entries, { event, seq });
}

function foldCalls({ key, entries }) {
  const items = [];
  let last;
  for (const { event, seq } of entries) {
    const begins = event.type === "tool_call" || event.type === "tool_input_chunk";
    if (!last || (begins && (last.call || last.results.length))) {
      last = { ...of("tool", event, seq), key: `${key}\0${items.length}`, input: "", output: [], results: [] };
      items.push(last);
    }
    TAKES[event.type](last, event, seq);
  }
  return items;
}

const TAKES = {
  tool_call: (item, event, seq) => Object.assign(item, of("tool", event, seq), { key: item.key, call: event }),
  tool_input_chunk: (item, event) => (item.input += event.payload.chunk),
  tool_output_chunk: (item, event) => item.output.push(event.payload),
  tool_result: (item, event) => item.results.push(event),
};

// Messages to other agents and their answers.

function ofAgent(log, event, seq) {
  log.turn(event, seq);
  insert(log.strand(`agent\0${event.payload.messageId}`, foldAgents).entries, { event, seq });
}

function foldAgents({ key, entries }) {
  const sent = entries.find(({ event }) => event.type === "agent_message");
  const { event, seq } = sent ?? entries[0];
  const answers = entries.filter((entry) => entry.event.type === "agent_callback").map((entry) => entry.event);
  return [{ ...of("agent", event, seq), key, message: sent?.event, answers }];
}

// What stands for itself.

function alone(kind) {
  return (log, event, seq) => {
    log.turn(event, seq);
    const strand = log.strand(`event\0${nameOf(event)}`, foldAlone);
    strand.kind = kind;
    strand.entries = [{ event, seq }];
  };
}

function foldAlone({ key, kind, entries: [{ event, seq }] }) {
  return [{ ...of(kind, event, seq), key }];
}

function of(kind, event, seq) {
  return { key: `${kind}\0${nameOf(event)}`, kind, seq, event, parent: event.payload?.parentToolCallId };
}

/** One that has no sequence may stand where another one will. */
function nameOf({ sequence, id }) {
  return sequence ?? id;
}

/** Whether its time is when it happened: what ends what was left has the time of what came next. */
function isTimed({ type, payload }) {
  return type !== "turn_end" && !payload?.partial && !(type === "interrupt" && payload.reason === "error");
}

/** Of several that a turn has, the first start counts, and the last end. */
function begins(log, event, seq) {
  mark(log, event, seq, "start", (known) => seq < known.seq);
}

function ends(log, event, seq) {
  mark(log, event, seq, "end", (known) => seq > known.seq);
}

function interrupts(log, event, seq) {
  alone("interrupt")(log, event, seq);
  mark(log, event, seq, "interrupt", (known) => seq > known.seq);
}

function mark(log, event, seq, name, counts) {
  const turn = log.turn(event, seq);
  if (turn && (!turn[name] || counts(turn[name]))) turn[name] = { event, seq };
}

function retracts(log, event, seq) {
  alone("retraction")(log, event, seq);
  log.retracted = Math.max(log.retracted, seq);
}

const HANDLERS = {
  turn_start: begins,
  turn_end: ends,
  user_message: alone("user"),
  user_audio: alone("user"),
  assistant_chunk: streamed("text"),
  assistant_done: streamed("text"),
  thinking_chunk: streamed("thinking"),
  thinking_done: streamed("thinking"),
  tool_call: ofCall,
  tool_input_chunk: ofCall,
  tool_output_chunk: ofCall,
  tool_result: ofCall,
  agent_message: ofAgent,
  agent_callback: ofAgent,
  agent_switch: alone("switch"),
  interrupt: interrupts,
  error: alone("error"),
  audio_chunk: streamed("speech"),
  audio_done: streamed("speech"),
  summary: alone("summary"),
  system_message: alone("notice"),
  retraction: retracts,
  raw: alone("raw"),
  reset: (log, _, seq) => log.restart(seq),
};

/** Entries are kept in the order of the session, wherever they come from; nearly all come at the end. */
function insert(entries, entry) {
  let place = entries.length;
  while (place > 0 && entries[place - 1].seq > entry.seq) place--;
  entries.splice(place, 0, entry);
}

function inOrder(events) {
  return [...events].sort((one, other) => (one.sequence ?? NEVER) - (other.sequence ?? NEVER));
}

const SAID = new Set(["agent_callback", "assistant_done", "thinking_done", "tool_call", "user_audio", "user_message"]);

const PROMPTS = new Set(["user_audio", "user_message"]);

/** As the projections decide it (ash_shared/projections/_retractions.py): names, a record and all behind it, or last turns. */
function standing(events) {
  const revoked = new Set();
  const known = new Set();
  let left = [];
  let hasMarks = false;
  const cut = (place) => {
    left.slice(place).forEach(({ event }) => revoked.add(event.id));
    left = left.slice(0, place);
  };
  for (const event of events) {
    if (event.type !== "retraction") {
      hasMarks ||= event.turnId !== undefined || event.type === "turn_start";
      left.push({ event, begins: event.type === "turn_start" || (!hasMarks && isPrompt(event)) });
      known.add(event.id);
      continue;
    }
    const { eventIds = [], messageIds = [], fromMessageId, turns = 0 } = event.payload;
    const names = new Set(messageIds);
    eventIds.filter((id) => known.has(id)).forEach((id) => revoked.add(id));
    if (names.size) left.filter((each) => namesOf(each).some((name) => names.has(name))).forEach((each) => revoked.add(each.event.id));
    if (fromMessageId !== undefined) {
      cut(Math.max(0, left.findIndex((each) => namesOf(each).includes(fromMessageId))));
    }
    if (turns > 0) cut(beginOfTurn(left, turns));
  }
  return revoked;
}

function namesOf({ event }) {
  return [event.recordId, event.responseId];
}

function isPrompt({ type, payload }) {
  return PROMPTS.has(type) && !payload.synthetic;
}

/** Where the last so many turns begin in which something was said: by their ids, else as the marks or prompts say. */
function beginOfTurn(left, turns) {
  const begun = [];
  const seen = new Set();
  let hasSaid = true;
  left.forEach(({ event, begins }, place) => {
    if (event.turnId === undefined ? begins : !seen.has(event.turnId)) {
      seen.add(event.turnId);
      if (!hasSaid) begun.pop();
      begun.push(place);
      hasSaid = false;
    }
    hasSaid ||= SAID.has(event.type);
  });
  if (!hasSaid) begun.pop();
  return begun.at(-turns) ?? 0;
}
