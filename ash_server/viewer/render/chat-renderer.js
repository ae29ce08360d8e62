/**
 * Events to DOM, and nothing else: the same for live, replay and the exported page.
 *
 * What the events say is the log's (event-log.js); an item is painted anew when it changed, and put in its place. So the DOM
 * follows from the set of events alone.
 */
import { become, el, place } from "../lib/dom.js";
import { Log } from "./event-log.js";
import { paint } from "./painters.js";
import { stateOf } from "./tools/call-state.js";
import { layFlow, setAttributes, toggleFold, wrapper } from "./turn-layout.js";
import { footer, separators } from "./turn-separators.js";

export class ChatRenderer {
  /** `onPaint` is called after each time the DOM has changed; `hrefOf` gives the address of another session. */
  constructor(container, { onPaint = () => {}, hrefOf } = {}) {
    this.container = container;
    this.onPaint = onPaint;
    this.context = { hrefOf };
    this.log = new Log();
    this.isLive = false;
    this.clear();
    container.classList.add("chat-log");
    container.addEventListener("toggle", (event) => this.fill(event.target), true);
    container.addEventListener("click", (event) => toggleFold(event.target.closest?.(".fold")));
    container.addEventListener("beforematch", (event) => toggleFold(event.target, false), true);
  }

  /** Takes an event; it is painted with the next frame. */
  renderEvent(event) {
    if (this.log.add(event)) this.frame ??= requestAnimationFrame(() => this.flush());
  }

  /** Shows these events and no others. */
  replayEvents(events) {
    this.log.clear();
    this.clear();
    events.forEach((event) => this.log.add(event));
    this.flush();
  }

  /** The same for an event that just came. */
  handleNewEvent(event) {
    this.renderEvent(event);
  }

  /** Whether somebody writes the session now: what is open in its last turn goes on then; otherwise it was left. */
  setLive(isLive) {
    if (isLive === this.isLive) return;
    this.isLive = isLive;
    this.flush();
  }

  /** Paints at once what is not painted yet. */
  flush() {
    cancelAnimationFrame(this.frame);
    this.frame = undefined;
    if (this.log.wasRestarted) this.clear();
    this.log.wasRestarted = false;
    const changed = new Set(this.log.changes().flatMap(({ before, now }) => this.take(before, now)));
    this.settleTurns();
    this.revoke();
    changed.forEach((key) => this.show(this.shown.get(key)));
    this.layOut();
    this.onPaint();
  }

  clear() {
    this.shown = new Map();
    this.byElement = new WeakMap();
    this.unfinished = new Set();
    this.children = new Map();
    this.homes = new Map();
    this.dirty = new Set();
    this.revoked = new Set();
    this.openTurn = undefined;
    this.views = new Map();
    this.runs = new WeakMap();
    this.container.replaceChildren();
  }

  /** What is shown, {item, element}, in the order of the log. */
  get inOrder() {
    return inPlace(this.shown.values());
  }

  /** The item that an element shows. */
  itemOf(element) {
    return this.byElement.get(element)?.item;
  }

  // Which items there are.

  take(before, now) {
    const keys = new Set(now.map(({ key }) => key));
    before.filter(({ key }) => !keys.has(key)).forEach(({ key }) => this.drop(this.shown.get(key)));
    const changed = now.map((item) => {
      const shown = this.shown.get(item.key) ?? {};
      shown.item = item;
      this.shown.set(item.key, shown);
      if (item.parent !== undefined) setOf(this.children, item.parent).add(item.key);
      return item.key;
    });
    const calls = new Set([...before, ...now].filter(({ kind }) => kind === "tool").map(callId));
    return [...changed, ...[...calls].flatMap((id) => [...(this.children.get(id) ?? [])])];
  }

  drop(shown) {
    this.shown.delete(shown.item.key);
    this.unfinished.delete(shown);
    this.children.get(shown.item.parent)?.delete(shown.item.key);
    shown.element?.remove();
    this.leave(shown);
  }

  show(shown) {
    if (!shown) return;
    const { item } = shown;
    const isWritten = this.isWritten(item.event.turnId);
    const state = stateOf(item, isWritten);
    const isFailed = state === "error";
    if (shown.element && shown.element.open !== shown.isOpen) shown.choice = shown.element.open;
    const fresh = paint({ ...item, isOpen: item.isOpen && isWritten }, {
      ...this.context,
      state,
      isOpen: shown.isFilled || isFailed,
      isRevoked: this.revoked.has(item.event.id),
    });
    shown.nest?.remove();
    if (!shown.element) shown.element = fresh;
    else if (shown.element.tagName === fresh.tagName) become(shown.element, fresh);
    else shown.element = replace(shown.element, fresh);
    if (item.kind === "tool") shown.element.open = shown.choice ?? isFailed;
    shown.isOpen = shown.element.open;
    this.byElement.set(shown.element, shown);
    if (item.isOpen || (item.kind === "tool" && !item.results.length)) this.unfinished.add(shown);
    else this.unfinished.delete(shown);
    if (shown.nest) this.dirty.add(`call\0${item.key}`);
    this.settle(shown);
  }

  /** Bodies of calls are made when they are opened. */
  fill(element) {
    const shown = this.byElement.get(element);
    if (shown?.item.kind === "tool" && element.open && !shown.isOpen && !shown.isFilled) {
      shown.isFilled = true;
      this.show(shown);
      this.layOut();
    }
  }

  /** All of them, for paper. */
  fillAll() {
    for (const shown of this.shown.values()) {
      if (shown.item.kind !== "tool" || shown.isFilled) continue;
      shown.isFilled = true;
      this.show(shown);
    }
    this.layOut();
  }

  // Where items are: in the call of their subagent, in their turn, or between the turns.

  settle(shown) {
    const { item } = shown;
    const call = item.parent !== undefined && this.log.callOf(item);
    const home = call ? `call\0${call.key}` : homeOf(item.event);
    if (shown.home !== home) {
      this.leave(shown);
      shown.home = home;
      setOf(this.homes, home).add(shown);
    }
    this.dirty.add(home);
  }

  leave(shown) {
    if (shown.home === undefined) return;
    this.homes.get(shown.home)?.delete(shown);
    this.dirty.add(shown.home);
  }

  /** What a turn's end tells of its calls, and a later turn of one that has none. */
  settleTurns() {
    const turns = [...this.log.turns.values()];
    const last = turns.reduce((one, other) => (other.first > (one?.first ?? 0) ? other : one), undefined);
    this.openTurn = last && !last.end && !last.interrupt ? last.id : undefined;
    const changed = new Set(this.wasLive === this.isLive ? [] : [undefined]);
    this.wasLive = this.isLive;
    for (const turn of turns) {
      const view = this.view(turn);
      const told = [turn.start, turn.end, turn.interrupt, this.isWritten(turn.id), turn.first, turn.end && turn.last];
      if (view.told?.every((value, place) => value === told[place])) continue;
      view.told = told;
      this.dirty.add(`turn\0${turn.id}`);
      changed.add(turn.id);
    }
    for (const shown of this.unfinished) if (changed.has(shown.item.event.turnId)) this.show(shown);
  }

  /** Whether more may come of a turn, or of what is in none. */
  isWritten(turnId) {
    return this.isLive && (turnId === undefined || turnId === this.openTurn);
  }

  view({ id }) {
    if (!this.views.has(id)) this.views.set(id, { items: [] });
    return this.views.get(id);
  }

  revoke() {
    const before = this.revoked;
    this.revoked = this.log.revoked();
    if (this.revoked === before || (!before.size && !this.revoked.size)) return;
    for (const shown of this.shown.values()) {
      const { id } = shown.item.event;
      if (shown.element && before.has(id) !== this.revoked.has(id)) this.show(shown);
    }
  }

  // The tree: turns, and in them what the user said and what the assistant did.

  layOut() {
    if (!this.dirty.size) return;
    const dirty = this.dirty;
    this.dirty = new Set();
    [...dirty].filter((name) => name.startsWith("call\0")).forEach((name) => this.layOutCall(name));
    const slots = this.slots(dirty);
    slots.filter(({ isDirty }) => isDirty).forEach((slot) => this.layOutTurn(slot));
    place(this.container, separators(slots));
  }

  layOutCall(name) {
    const call = this.shown.get(name.slice("call\0".length));
    if (!call?.element) return;
    const children = inPlace(this.homes.get(name) ?? []);
    call.nest ??= el("div", { class: "subagent" });
    layFlow(call.nest, children, { isOver: call.element.dataset.state !== "running", isAside: true });
    if (children.length) call.element.append(call.nest);
    else call.nest.remove();
  }

  /** Turns, and runs of what is in none, in the order in which they begin. */
  slots(dirty) {
    const turns = [...this.log.turns.values()].map((turn) => this.slotOf(turn, dirty.has(`turn\0${turn.id}`)));
    const loose = inPlace(this.homes.get(LOOSE) ?? []).map((shown) => ({ seq: shown.item.seq, items: [shown] }));
    const isDirty = dirty.has(LOOSE);
    const joined = [];
    for (const slot of bySeq([...turns.filter(({ items, end }) => items.length || end), ...loose])) {
      const before = joined.at(-1);
      if (!slot.turn && before && !before.turn) before.items.push(...slot.items);
      else joined.push(slot.turn ? slot : { ...slot, isDirty });
    }
    const used = new Set(this.log.turns.values().map((turn) => this.view(turn).element));
    joined.forEach((slot) => this.house(slot, used));
    return joined;
  }

  slotOf(turn, isDirty) {
    const view = this.view(turn);
    if (isDirty) view.items = inPlace(this.homes.get(`turn\0${turn.id}`) ?? []);
    return { seq: turn.first, turn, items: view.items, end: turn.end ?? turn.interrupt, isDirty };
  }

  /** Gives it the element that it had. A run between turns is another one when a turn has come between. */
  house(slot, used) {
    if (slot.turn) {
      slot.element = this.view(slot.turn).element ??= el("section", { class: "turn" });
      return;
    }
    slot.element = wrapper("turn", slot.items, this.container, used, "section");
    const told = `${slot.seq} ${slot.items.length}`;
    slot.isDirty ||= this.runs.get(slot.element) !== told;
    this.runs.set(slot.element, told);
  }

  layOutTurn({ element, turn, seq, items }) {
    const isOpen = turn !== undefined && this.isWritten(turn.id);
    const state = turn && (isOpen ? "running" : turn.interrupt || !turn.end ? "interrupted" : "done");
    setAttributes(element, { class: "turn", "data-turn-id": turn?.id, "data-seq": seq, "data-state": state });
    layFlow(element, items, { isOver: !isOpen, after: [turn && footer(turn)].filter(Boolean) });
  }
}

/** What is in no turn stands between them. */
const LOOSE = "loose";

function homeOf({ turnId }) {
  return turnId === undefined ? LOOSE : `turn\0${turnId}`;
}

function callId({ event }) {
  return event.payload.toolCallId;
}

function bySeq(slots) {
  return slots.sort((one, other) => one.seq - other.seq);
}

function inPlace(shown) {
  return [...shown].sort((one, other) => one.item.seq - other.item.seq);
}

function setOf(map, name) {
  if (!map.has(name)) map.set(name, new Set());
  return map.get(name);
}

function replace(old, fresh) {
  old.replaceWith(fresh);
  return fresh;
}
