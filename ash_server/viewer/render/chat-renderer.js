/**
 * Render events to DOM, and nothing else: the same for live, replay and the exported page.
 *
 * The log folds events into items (event-log.js); a changed item is painted again and put in its place. So the DOM
 * depends on the set of events only.
 */
import { el, morph, setChildren } from "../lib/dom.js";
import { GrowingMarkdown } from "../lib/growing-markdown.js";
import { EventLog } from "./event-log.js";
import { openTextOf, paint } from "./painters.js";
import { callState } from "./tools/call-state.js";
import { isInitiallyOpen, runsScripts } from "./tools/registry.js";
import { layOutFlow, layOutRevoked, reuseWrapper, setAttributes, toggleFold } from "./turn-layout.js";
import { turnFooter, withSeparators } from "./turn-separators.js";

/**
 * @typedef {import("./event-log.js").ChatEvent} ChatEvent
 * @typedef {import("./event-log.js").Item} Item
 * @typedef {import("./event-log.js").Turn} Turn
 */

/**
 * An item and its element. `home` is the key of the container it belongs to, `nest` holds the items of a call's
 * subagent, `choice` is the open state that the user chose, `shown` the item as it was painted,
 * `growing` its open text.
 * @typedef {{item: Item, element: any, home?: string, nest?: HTMLElement, isOpen?: boolean, isFilled?: boolean,
 *   choice?: boolean, shown?: Item, growing?: GrowingMarkdown}} ItemView
 */

/** @typedef {{items: ItemView[], element?: HTMLElement, inputs?: any[], working?: HTMLElement}} TurnView */

/** A turn, or a run of items between turns. @typedef {any} Slot */

export class ChatRenderer {
  isLive = false;
  /** The open turn (`EventLog.openTurn`). @type {string | null | undefined} */
  openTurn;
  /** The values with which turns were last updated. @type {{isLive: boolean, openTurn?: string | null}} */
  updated = { isLive: false };
  /** @type {number | undefined} */
  frame;

  /** @type {Map<string, ItemView>} */
  itemViews = new Map();
  /** @type {WeakMap<Element, ItemView>} */
  byElement = new WeakMap();
  /** Calls without a result and streams without an end. @type {Set<ItemView>} */
  unfinished = new Set();
  /** The keys of a subagent's items by the id of its call. @type {Map<string, Set<string>>} */
  children = new Map();
  /** @type {Map<string, Set<ItemView>>} */
  homes = new Map();
  /** The homes to lay out. @type {Set<string>} */
  dirty = new Set();
  /** True if turns were laid out that are not on the page yet. */
  hasNewTurns = false;
  /** The keys of the items to paint. @type {Set<string>} */
  changed = new Set();
  /** @type {Set<string>} */
  revoked = new Set();
  /** @type {Map<string, TurnView>} */
  turnViews = new Map();
  /** The turns laid out since the last call of `onPaint`. @type {Set<Element>} */
  painted = new Set();
  /** @type {WeakMap<Element, string>} */
  looseRuns = new WeakMap();

  /**
   * @param {HTMLElement} container
   * @param {{onPaint?: (painted: Set<Element>) => void, hrefOf?: (sessionId: string) => string}} [options] `onPaint` is
   *   called after each change of the DOM, with the turns that changed; `hrefOf` returns the address of another session
   */
  constructor(container, { onPaint = () => {}, hrefOf } = {}) {
    this.container = container;
    this.onPaint = onPaint;
    this.context = { hrefOf, agentHrefs: new Map() };
    this.log = new EventLog();
    container.classList.add("chat-log");
    container.addEventListener("toggle", (event) => this.fillToolBody(event.target), true);
    container.addEventListener("click", ({ target }) => toggleFold(/** @type {Element} */ (target).closest(".fold")));
    container.addEventListener("beforematch", ({ target }) => toggleFold(/** @type {Element} */ (target), false), true);
    container.replaceChildren();
  }

  /**
   * Add an event; it is painted with the next frame.
   *
   * @param {ChatEvent} event
   */
  renderEvent(event) {
    if (this.log.add(event)) this.frame ??= requestAnimationFrame(() => this.flush());
  }

  /**
   * Show these events and no others.
   *
   * @param {ChatEvent[]} events
   */
  replayEvents(events) {
    this.log.clear();
    this.clear();
    events.forEach((event) => this.log.add(event));
    this.flush();
  }

  /**
   * Add a live event: the same as renderEvent.
   *
   * @param {ChatEvent} event
   */
  handleNewEvent(event) {
    this.renderEvent(event);
  }

  /** Set whether the session is being written. If not, unfinished items of its last turn are shown as interrupted. */
  setLive(isLive) {
    if (isLive === this.isLive) return;
    this.isLive = isLive;
    this.flush();
  }

  /**
   * Link the calls that started subagents, and the messages to them, to their sessions.
   *
   * @param {Map<string, string>} hrefs the address of each session by the id of its agent
   */
  linkAgents(hrefs) {
    const before = this.context.agentHrefs;
    const isSame = hrefs.size === before.size && [...hrefs].every(([agent, href]) => before.get(agent) === href);
    if (isSame) return;
    this.context.agentHrefs = hrefs;
    for (const view of this.itemViews.values()) if (namesAgent(view.item)) this.paintItem(view);
    this.layOut();
  }

  /**
   * Add events, and build the elements of new items, until flush() shows them: a part of the work that can be done while
   * more events are fetched.
   *
   * @param {ChatEvent[]} events
   */
  prepare(events) {
    events.forEach((event) => this.log.add(event));
    if (this.log.wasReset) return;
    this.takeChanges();
    if (this.isLive) this.openTurn = this.log.openTurn();
    for (const key of this.changed) {
      const view = this.itemViews.get(key);
      if (view?.element) continue;
      this.paintItem(view);
      this.changed.delete(key);
    }
  }

  /**
   * Lay out new turns and subagents until flush() shows them; false if none is left.
   *
   * @param {number} count the number of turns and subagents
   */
  prepareTurns(count) {
    if (this.log.wasReset) return false;
    this.updateTurns();
    const homes = [...this.dirty].filter((home) => this.isHidden(home)).sort(callsFirst).slice(0, count);
    for (const home of homes) {
      this.dirty.delete(home);
      if (home.startsWith(CALL)) this.layOutCall(home);
      else this.layOutNewTurn(home.slice(TURN.length));
    }
    return homes.length > 0;
  }

  /** True if a home is a turn or a call that is not on the page yet. */
  isHidden(home) {
    if (home.startsWith(CALL)) return this.itemViews.get(home.slice(CALL.length))?.element?.isConnected === false;
    return home.startsWith(TURN) && !this.turnViews.get(home.slice(TURN.length))?.element?.isConnected;
  }

  layOutNewTurn(id) {
    const turn = this.log.turns.get(id);
    if (!turn) return;
    /** @type {Slot} */
    const slot = this.turnSlot(turn, true);
    if (!slot.items.length && !slot.end) return;
    this.assignElement(slot, new Set());
    this.layOutTurn(slot);
    this.hasNewTurns = true;
  }

  /** Paint pending changes now. */
  flush() {
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    this.frame = undefined;
    if (this.log.wasReset) this.clear();
    this.log.wasReset = false;
    this.takeChanges();
    this.updateTurns();
    this.updateRevoked();
    const { changed } = this;
    this.changed = new Set();
    changed.forEach((key) => this.paintItem(this.itemViews.get(key)));
    this.layOut();
    const { painted } = this;
    this.painted = new Set();
    this.onPaint(painted);
  }

  clear() {
    this.itemViews = new Map();
    this.byElement = new WeakMap();
    this.unfinished = new Set();
    this.children = new Map();
    this.homes = new Map();
    this.dirty = new Set();
    this.hasNewTurns = false;
    this.changed = new Set();
    this.revoked = new Set();
    this.openTurn = undefined;
    this.turnViews = new Map();
    this.painted = new Set();
    this.looseRuns = new WeakMap();
    this.container.replaceChildren();
  }

  /** The items on the page with their elements, in the order of the log: without those that prepare() built. */
  get inOrder() {
    return inLogOrder([...this.itemViews.values()].filter(({ element }) => element?.isConnected));
  }

  /** The item shown by an element. */
  itemOf(element) {
    return this.byElement.get(element)?.item;
  }

  // Items.

  takeChanges() {
    for (const { before, now } of this.log.takeChanges()) {
      this.replaceItems(before, now).forEach((key) => this.changed.add(key));
    }
  }

  /** Replace the items of a group; returns the keys to paint. */
  replaceItems(before, now) {
    const keys = new Set(now.map(({ key }) => key));
    before.filter(({ key }) => !keys.has(key)).forEach(({ key }) => this.removeItem(this.itemViews.get(key)));
    const changed = now.filter((item) => {
      const view = this.itemViews.get(item.key) ?? { item, element: undefined };
      const isPainted = view.element !== undefined && isSameItem(view.item, item);
      view.item = item;
      this.itemViews.set(item.key, view);
      if (item.parent !== undefined) setIn(this.children, item.parent).add(item.key);
      return !isPainted;
    });
    const all = [...before, ...now];
    const calls = new Set(all.filter(({ kind }) => kind === "tool").map(toolCallId));
    const parents = all.filter(({ kind, parent }) => kind === "text" && parent !== undefined);
    return [
      ...changed.map(({ key }) => key),
      ...[...calls].flatMap((id) => [...(this.children.get(id) ?? [])]),
      ...parents.map((item) => this.log.parentCallOf(item)?.key),
    ];
  }

  /** Values that the painters of a call and of its subagent's prompt take from each other. */
  subagentContext(item) {
    if (item.kind === "tool") return { lastText: this.lastTextOf(item), isOfScript: this.isOfScript(item) };
    return item.kind === "user" ? { taskArgs: this.log.parentCallOf(item)?.call?.payload.args } : {};
  }

  /** True for a call below one that runs scripts. */
  isOfScript(item) {
    const caller = item.parent === undefined ? undefined : this.log.parentCallOf(item);
    return caller !== undefined && runsScripts(caller);
  }

  /** The last text of a call's subagent. */
  lastTextOf(call) {
    const keys = this.children.get(toolCallId(call)) ?? [];
    /** @type {any[]} */
    const items = [...keys].map((key) => this.itemViews.get(key)?.item);
    const texts = items.filter((item) => item?.kind === "text" && this.log.parentCallOf(item)?.key === call.key);
    return texts.reduce((last, item) => (item.seq > (last?.seq ?? 0) ? item : last), undefined)?.text;
  }

  removeItem(view) {
    this.itemViews.delete(view.item.key);
    this.unfinished.delete(view);
    this.children.get(view.item.parent)?.delete(view.item.key);
    view.element?.remove();
    this.removeFromHome(view);
  }

  /** @param {ItemView | undefined} view */
  paintItem(view) {
    if (!view) return;
    const { item } = view;
    const canContinue = this.canContinue(item.event.turnId);
    const shown = item.isOpen && !canContinue ? { ...item, isOpen: false } : item;
    if (this.growText(view, shown)) return;
    const state = callState(item, canContinue);
    const isOpen = isInitiallyOpen(item, state);
    if (view.element && view.element.open !== view.isOpen) view.choice = view.element.open;
    const own = { ...this.subagentContext(item), state, isOpen: view.isFilled || isOpen };
    const fresh = paint(shown, { ...this.context, ...own });
    if (!view.element) view.element = fresh;
    else if (view.element.tagName === fresh.tagName) morph(view.element, fresh, placeForNest(view, fresh));
    else view.element = replace(view.element, fresh);
    view.element.toggleAttribute("data-retracted", this.revoked.has(item.event.id));
    if (item.kind === "tool") view.element.open = view.choice ?? isOpen;
    view.isOpen = view.element.open;
    this.byElement.set(view.element, view);
    if (isUnfinished(item)) this.unfinished.add(view);
    else this.unfinished.delete(view);
    if (view.nest) this.dirty.add(`call\0${item.key}`);
    this.assignHome(view);
  }

  /**
   * Update an open text in place; false if the item must be painted again.
   *
   * @param {ItemView} view
   * @param {Item} item
   */
  growText(view, item) {
    const parent = openTextOf(view.element, view.shown, item);
    view.shown = item;
    view.growing = parent && (view.growing ?? new GrowingMarkdown(parent));
    view.growing?.update(item.text);
    return view.growing !== undefined;
  }

  /** Build the body of a tool call when it is opened. */
  fillToolBody(element) {
    const view = this.byElement.get(element);
    if (view?.item.kind === "tool" && element.open && !view.isOpen && !view.isFilled) {
      view.isFilled = true;
      this.paintItem(view);
      this.layOut();
    }
  }

  /**
   * Open or close an item; the layout is not updated.
   *
   * @param {ItemView} view
   * @param {boolean} isOpen
   */
  setOpen(view, isOpen) {
    view.choice = isOpen;
    if (isOpen && view.item.kind === "tool" && !view.isFilled) {
      view.isFilled = true;
      view.isOpen = view.element.open;
      this.paintItem(view);
    }
    view.element.open = isOpen;
    view.isOpen = isOpen;
  }

  /** Build all bodies, for printing. */
  fillAllToolBodies() {
    for (const view of this.itemViews.values()) {
      if (view.item.kind !== "tool" || view.isFilled) continue;
      view.isFilled = true;
      this.paintItem(view);
    }
    this.layOut();
  }

  // Homes: an item belongs to the call of its subagent, to its turn, or between turns.

  assignHome(view) {
    const { item } = view;
    const call = item.parent !== undefined && this.log.parentCallOf(item);
    const home = call ? `call\0${call.key}` : turnHome(item.event);
    if (view.home !== home) {
      this.removeFromHome(view);
      view.home = home;
      setIn(this.homes, home).add(view);
    }
    this.dirty.add(home);
  }

  removeFromHome(view) {
    if (view.home === undefined) return;
    this.homes.get(view.home)?.delete(view);
    this.dirty.add(view.home);
  }

  /** Update turns that changed, and the state of unfinished items in turns that ended. */
  updateTurns() {
    const { isLive } = this;
    const openTurn = (this.openTurn = this.log.openTurn());
    const before = this.updated;
    this.updated = { isLive, openTurn };
    /** @type {Set<string | undefined>} */
    const changed = new Set(isLive === before.isLive ? [] : [undefined]);
    const turns = this.log.takeChangedTurns();
    for (const id of [before.openTurn, openTurn]) {
      const turn = this.log.turns.get(id ?? "");
      if (turn) turns.add(turn);
    }
    for (const turn of turns) {
      const view = this.turnView(turn);
      const { start, end, interrupt } = turn;
      const inputs = [start, end, interrupt, this.canContinue(turn.id), turn.first, end && turn.last];
      if (view.inputs?.every((value, index) => value === inputs[index])) continue;
      view.inputs = inputs;
      this.dirty.add(`turn\0${turn.id}`);
      changed.add(turn.id);
    }
    for (const view of this.unfinished) if (changed.has(view.item.event.turnId)) this.paintItem(view);
  }

  /** True if a turn, or a run of items between turns, may get more events. */
  canContinue(turnId) {
    return this.isLive && (turnId === undefined || turnId === this.openTurn);
  }

  /** @returns {TurnView} */
  turnView({ id }) {
    const view = this.turnViews.get(id) ?? { items: [] };
    this.turnViews.set(id, view);
    return view;
  }

  updateRevoked() {
    const before = this.revoked;
    this.revoked = this.log.revoked();
    if (this.revoked === before || (!before.size && !this.revoked.size)) return;
    for (const { item, element, home } of this.itemViews.values()) {
      const isRevoked = this.revoked.has(item.event.id);
      if (!element || element.hasAttribute("data-retracted") === isRevoked) continue;
      element.toggleAttribute("data-retracted", isRevoked);
      if (home !== undefined) this.dirty.add(home);
    }
  }

  // Layout: turns, and in them prompts and responses.

  layOut() {
    if (!this.dirty.size && !this.hasNewTurns) return;
    this.hasNewTurns = false;
    const { dirty } = this;
    this.dirty = new Set();
    [...dirty].filter((home) => home.startsWith("call\0")).forEach((home) => this.layOutCall(home));
    const slots = this.slots(dirty);
    slots.filter(({ isDirty }) => isDirty).forEach((slot) => this.layOutTurn(slot));
    setChildren(this.container, withSeparators(slots));
  }

  layOutCall(home) {
    const call = this.itemViews.get(home.slice("call\0".length));
    if (!call?.element) return;
    const children = inLogOrder(this.homes.get(home) ?? []);
    call.nest ??= el("div", { class: "subagent" });
    layOutFlow(call.nest, children, { isOver: call.element.dataset.state !== "running", isAside: true });
    const before = nestNeighbour(call.element);
    if (!children.length) call.nest.remove();
    else if (before.nextSibling !== call.nest) before.after(call.nest);
    const turn = call.element.closest(".turn");
    if (turn) this.painted.add(turn);
  }

  /**
   * Turns, and runs of items between turns, by their first event.
   *
   * @param {Set<string>} dirty
   * @returns {Slot[]}
   */
  slots(dirty) {
    const turns = [...this.log.turns.values()].map((turn) => this.turnSlot(turn, dirty.has(`turn\0${turn.id}`)));
    const shownTurns = turns.filter(({ items, end }) => items.length || end);
    const loose = inLogOrder(this.homes.get(LOOSE) ?? []).map((view) => ({ seq: view.item.seq, items: [view] }));
    const isDirty = dirty.has(LOOSE);
    /** @type {Slot[]} */
    const slots = [];
    for (const slot of bySeq([...shownTurns, ...loose])) {
      const previous = slots.at(-1);
      if (!slot.turn && previous && !previous.turn) previous.items.push(...slot.items);
      else slots.push(slot.turn ? slot : { ...slot, isDirty });
    }
    const used = new Set(this.log.turns.values().map((turn) => this.turnView(turn).element));
    slots.forEach((slot) => this.assignElement(slot, used));
    return slots;
  }

  turnSlot(turn, isDirty) {
    const view = this.turnView(turn);
    if (isDirty) view.items = inLogOrder(this.homes.get(`turn\0${turn.id}`) ?? []);
    return { seq: turn.first, turn, items: view.items, end: turn.end ?? turn.interrupt, isDirty };
  }

  /** Reuse the element of a slot. A run between turns changes when a new turn splits it. */
  assignElement(slot, used) {
    if (slot.turn) {
      slot.element = this.turnView(slot.turn).element ??= el("section", { class: "turn" });
      return;
    }
    slot.element = reuseWrapper("turn", slot.items, this.container, used, "section");
    const signature = `${slot.seq} ${slot.items.length}`;
    slot.isDirty ||= this.looseRuns.get(slot.element) !== signature;
    this.looseRuns.set(slot.element, signature);
  }

  layOutTurn({ element, turn, seq, items }) {
    const isOpen = turn !== undefined && this.canContinue(turn.id);
    const state = turn && (isOpen ? "running" : turn.interrupt || !turn.end ? "interrupted" : "done");
    setAttributes(element, { class: "turn", "data-turn-id": turn?.id, "data-seq": seq, "data-state": state });
    const isRevoked = turn && items.length > 0 && items.every(({ item }) => this.revoked.has(item.event.id));
    const layOut = isRevoked ? layOutRevoked : layOutFlow;
    const after = [turn && turnFooter(turn), isOpen && this.isWorking(items) && this.workingLine(turn)];
    layOut(element, items, { isOver: !isOpen, after: after.filter(Boolean) });
    this.painted.add(element);
  }

  /** True if a turn in progress shows neither an open text nor a running call, and its last item is no answer. */
  isWorking(items) {
    const isAnswered = items.at(-1)?.item.kind === "text";
    return !isAnswered && !items.some((view) => this.unfinished.has(view) && !this.revoked.has(view.item.event.id));
  }

  workingLine(turn) {
    return (this.turnView(turn).working ??= el("p", { class: "working" }, "Working …"));
  }
}

function namesAgent({ kind, event, results = [] }) {
  return kind === "agent" || [event, ...results].some(({ payload }) => payload.agentId !== undefined);
}

/** The element before the items of a call's subagent: they come between the task and the answer. */
function nestNeighbour(call) {
  return call.querySelector(":scope > .tool-args") ?? call.firstElementChild;
}

/**
 * A placeholder in a fresh call for the items of its subagent, which must not move: they may have the focus.
 *
 * @param {ItemView} view
 * @param {Element} fresh
 */
function placeForNest({ nest, element }, fresh) {
  if (!nest || nest.parentNode !== element) return undefined;
  const placeholder = el("div");
  nestNeighbour(fresh).after(placeholder);
  return { placeholder, node: nest };
}

/** True for items of the same events: a group may contain thousands, and an event changes one. */
function isSameItem(one, other) {
  const names = Object.keys(other);
  return Object.keys(one).length === names.length && names.every((name) => isSameField(one[name], other[name]));
}

function isSameField(one, other) {
  if (!Array.isArray(one) || !Array.isArray(other)) return one === other;
  return one.length === other.length && one.every((each, index) => each === other[index]);
}

/** The home of items outside turns. */
const LOOSE = "loose";
/** The beginnings of the homes of turns and of the calls of subagents. */
const TURN = "turn\0";
const CALL = "call\0";

/** Subagents are parts of turns and of other subagents. */
function callsFirst(one, other) {
  return Number(other.startsWith(CALL)) - Number(one.startsWith(CALL));
}

function turnHome({ turnId }) {
  return turnId === undefined ? LOOSE : `turn\0${turnId}`;
}

function toolCallId({ event }) {
  return event.payload.toolCallId;
}

function isUnfinished(item) {
  return item.isOpen || (item.kind === "tool" && !item.results.length);
}

function bySeq(slots) {
  return slots.sort((one, other) => one.seq - other.seq);
}

/**
 * @param {Iterable<ItemView>} views
 * @returns {ItemView[]}
 */
function inLogOrder(views) {
  return [...views].sort((one, other) => one.item.seq - other.item.seq);
}

function setIn(map, key) {
  if (!map.has(key)) map.set(key, new Set());
  return map.get(key);
}

function replace(old, fresh) {
  old.replaceWith(fresh);
  return fresh;
}
