import { activityOf, keepElapsed } from "../lib/activity-text.js";
import { el, morph, setChildren } from "../lib/dom.js";
import { pluralize } from "../lib/number-format.js";
import { dayKey, shortDayTime } from "../lib/time-format.js";
import { byPlace, groupSessions, groupsToMove, isImported, lastActivity, parentKey, singleGroups } from "./session-groups.js";
import { InteractionGuard } from "./interaction-guard.js";
import { rowLink, sessionName } from "./session-row.js";
import { agentOf } from "../lib/source-names.js";

/** A session is shown as live for this time after an event. */
export const LIVE_MS = 15_000;
const BATCH_MS = 150;
const MINUTE = 60_000;

/**
 * @typedef {{element: HTMLElement, children: any[], day?: string, link?: Element, opener?: Element, inputs?: any[],
 *   fold?: {element: HTMLDetailsElement, summary: Element, list: Element}}} Row
 * @typedef {{element: HTMLElement, list: Element, heading?: Element}} Day
 */

/** Rows of sessions by day, newest activity first; subagents are folded below their root session. */
export class SessionList {
  /** @type {Map<string, any>} */
  sessions = new Map();
  /** @type {Map<string, Row>} */
  rows = new Map();
  /** @type {Map<string, Day>} */
  days = new Map();
  /** The time that determined each group's place. @type {Map<string, number>} */
  places = new Map();
  /** Deleted sessions with rows that are still shown. @type {Set<string>} */
  deleted = new Set();
  /** Timers of live sessions. @type {Map<string, number>} */
  live = new Map();
  /** The number of changes that wait until the user stops interacting. */
  pendingMoves = 0;
  /** Whether rows show the machine and the person. */
  shown = { hasMachine: false, hasPerson: false };
  /** @type {number | undefined} */
  scheduled;

  /**
   * @param {{menu?: import("../actions/session-menu.js").SessionMenu, isFlat?: boolean, onLayOut?: () => void,
   *   onUnfold?: (id: string) => void}} [options] `isFlat` shows neither days nor folds; `onLayOut` is called after
   *   each layout; `onUnfold` is called with the id of a session when its subagents are opened
   */
  constructor({ menu, isFlat = false, onLayOut = () => {}, onUnfold = () => {} } = {}) {
    this.menu = menu;
    this.isFlat = isFlat;
    this.onLayOut = onLayOut;
    this.onUnfold = onUnfold;
    this.element = el("div", { class: "session-days" });
    this.guard = new InteractionGuard(this.element, () => this.pendingMoves && this.schedule());
    this.element.addEventListener("toggle", ({ target }) => this.unfold(target), true);
    setInterval(() => this.schedule(), MINUTE / 2);
    keepElapsed(this.element);
  }

  clear() {
    this.sessions = new Map();
    this.rows = new Map();
    this.days = new Map();
    this.places = new Map();
    this.deleted = new Set();
    this.live = new Map();
    this.pendingMoves = 0;
    this.element.replaceChildren();
  }

  get size() {
    return this.sessions.size;
  }

  /** Add a page of sessions, placed at once. */
  add(sessions) {
    sessions.forEach((session) => this.store(session));
    const added = new Set(sessions.map(({ id }) => id));
    for (const { key, lead, time, children } of this.groups()) {
      const isAdded = [lead, ...children].some(({ id }) => added.has(id));
      if (isAdded && !this.places.has(key)) this.places.set(key, time);
    }
    this.layOut();
  }

  /** Update a session; its row moves once the user does not interact with the list. */
  update(session) {
    this.store(session);
    this.schedule();
  }

  get(id) {
    return this.sessions.get(id);
  }

  /** Show a session as live for some time. */
  markLive(id) {
    clearTimeout(this.live.get(id));
    const expire = () => this.live.delete(id) && this.schedule();
    this.live.set(id, setTimeout(expire, LIVE_MS));
    this.schedule();
  }

  remove(id) {
    if (this.sessions.has(id)) this.deleted.add(id);
    this.schedule();
  }

  /** Replace the newest sessions, or all: those missing in that range were deleted. */
  replace(sessions, isAll) {
    const ids = new Set(sessions.map(({ id }) => id));
    const oldest = isAll ? -Infinity : Math.min(...sessions.map(lastActivity));
    sessions.forEach((session) => this.store(session));
    const missing = [...this.sessions.values()].filter(({ id }) => !ids.has(id));
    missing.filter((session) => lastActivity(session) >= oldest).forEach(({ id }) => this.deleted.add(id));
    this.schedule();
  }

  /** Apply pending moves and deletions now. */
  applyMoves() {
    this.deleted.forEach((id) => this.sessions.delete(id));
    this.deleted.clear();
    const groups = this.groups();
    groupsToMove(groups, this.places, this.isLive).forEach(({ key, time }) => this.places.set(key, time));
    this.layOut(groups);
  }

  /** Show the machine or the person in each row, or not. */
  showInRows(shown) {
    this.shown = shown;
    this.layOut();
  }

  store(session) {
    const before = this.sessions.get(session.id);
    if (before && Date.parse(before.updatedAt) > Date.parse(session.updatedAt)) return;
    this.sessions.set(session.id, withUsage(session, before));
    this.deleted.delete(session.id);
  }

  groups() {
    const sessions = this.sessions.values();
    return this.isFlat ? singleGroups(sessions) : groupSessions(sessions, this.sessions);
  }

  isLive = ({ lead, children }) => [lead, ...children].some((session) => this.isRunning(session));

  /** True for a session that was written to just now, or has an open turn. */
  isRunning(session) {
    return this.live.has(session.id) || (!isImported(session) && activityOf(session, Date.now()) !== undefined);
  }

  schedule() {
    this.scheduled ??= setTimeout(() => {
      this.scheduled = undefined;
      if (this.guard.isActive) this.layOut();
      else this.applyMoves();
    }, BATCH_MS);
  }

  // Elements.

  layOut(groups = this.groups()) {
    const placed = groups.filter(({ key }) => this.places.has(key)).sort(byPlace(this.places));
    this.pendingMoves = groupsToMove(groups, this.places, this.isLive).length + this.deleted.size;
    this.removeRows();
    /** @type {Map<string, import("./session-groups.js").SessionGroup[]>} */
    const byDay = new Map();
    for (const group of placed) {
      const day = this.isFlat ? "" : dayKey(this.places.get(group.key));
      byDay.set(day, [...(byDay.get(day) ?? []), group]);
    }
    setChildren(this.element, [...byDay].map(([day, members]) => this.showDay(day, members)));
    this.onLayOut();
  }

  /** Remove the rows of sessions that are no longer in the list. */
  removeRows() {
    for (const [id, { element }] of this.rows) {
      if (this.sessions.has(id)) continue;
      element.remove();
      this.rows.delete(id);
    }
  }

  showDay(key, groups) {
    const day = this.days.get(key) ?? newDay();
    this.days.set(key, day);
    setChildren(day.list, groups.map((group) => this.showGroup(group, key)));
    if (!this.isFlat) setChildren(day.element, [dayHeading(day, this.places.get(groups[0].key)), day.list]);
    return day.element;
  }

  showGroup(group, day) {
    const { lead, children } = group;
    const row = this.showRow(lead, { day, isLive: this.isLive(group), isSubagent: parentKey(lead) !== undefined });
    row.day = day;
    row.children = children;
    if (children.length) this.showFold(row);
    else row.fold?.element.remove();
    return row.element;
  }

  /** @param {Row} row */
  showFold(row) {
    const fold = (row.fold ??= newFold());
    if (!fold.element.isConnected) row.element.append(fold.element);
    setText(fold.summary, pluralize(row.children.length, "subagent"));
    if (!fold.element.open) return;
    const { day } = row;
    const children = row.children.map((child) =>
      this.showRow(child, { day, isLive: this.isRunning(child), isSubagent: true }),
    );
    setChildren(fold.list, children.map(({ element }) => element));
  }

  unfold(element) {
    const id = element.parentElement?.dataset.sessionId;
    const row = this.rows.get(id);
    if (!row?.fold || !element.open) return;
    this.showFold(row);
    this.onUnfold(id);
  }

  showRow(session, { day, isLive, isSubagent }) {
    const isDeleted = this.deleted.has(session.id);
    const row = this.rows.get(session.id) ?? newRow(session);
    this.rows.set(session.id, row);
    const inputs = [session, day, isLive, isSubagent, isDeleted, this.shown];
    if (inputs.every((value, index) => value === row.inputs?.[index])) return row;
    row.inputs = inputs;
    const fresh = rowLink(session, { day, isLive, isSubagent, ...this.shown });
    row.element.dataset.source = agentOf(session);
    row.element.toggleAttribute("data-live", isLive);
    row.element.toggleAttribute("data-gone", isDeleted);
    if (row.link) morph(row.link, fresh);
    else row.element.append((row.link = fresh));
    this.showOpener(row, session);
    return row;
  }

  /** The button of the menu follows the link, so that it is no part of it. */
  showOpener(row, session) {
    if (!this.menu) return;
    row.opener ??= this.menu.opener(session.id, { class: "row-menu icon-button menu-opener" }, null);
    if (!row.opener.isConnected) row.link.after(row.opener);
    const label = `Actions: ${sessionName(session).name}`;
    row.opener.setAttribute("aria-label", label);
    row.opener.setAttribute("title", "Actions");
  }
}

/** A session with the usage that is known: changes of sessions do not contain it. */
function withUsage(session, before) {
  if (session.usage || !before?.usage) return session;
  const { usage, totalUsage } = before;
  return { ...session, usage, totalUsage };
}

/** @returns {Row} */
function newRow({ id }) {
  return { element: el("li", { class: "session-item", "data-session-id": id }), children: [] };
}

function newFold() {
  const summary = el("summary");
  const list = rowList();
  return { element: el("details", { class: "subagents" }, summary, list), summary, list };
}

/** @returns {Day} */
function newDay() {
  const list = rowList();
  return { element: el("section", { class: "session-day" }, list), list };
}

function rowList() {
  return el("ul", { class: "session-rows", role: "list" });
}

function dayHeading(day, time) {
  const fresh = el("h2", { class: "day" }, dayName(time, Date.now()));
  if (day.heading) morph(day.heading, fresh);
  else day.heading = fresh;
  return day.heading;
}

function dayName(time, now) {
  const yesterday = new Date(now);
  yesterday.setDate(yesterday.getDate() - 1);
  const name = shortDayTime(time, now);
  if (dayKey(time) === dayKey(now)) name.textContent = "Today";
  if (dayKey(time) === dayKey(yesterday)) name.textContent = "Yesterday";
  return name;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
