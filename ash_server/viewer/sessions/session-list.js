import { become, el, place } from "../lib/dom.js";
import { counted } from "../lib/number-format.js";
import { ago, dayKey, dayOf } from "../lib/time-format.js";
import { activeAt, grouped, inPlace, movers, single } from "./session-groups.js";
import { Hold } from "./interaction-guard.js";
import { rowLink } from "./session-row.js";

/** So long after something came a session still seems to be worked at, in milliseconds. */
export const LIVE_FOR = 15_000;
const TOGETHER = 150;
const MINUTE = 60_000;

/** Rows of sessions by day, newest activity first; subagents are folded under who started them. */
export class SessionList {
  /**
   * `isFlat`: without days and folds. `onLayOut` is called when rows came, went or wait to be moved;
   * `onUnfold` with the id of a session whose subagents are to be seen.
   */
  constructor({ isFlat = false, onLayOut = () => {}, onUnfold = () => {} } = {}) {
    this.isFlat = isFlat;
    this.onLayOut = onLayOut;
    this.onUnfold = onUnfold;
    this.element = el("div", { class: "session-days" });
    this.hold = new Hold(this.element, () => this.waiting && this.schedule());
    this.element.addEventListener("toggle", ({ target }) => this.unfold(target), true);
    setInterval(() => this.tick(), MINUTE / 2);
    this.clear();
  }

  clear() {
    this.known = new Map();
    this.rows = new Map();
    this.days = new Map();
    this.places = new Map();
    this.gone = new Set();
    this.live = new Map();
    this.waiting = 0;
    this.element.replaceChildren();
  }

  get size() {
    return this.known.size;
  }

  /** A page of the list: it is put where it belongs at once. */
  add(sessions) {
    sessions.forEach((session) => this.take(session));
    const added = new Set(sessions.map(({ id }) => id));
    for (const { key, lead, at, children } of this.groups()) {
      const isAdded = [lead, ...children].some(({ id }) => added.has(id));
      if (isAdded && !this.places.has(key)) this.places.set(key, at);
    }
    this.layOut();
  }

  /** A session as it is now; it moves when nobody would lose their place. */
  update(session) {
    this.take(session);
    this.schedule();
  }

  /** How a session was before it changed. */
  get(id) {
    return this.known.get(id);
  }

  /** Something came just now. */
  enliven(id) {
    clearTimeout(this.live.get(id));
    const quieten = () => this.live.delete(id) && this.schedule();
    this.live.set(id, setTimeout(quieten, LIVE_FOR));
    this.schedule();
  }

  remove(id) {
    if (this.known.has(id)) this.gone.add(id);
    this.schedule();
  }

  /** The newest sessions as they are now, or all: those that are not among them are no more. */
  renew(sessions, isAll) {
    const ids = new Set(sessions.map(({ id }) => id));
    const oldest = isAll ? -Infinity : Math.min(...sessions.map(activeAt));
    sessions.forEach((session) => this.take(session));
    const missing = [...this.known.values()].filter(({ id }) => !ids.has(id));
    missing.filter((session) => activeAt(session) >= oldest).forEach(({ id }) => this.gone.add(id));
    this.schedule();
  }

  /** Moves what waits, whoever looks. */
  settle() {
    this.gone.forEach((id) => this.known.delete(id));
    this.gone.clear();
    const groups = this.groups();
    movers(groups, this.places, this.isLive).forEach(({ key, at }) => this.places.set(key, at));
    this.layOut(groups);
  }

  take(session) {
    const before = this.known.get(session.id);
    if (before && Date.parse(before.updatedAt) > Date.parse(session.updatedAt)) return;
    this.known.set(session.id, session);
    this.gone.delete(session.id);
  }

  groups() {
    const sessions = this.known.values();
    return this.isFlat ? single(sessions) : grouped(sessions, this.known);
  }

  isLive = ({ lead, children }) => [lead, ...children].some(({ id }) => this.live.has(id));

  schedule() {
    this.scheduled ??= setTimeout(() => {
      this.scheduled = undefined;
      if (this.hold.isHeld) this.layOut();
      else this.settle();
    }, TOGETHER);
  }

  tick() {
    const now = Date.now();
    const times = this.element.querySelectorAll(".session-when time");
    times.forEach((time) => retell(time, ago(Date.parse(time.dateTime), now)));
    this.schedule();
  }

  // The elements.

  layOut(groups = this.groups()) {
    const shown = groups.filter(({ key }) => this.places.has(key)).sort(inPlace(this.places));
    this.waiting = movers(groups, this.places, this.isLive).length + this.gone.size;
    this.drop();
    const byDay = new Map();
    for (const group of shown) {
      const day = this.isFlat ? "" : dayKey(this.places.get(group.key));
      byDay.set(day, [...(byDay.get(day) ?? []), group]);
    }
    place(this.element, [...byDay].map(([day, members]) => this.showDay(day, members)));
    this.onLayOut();
  }

  drop() {
    for (const [id, { element }] of this.rows) {
      if (this.known.has(id)) continue;
      element.remove();
      this.rows.delete(id);
    }
  }

  showDay(key, groups) {
    const day = this.days.get(key) ?? newDay();
    this.days.set(key, day);
    place(day.list, groups.map((group) => this.showGroup(group)));
    if (!this.isFlat) place(day.element, [dayHeading(day, this.places.get(groups[0].key)), day.list]);
    return day.element;
  }

  showGroup(group) {
    const { lead, children } = group;
    const row = this.showRow(lead, this.isLive(group), lead.parentId !== undefined);
    row.children = children;
    if (children.length) this.showFold(row);
    else row.fold?.element.remove();
    return row.element;
  }

  showFold(row) {
    row.fold ??= newFold(row);
    if (!row.fold.element.isConnected) row.element.append(row.fold.element);
    retell(row.fold.summary, counted(row.children.length, "subagent"));
    if (!row.fold.element.open) return;
    const children = row.children.map((child) => this.showRow(child, this.live.has(child.id), true));
    place(row.fold.list, children.map(({ element }) => element));
  }

  unfold(element) {
    const id = element.parentElement?.dataset.sessionId;
    const row = this.rows.get(id);
    if (!row?.fold || !element.open) return;
    this.showFold(row);
    this.onUnfold(id);
  }

  showRow(session, isLive, isSubagent) {
    const isGone = this.gone.has(session.id);
    const row = this.rows.get(session.id) ?? newRow(session);
    this.rows.set(session.id, row);
    const told = [session, isLive, isSubagent, isGone];
    if (told.every((value, index) => value === row.told?.[index])) return row;
    row.told = told;
    const fresh = rowLink(session, { now: Date.now(), isLive, isSubagent });
    row.element.dataset.source = session.source;
    row.element.toggleAttribute("data-live", isLive);
    row.element.toggleAttribute("data-gone", isGone);
    if (row.link) become(row.link, fresh);
    else row.element.append((row.link = fresh));
    return row;
  }
}

function newRow({ id }) {
  return { element: el("li", { class: "session-item", "data-session-id": id }) };
}

function newFold() {
  const summary = el("summary");
  const list = rowList();
  return { element: el("details", { class: "subagents" }, summary, list), summary, list };
}

function newDay() {
  const list = rowList();
  return { element: el("section", { class: "session-day" }, list), list };
}

function rowList() {
  return el("ul", { class: "session-rows", role: "list" });
}

function dayHeading(day, at) {
  const fresh = el("h2", { class: "day" }, dayName(at, Date.now()));
  if (day.heading) become(day.heading, fresh);
  else day.heading = fresh;
  return day.heading;
}

function dayName(at, now) {
  const yesterday = new Date(now);
  yesterday.setDate(yesterday.getDate() - 1);
  const named = dayOf(at);
  if (dayKey(at) === dayKey(now)) named.textContent = "Today";
  if (dayKey(at) === dayKey(yesterday)) named.textContent = "Yesterday";
  return named;
}

function retell(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
