/**
 * Events to DOM, and nothing else: the same for live, replay and the exported page.
 *
 * What the events say is the log's (log.js); an item is painted anew when it changed, and put in its place. So the DOM
 * follows from the set of events alone.
 */
import { become, el, place } from "./dom.js";
import { Log } from "./log.js";
import { paint } from "./painters.js";
import { stateOf } from "./tools/state.js";
import { footer, separators } from "./turns.js";

const FOLDED_FROM = 4;

const GROUPS = { tool: "tool-calls", agent: "agent-messages" };

export class ChatRenderer {
  /** `onPaint` is called after each time the DOM has changed; `hrefOf` gives the address of another session. */
  constructor(container, { onPaint = () => {}, hrefOf } = {}) {
    this.container = container;
    this.onPaint = onPaint;
    this.context = { hrefOf };
    this.log = new Log();
    this.clear();
    container.classList.add("chat-log");
    container.addEventListener("toggle", (event) => this.fill(event.target), true);
    container.addEventListener("click", (event) => this.fold(event.target.closest?.(".tool-calls > .fold")));
    container.addEventListener("beforematch", (event) => this.fold(foldOf(event.target), false), true);
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

  /** Paints at once what is not painted yet. */
  flush() {
    cancelAnimationFrame(this.frame);
    this.frame = undefined;
    if (this.log.wasRestarted) this.clear();
    this.log.wasRestarted = false;
    const changed = this.log.changes().flatMap(({ before, now }) => this.take(before, now));
    this.settleTurns();
    this.revoke();
    changed.forEach((key) => this.show(this.shown.get(key)));
    this.layOut();
    this.onPaint();
  }

  /** How many events were of no type that is known. */
  get unrecognised() {
    return [...this.shown.values()].filter(({ item }) => item.kind === "raw").length;
  }

  clear() {
    this.shown = new Map();
    this.byElement = new WeakMap();
    this.children = new Map();
    this.homes = new Map();
    this.dirty = new Set();
    this.revoked = new Set();
    this.openTurn = undefined;
    this.container.replaceChildren();
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
      shown.hasMoved = shown.item?.seq !== item.seq || shown.item?.parent !== item.parent;
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
    this.children.get(shown.item.parent)?.delete(shown.item.key);
    shown.element?.remove();
    this.leave(shown);
  }

  show(shown) {
    if (!shown) return;
    const { item } = shown;
    const fresh = paint(item, {
      ...this.context,
      state: stateOf(item, this.log, this.openTurn),
      isOpen: shown.isFilled,
      isRevoked: this.revoked.has(item.event.id),
    });
    if (!shown.element) shown.element = fresh;
    else if (shown.element.tagName === fresh.tagName) become(shown.element, fresh);
    else shown.element = replace(shown.element, fresh);
    this.byElement.set(shown.element, shown);
    this.settle(shown);
  }

  /** Bodies of calls are made when they are opened. */
  fill(element) {
    const shown = this.byElement.get(element);
    if (shown?.item.kind === "tool" && element.open && !shown.isFilled) {
      shown.isFilled = true;
      this.show(shown);
      this.layOut();
    }
  }

  // Where items are: in the call of their subagent, in their turn, or between the turns.

  settle(shown) {
    const { item } = shown;
    const call = item.parent === undefined ? undefined : this.shown.get(this.log.callOf(item)?.key);
    const home = call && call !== shown ? call.item.key : (item.event.turnId ?? "");
    const kind = call && call !== shown ? "call" : "turn";
    const name = `${kind}\0${home}`;
    if (shown.home !== name) {
      this.leave(shown);
      shown.home = name;
      const members = this.homes.get(name) ?? new Set();
      this.homes.set(name, members.add(shown));
    }
    this.dirty.add(name);
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
    const open = last && !last.end && !last.interrupt ? last.id : undefined;
    for (const turn of turns) {
      const told = [turn.start, turn.end, turn.interrupt, turn.id === open, turn.first];
      if (turn.told?.every((value, place) => value === told[place])) continue;
      turn.told = told;
      this.openTurn = open;
      this.dirty.add(`turn\0${turn.id}`);
      this.homes.get(`turn\0${turn.id}`)?.forEach((shown) => this.restate(shown));
    }
    this.openTurn = open;
  }

  restate(shown) {
    if (shown.item.kind !== "tool") return;
    if (shown.element && !shown.item.results.length) this.show(shown);
    this.homes.get(`call\0${shown.item.key}`)?.forEach((child) => this.restate(child));
  }

  revoke() {
    const before = this.revoked;
    this.revoked = this.log.revoked();
    if (!before.size && !this.revoked.size) return;
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
    this.tops = this.slots();
    [...dirty].filter((name) => name.startsWith("call\0")).forEach((name) => this.layOutCall(name));
    for (const slot of this.tops) {
      if (slot.name === undefined || dirty.has(slot.name) || !slot.element.firstChild) this.layOutTurn(slot);
    }
    place(this.container, separators(this.tops));
  }

  layOutCall(name) {
    const call = this.shown.get(name.slice("call\0".length));
    const items = inPlace(this.homes.get(name) ?? []);
    if (!call?.element) return;
    call.nest ??= el("div", { class: "subagent" });
    this.flow(call.nest, items, true);
    if (items.length) call.element.append(call.nest);
    else call.nest.remove();
  }

  /** Turns, and runs of what is in none, in the order in which they begin. */
  slots() {
    const slots = [];
    for (const turn of this.log.turns.values()) {
      const members = this.homes.get(`turn\0${turn.id}`) ?? new Set();
      const end = turn.end ?? turn.interrupt;
      if (members.size || turn.end) slots.push({ seq: turn.first, name: `turn\0${turn.id}`, turn, members, end });
    }
    for (const shown of this.homes.get("turn\0") ?? []) slots.push({ seq: shown.item.seq, members: [shown] });
    slots.sort((one, other) => one.seq - other.seq);
    const joined = [];
    for (const slot of slots) {
      const before = joined.at(-1);
      if (slot.turn || !before || before.turn) joined.push({ ...slot, members: [...slot.members] });
      else before.members.push(...slot.members);
    }
    const used = new Set();
    joined.forEach((slot) => {
      slot.items = inPlace(slot.members);
      slot.element = slot.turn?.element ?? wrapper("section", "turn", slot.items, this.container, used);
      if (slot.turn) slot.turn.element = slot.element;
    });
    return joined;
  }

  layOutTurn({ element, turn, seq, items }) {
    const isOpen = turn !== undefined && turn.id === this.openTurn;
    const state = turn && (isOpen ? "running" : turn.interrupt ? "interrupted" : "done");
    const attributes = { class: "turn", "data-turn-id": turn?.id, "data-seq": seq, "data-state": state };
    setAttributes(element, attributes);
    this.flow(element, items, !isOpen, turn && footer(turn));
  }

  flow(parent, items, isOver, ...after) {
    const used = new Set();
    const children = runs(items, partOf).flatMap((run) => {
      const part = partOf(run[0]);
      if (part === "user") return run.map(({ element }) => element);
      const holder = wrapper("div", part, run, parent, used);
      if (part === "subagent") this.aside(holder, run, isOver);
      else this.respond(holder, run, isOver);
      return [holder];
    });
    place(parent, [...children, ...after.filter(Boolean)]);
  }

  /** What a subagent said and did of which it is not known who called it. */
  aside(holder, run, isOver) {
    setAttributes(holder, { class: "subagent", "data-unlinked": true });
    this.flow(holder, run.map((shown) => ({ ...shown, isAside: true })), isOver);
  }

  respond(holder, run, isOver) {
    const id = run.find(({ item }) => item.event.responseId !== undefined)?.item.event.responseId;
    setAttributes(holder, { class: "assistant-response", "data-response-id": id });
    place(holder, this.groups(holder, run, isOver));
  }

  groups(response, items, isOver) {
    const used = new Set();
    return runs(items, ({ item }) => GROUPS[item.kind]).flatMap((run) => {
      const name = GROUPS[run[0].item.kind];
      const elements = run.map(({ element }) => element);
      if (!name) return elements;
      const group = wrapper("div", name, run, response, used);
      place(group, name === "tool-calls" ? this.folded(group, run, isOver) : elements);
      return [group];
    });
  }

  /** Calls that follow each other become one line once their turn is over; those that failed stay in sight. */
  folded(group, run, isOver) {
    const elements = run.map(({ element }) => element);
    const canFold = run.length > 1;
    const isFolded = canFold && (group.folds ?? (isOver && run.length >= FOLDED_FROM));
    setAttributes(group, { class: "tool-calls", "data-folded": isFolded });
    for (const element of elements) {
      const isHidden = isFolded && !["error", "denied"].includes(element.dataset.state);
      if (isHidden) element.setAttribute("hidden", "until-found");
      else element.removeAttribute("hidden");
    }
    if (!canFold) return elements;
    const failed = elements.filter(({ dataset }) => ["error", "denied"].includes(dataset.state)).length;
    const told = `${run.length} tool calls${failed ? ` · ${failed} failed` : ""}`;
    const old = group.querySelector(":scope > .fold");
    const fresh = el("button", { class: "fold", type: "button", "aria-expanded": String(!isFolded) }, told);
    if (!old) return [fresh, ...elements];
    become(old, fresh);
    return [old, ...elements];
  }

  fold(button, folds) {
    const group = button?.parentElement;
    if (!group) return;
    group.folds = folds ?? !group.hasAttribute("data-folded");
    const shown = this.byElement.get(group.querySelector(":scope > .tool-call"));
    this.dirty.add(shown.home);
    this.layOut();
  }
}

/** What holds these items now, so that what is on the screen is moved as little as can be; else a new one. */
function wrapper(tag, name, items, parent, used) {
  const held = items.map(({ element }) => element.closest(`.${name}`));
  const found = held.find((element) => element?.parentNode === parent && !used.has(element)) ?? el(tag, { class: name });
  used.add(found);
  return found;
}

/** What of a turn an item belongs to. */
function partOf({ item, isAside }) {
  if (item.event.payload?.sidechain && !isAside) return "subagent";
  return item.kind === "user" ? "user" : "assistant-response";
}

function callId({ event }) {
  return event.payload.toolCallId;
}

function foldOf(element) {
  return element.closest(".tool-calls")?.querySelector(":scope > .fold");
}

function inPlace(shown) {
  return [...shown].sort((one, other) => one.item.seq - other.item.seq);
}

/** Neighbours of which the same is true. */
function runs(items, of) {
  const found = [];
  let last;
  items.forEach((item, index) => {
    if (index && of(item) === last) found.at(-1).push(item);
    else found.push([item]);
    last = of(item);
  });
  return found;
}

function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

function setOf(map, name) {
  if (!map.has(name)) map.set(name, new Set());
  return map.get(name);
}

function replace(old, fresh) {
  old.replaceWith(fresh);
  return fresh;
}
