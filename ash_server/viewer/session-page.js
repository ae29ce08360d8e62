/** The page of a session: load its events, follow new ones, and resolve permalinks. */
import { exportMenu } from "./actions/export-menu.js";
import { SessionMenu } from "./actions/session-menu.js";
import { getJson, messageOf, withQuery } from "./lib/api.js";
import { ABANDONED_MS } from "./lib/activity-text.js";
import { loadFormulasOnDemand } from "./lib/formula-loader.js";
import { FrameBatch } from "./lib/frame-batch.js";
import { hitPlace } from "./lib/search-result.js";
import { errorPlaceholder, placeholder, skeleton } from "./lib/placeholders.js";
import { loadUsage } from "./lib/session-usage.js";
import { AnswerUsage } from "./session/answer-usage.js";
import { findError, firstEvent } from "./session/errors.js";
import { ChangesPanel } from "./session/changes-panel.js";
import { TurnChanges } from "./session/turn-changes.js";
import { ConnectionNotice } from "./session/connection-notice.js";
import { EventPages } from "./session/event-pages.js";
import { EventStream } from "./session/event-stream.js";
import { HitMarks, hitPattern } from "./session/hit-marks.js";
import { LiveIndicator } from "./session/live-indicator.js";
import { PaginationControls } from "./session/pagination-controls.js";
import { findElement, findNearest, pageQuery, placeFromUrl, placeOf, placeUrl, sessionAddress } from "./session/permalinks.js";
import { contentTop, itemsInView, scrollToRange } from "./session/scroll-anchor.js";
import { SessionHeader, sessionTitle } from "./session/session-header.js";
import { SessionSearch } from "./session/session-search.js";
import { SessionView } from "./session/session-view.js";

/** Faster loading shows no skeleton. */
const SKELETON_DELAY_MS = 150;
/** A session that was written this recently opens at its end. */
const RECENT_MS = 5 * 60_000;
/** A page opened at its start switches to the end if the session turns out to be live within this time. */
const UNTOUCHED_MS = 15_000;
/** While checking whether the session grows, the number of events is requested at this interval. */
const GROWTH_CHECK_MS = 2_000;
/** A hidden page keeps its stream for this time. */
const HIDDEN_STREAM_MS = 20_000;
const SAVE_PLACE_DELAY_MS = 250;
const MAX_ANNOUNCED_LENGTH = 200;
const DESCRIBE_DELAY_MS = 3_000;
const MAX_SUMMARY_DELAY_MS = 15_000;
const SUMMARY_DELAY_PER_EVENT_MS = 5;
/** The events in the session of a parent that name a subagent when it starts or answers. */
const STARTING_TYPES = "tool_result,agent_message,agent_callback,user_message";

/**
 * @typedef {import("./session/permalinks.js").Place} Place
 * @typedef {{place?: Place, below?: number, isEnd?: boolean} | null} HistoryState
 */

class SessionPage extends SessionView {
  /** @type {any} */
  session;
  /** Facts of the header besides the session. @type {Parameters<SessionHeader["show"]>[1]} */
  facts = {
    onError: () => this.goToCountedError(),
    onUnrecognised: () => this.tryTo(() => this.goToUnrecognised()),
    onChanges: () => this.changes.open(),
    onPlan: () => this.changes.open({ isPlan: true }),
  };
  /** The address of the call that started this session. @type {string | undefined} */
  startHref;
  isSeekingError = false;
  /** Loading the first page of events. @type {Promise<void> | undefined} */
  opening;
  /** Events to paint with the next frame. @type {any[]} */
  incoming = [];
  isCaughtUp = false;
  /** True after the stream ended for good. */
  isOver = false;
  wasAway = false;
  /** When the page was opened at its start. @type {number | undefined} */
  openedAtStart;
  /** @type {Element | undefined} */
  skeleton;
  /** @type {Element | undefined} */
  emptyNotice;
  batch = new FrameBatch(() => this.paintIncoming());
  /** Requests for the session, and the one with the answer that is shown: answers may arrive in another order. */
  described = { last: 0, shown: 0 };
  /** The same of the facts that take longer. */
  factsOf = { last: 0, shown: 0 };
  /** @type {number | undefined} */
  describeTimer;
  /** @type {{due: number, timer: number} | undefined} */
  pendingSummary;
  /** @type {number | undefined} */
  savePlaceTimer;
  /** @type {number | undefined} */
  hiddenTimer;

  /** @param {string} id */
  constructor(id) {
    const path = sessionAddress(id);
    const api = `/api/sessions/${id}`;
    super({
      addressOf: (item) => placeUrl(path, placeOf(item)),
      messages: `${api}/messages`,
      hrefOf: sessionAddress,
      usageOf: (item) => this.usage.textOf(item),
    });
    this.id = id;
    this.path = path;
    this.api = api;
    /** @type {import("./session/pagination-controls.js").Paint} */
    const paint = (change, edge) => this.autoScroll.paint(change, edge);
    this.header = new SessionHeader();
    this.live = new LiveIndicator(this.renderer, { paint, hasEnd: () => this.hasEnd(), toEnd: () => this.toEnd() });
    this.usage = new AnswerUsage(api, this.renderer);
    this.pages = new EventPages(`${api}/events`, this.renderer);
    this.pagination = new PaginationControls(this.pages, {
      paint,
      onEnd: () => this.onEnd(),
      toEnd: () => this.toEnd(),
    });
    const load = (turn, signal) => getJson(withQuery(`${api}/changes`, { turn }), { signal });
    this.changes = new ChangesPanel(load, (edit) => this.tryTo(() => this.goToCall(edit)));
    this.turnChanges = new TurnChanges(this.renderer, (turn) => this.changes.open({ turn }));
    this.marks = new HitMarks();
    this.search = new SessionSearch({
      address: `${api}/search`,
      path,
      position: () => this.position(),
      onHit: (hit, q, isFirst) => this.tryTo(() => this.showHit(hit, q, isFirst)),
      onClear: () => this.marks.clear(),
    });
    this.menu = new SessionMenu({
      get: () => this.session,
      show: (session) => this.showSession(session),
      announce: (text) => this.announcer.show(text),
    });
    this.menuOpener = this.menu.opener(id, { class: "menu-opener", title: "Actions" }, "Actions");
    const address = `${api}/events/stream?collapse=true`;
    this.stream = new EventStream(address, (name, value) => STREAM_HANDLERS[name](this, value));
    this.connection = new ConnectionNotice(() => this.stream.retry());
  }

  start() {
    const { header, pagination, connection, search, live } = this;
    this.shell = this.build({
      home: "/",
      marks: [live.mark, live.activity],
      bar: [search.element, this.menuOpener, exportMenu(this.path, this.api)],
      panels: [this.changes],
      header: header.element,
      before: [pagination.older],
      after: [pagination.newer, connection.element],
      actions: {
        openMenu: () => this.menuOpener.click(),
        openSearch: () => search.open(),
        goToHit: (steps) => search.go(steps),
        onEdge: (steps) => pagination.load(steps > 0 ? "newer" : "older"),
      },
    });
    this.outline.older.addEventListener("click", () => pagination.load("older"));
    this.outline.newer.addEventListener("click", () => pagination.load("newer"));
    this.usage.setShown(this.filters.preset === "everything");
    history.scrollRestoration = "manual";
    addEventListener("popstate", ({ state }) => this.tryTo(() => this.restore(state)));
    addEventListener("scroll", () => this.savePlaceSoon(), { passive: true });
    addEventListener("pagehide", () => this.stream.stop());
    addEventListener("pageshow", ({ persisted }) => persisted && this.startStream());
    addEventListener("online", () => this.stream.retry());
    document.addEventListener("visibilitychange", () => this.onVisibilityChange());
    this.load();
  }

  /** Load the session before its events: the header is above the log, and the session decides where the page opens. */
  async load() {
    const waiting = (this.skeleton = skeleton(6));
    const timer = setTimeout(() => this.log.before(waiting), SKELETON_DELAY_MS);
    try {
      this.opening = this.describe().then(() => this.restore(history.state));
      await this.opening;
      this.describeMore();
      this.log.parentElement?.querySelector(".state[data-state=error]")?.remove();
    } catch (problem) {
      const notice = errorPlaceholder(problem, () => {
        notice.remove();
        this.load();
      });
      this.log.before(notice);
    } finally {
      clearTimeout(timer);
      waiting.remove();
    }
  }

  // The facts of the session.

  async describe() {
    const before = this.session;
    const number = ++this.described.last;
    const session = await getJson(this.api);
    if (number < this.described.shown) return this.describe(); // an answer to a later request, or a change by the user, is shown
    // A session that is deleted and created again may keep its address.
    if (before && before.createdAt !== session.createdAt) this.reload();
    this.showSession(session, number);
    this.pagination.update(this.session.eventCount);
  }

  showSession(session, number = ++this.described.last) {
    this.described.shown = number;
    this.session = session;
    this.header.show(session, this.facts);
    this.live.describe(`${sessionTitle(session)} · Ash`, lastTime(session));
    this.shell?.setTitle(sessionTitle(session));
  }

  /** Load the facts that take longer. */
  async describeMore() {
    const { session } = this;
    const number = ++this.factsOf.last;
    const optional = (request) => request.catch(() => undefined);
    const [summary, usage, counts, parent, original, children, facts, changes] = await Promise.all([
      optional(getJson(`${this.api}/projections/session-summary`)),
      optional(loadUsage(session.id)),
      optional(getJson(`${this.api}/item-counts`)),
      session.parentId && optional(getJson(`/api/sessions/${session.parentId}`)),
      session.copyOf && optional(getJson(`/api/sessions/${session.copyOf}`)),
      optional(getJson(withQuery("/api/sessions", { parentId: session.id, limit: 200 }))),
      optional(getJson(`${this.api}/facts`)),
      session.filesChanged > 0 && optional(getJson(withQuery(`${this.api}/changes`, { diffs: false }))),
    ]);
    if (number < this.factsOf.shown) return; // later ones are shown
    this.factsOf.shown = number;
    this.changes.plan = facts?.plan;
    this.facts = { ...this.facts, summary, usage, plan: facts?.plan };
    if (changes) this.autoScroll.paint(() => this.turnChanges.show(changes));
    if (counts) this.filters.setTotals({ ...counts, errors: this.session.errorCount });
    this.header.show(this.session, this.facts);
    await this.showRelations(session, { parent, original, children });
  }

  async showRelations({ parentId: id, copiedMessages }, { parent, original, children }) {
    const started = children?.sessions ?? [];
    this.startHref ??= id && (await this.findStart(id).catch(() => undefined));
    const parentFacts = id && { id, title: "another session", ...parent, start: this.startHref };
    this.header.showRelations(parentFacts, started, original && { ...original, messages: copiedMessages });
    const agents = started.filter(({ agentId }) => agentId !== undefined);
    const hrefs = new Map(agents.map(({ agentId, id }) => [agentId, sessionAddress(id)]));
    this.autoScroll.paint(() => this.renderer.linkAgents(hrefs));
  }

  /** The address of the call that started this session, in the session of its parent. */
  async findStart(parentId) {
    const { agentId } = this.session;
    if (agentId === undefined) return undefined;
    const event = await firstEvent(`/api/sessions/${parentId}`, { agent: agentId, type: STARTING_TYPES });
    return event && placeUrl(sessionAddress(parentId), placeOf({ event }));
  }

  /**
   * Update the facts after new events. The summary reads the whole log, so within a turn its delay grows with the log.
   *
   * @param {boolean} isTurnOver
   */
  describeSoon(isTurnOver) {
    this.describeTimer ??= setTimeout(() => {
      this.describeTimer = undefined;
      this.describe().catch(() => undefined);
    }, DESCRIBE_DELAY_MS);
    const logDelay = Math.min(MAX_SUMMARY_DELAY_MS, SUMMARY_DELAY_PER_EVENT_MS * this.pages.last);
    const due = Date.now() + Math.max(DESCRIBE_DELAY_MS, isTurnOver ? 0 : logDelay);
    if (this.pendingSummary && this.pendingSummary.due <= due) return;
    clearTimeout(this.pendingSummary?.timer);
    const update = () => {
      this.pendingSummary = undefined;
      this.describeMore();
    };
    this.pendingSummary = { due, timer: setTimeout(update, due - Date.now()) };
  }

  /** Go to the first record that was not recognized, loading it if needed. */
  async goToUnrecognised() {
    if (this.visitUnrecognised()) return;
    const event = await firstEvent(this.api, { type: "raw" });
    if (event) await this.go(placeOf({ event }), { isNew: true });
  }

  /** The header shows the number of errors before the events are loaded, so wait for them. */
  async goToError(steps, current) {
    await this.opening?.catch(() => undefined);
    if (!this.pages.isOpen || this.visitError(steps, current)) return;
    const isMore = steps > 0 ? this.pages.hasNewer : this.pages.hasOlder;
    if (!isMore) this.announceNoError(steps);
    else if (!this.isSeekingError) await this.tryTo(() => this.seekError(steps));
  }

  /** Go to an error that is not loaded. */
  async seekError(steps) {
    this.isSeekingError = true;
    const event = await findError(this.api, this.pages, steps).finally(() => (this.isSeekingError = false));
    if (!event) return this.announceNoError(steps);
    await this.go(placeOf({ event }), { isNew: true });
    const element = findElement(this.renderer, placeOf({ event }));
    if (element) this.openError(element);
  }

  // Places in the session.

  /**
   * Go to the place of a history entry, else to the place that its address names.
   *
   * @param {HistoryState} state
   */
  async restore(state) {
    this.filters.readAddress();
    if (state?.place) return this.go(state.place, { below: state.below, flashes: false });
    const place = state?.isEnd ? undefined : placeFromUrl(location);
    return place ? this.go(place) : this.open(state);
  }

  /**
   * Show the end of a session that is being written or was until a moment ago, and the beginning of a finished one.
   * If the session has no last time, its last event decides.
   *
   * @param {HistoryState} state
   */
  async open(state) {
    const lastAt = lastTime(this.session);
    const isFinished = lastAt !== undefined && Date.now() - Date.parse(lastAt) > ABANDONED_MS;
    if (state?.isEnd || !isFinished) {
      if (!this.pages.last || this.pages.hasNewer) await this.openPage();
      if (state?.isEnd || this.live.isOpen || this.live.idleMs < RECENT_MS) return this.autoScroll.follow();
    }
    if (!this.pages.last || this.pages.hasOlder) await this.openPage({ after: 0 });
    super.toStart();
    this.openedAtStart = Date.now();
    if (Date.now() - Date.parse(this.session.updatedAt) < RECENT_MS) this.checkGrowth();
  }

  /** Check whether a session grows although its newest event is not loaded, such as a replay with old times. */
  checkGrowth() {
    setTimeout(() => this.tryTo(() => this.openEndIfGrowing()), GROWTH_CHECK_MS);
  }

  async openEndIfGrowing() {
    if (!this.isJustOpened || !this.pages.hasNewer) return;
    const { eventCount } = this.session;
    await this.describe();
    if (this.session.eventCount <= eventCount || !this.pages.hasNewer) return this.checkGrowth();
    if (!this.isUntouched || !(await this.openPage())) return;
    this.openedAtStart = undefined;
    this.live.eventReceived();
    this.live.update();
    this.autoScroll.follow();
  }

  get isUntouched() {
    return scrollY === 0 && document.activeElement === document.body;
  }

  get isJustOpened() {
    return this.openedAtStart !== undefined && Date.now() - this.openedAtStart < UNTOUCHED_MS;
  }

  /** Switch to the end if the page was opened at its start, was not used since, and the session is live. */
  followIfUntouched() {
    if (!this.isJustOpened || !this.live.isOpen || !this.isUntouched) return;
    this.openedAtStart = undefined;
    this.autoScroll.follow();
  }

  /**
   * Show a page of events and follow new ones; false if another page was requested in the meantime.
   *
   * @param {Parameters<EventPages["open"]>[0]} [query]
   */
  async openPage(query) {
    this.stream.stop();
    this.incoming = [];
    try {
      if (!(await this.pages.open(query))) return false;
    } catch (problem) {
      this.startStream();
      throw problem;
    }
    this.skeleton?.remove();
    this.startStream();
    this.pagination.onOpen();
    return true;
  }

  /**
   * Run an action of the user; if it fails, show the error and keep the page.
   *
   * @param {() => Promise<any>} act
   */
  tryTo(act) {
    return act().catch((problem) => this.announcer.show(messageOf(problem)));
  }

  /**
   * Go to a place.
   *
   * @param {Place} place
   * @param {{isNew?: boolean, below?: number, flashes?: boolean, focuses?: boolean}} [options] `isNew` adds an entry to
   *   the history
   */
  async go(place, { isNew = false, below, flashes, focuses } = {}) {
    if (isNew) {
      this.savePlace();
      history.pushState(null, "", placeUrl(this.path, place));
    }
    const loaded = findElement(this.renderer, place);
    const query = pageQuery(place);
    if (!loaded && (query || !this.pages.last) && !(await this.openPage(query))) return;
    const element = loaded ?? findElement(this.renderer, place);
    if (element) this.showPlace(element, place, { below, flashes, focuses });
    else this.showNearest(place);
  }

  /** Show an item; if the place is the message of a call's result, open the call. */
  showPlace(element, place, options) {
    const { message } = place;
    const { kind, event } = this.itemOf(element);
    if (kind === "tool" && message !== undefined && message !== event.messageSequence) {
      element.open = true;
      this.renderer.fillToolBody(element);
    }
    this.present(element, options);
  }

  /** Go to a call, loading it if needed, and open it. Messages may contain several calls. */
  async goToCall({ sequence }) {
    await this.go({ at: sequence }, { isNew: true });
    const element = findElement(this.renderer, { at: sequence });
    if (!element) return;
    history.replaceState(history.state, "", placeUrl(this.path, placeOf(this.itemOf(element))));
    if (element instanceof HTMLDetailsElement) element.open = true;
  }

  /** The sequence of the first event on the screen. */
  position() {
    const [first] = itemsInView(this.log);
    return first ? this.itemOf(first).seq : 0;
  }

  /** Go to a hit of the search, and mark the words in it. The search field keeps the focus. */
  async showHit(hit, q, isFirst) {
    const place = hitPlace(hit);
    this.marks.clear();
    const focuses = !this.search.element.contains(document.activeElement);
    await this.go(place, { isNew: isFirst, flashes: false, focuses });
    if (!isFirst) history.replaceState(history.state, "", placeUrl(this.path, place));
    const element = findElement(this.renderer, place);
    const pattern = hitPattern(q);
    const isCurrent = this.search.current === hit.eventSequence; // else another hit was chosen, or the search ended
    if (!element || !pattern || !isCurrent) return;
    if (element.matches("details")) element.open = true;
    this.renderer.fillToolBody(element);
    const range = await this.marks.show(element, hit.eventId, pattern);
    if (range) scrollToRange(range, this.log);
  }

  endFocus() {
    if (this.search.isActive) this.search.close();
    else super.endFocus();
  }

  /** Show the item next to a place that does not exist (any more). */
  showNearest(place) {
    const nearest = pageQuery(place) && findNearest(this.renderer, place);
    if (nearest) this.present(nearest, { flashes: false });
    else this.autoScroll.follow();
    const isGone = place.id !== undefined || place.message === undefined || !nearest;
    const text = isGone ? "This place no longer exists" : `Message ${place.message} is not shown here`;
    this.announcer.show(nearest ? `${text}: the nearest item is shown.` : `${text}.`);
  }

  visit(element) {
    this.savePlace();
    super.visit(element);
  }

  /** Save the place after a delay. Later calls do not extend it, because a growing page scrolls all the time. */
  savePlaceSoon() {
    this.savePlaceTimer ??= setTimeout(() => this.savePlace(), SAVE_PLACE_DELAY_MS);
  }

  /** Save the place in the history entry, for going back and reloading. */
  savePlace() {
    clearTimeout(this.savePlaceTimer);
    this.savePlaceTimer = undefined;
    const [first] = itemsInView(this.log);
    const item = first && this.itemOf(first);
    const below = first && Math.round(first.getBoundingClientRect().top - contentTop());
    const state = this.autoScroll.isFollowing ? { isEnd: true } : item && { place: placeOf(item), below };
    history.replaceState(state ?? null, "");
  }

  async toStart() {
    this.autoScroll.release();
    if (!this.pages.hasOlder || (await this.tryTo(() => this.openPage({ after: 0 })))) super.toStart();
  }

  hasEnd() {
    return !this.pages.hasNewer;
  }

  isWhole() {
    return !this.pages.hasNewer && !this.pages.hasOlder;
  }

  async toEnd() {
    if (!this.pages.hasNewer || (await this.tryTo(() => this.openPage()))) this.autoScroll.follow();
  }

  // New events.

  /** Stream the events after the last one. Hidden pages do not connect, since browsers limit connections. */
  startStream() {
    const { isOpen, hasNewer, last } = this.pages;
    if (isOpen && !hasNewer && !document.hidden) this.stream.start(last);
  }

  onVisibilityChange() {
    clearTimeout(this.hiddenTimer);
    // Its title and labels may have been changed elsewhere, which is no event.
    if (!document.hidden && this.session && !this.isOver) this.describe().catch(() => undefined);
    if (document.hidden) this.hiddenTimer = setTimeout(() => this.disconnect(), HIDDEN_STREAM_MS);
    else if (this.stream.isRunning) this.stream.retry();
    else if (!this.isOver) this.startStream();
  }

  disconnect() {
    this.stream.stop();
    this.wasAway = true;
    this.live.setConnected(false);
  }

  /** Follow the session once its newest event is loaded. Events added since the page was opened arrived just now. */
  onEnd() {
    this.autoScroll.onEnd();
    this.startStream();
    const { first = 0, last, hasOlder } = this.pages;
    const hasGrown = !hasOlder && last - first + 1 > this.session.eventCount;
    if (!this.isJustOpened || !hasGrown) return;
    this.live.eventReceived();
    this.live.update();
    this.followIfUntouched();
    this.describeSoon(false);
  }

  onEvent(event) {
    this.live.eventReceived();
    this.incoming.push(event);
    this.batch.request();
    if (this.isCaughtUp && event.type === "assistant_done" && event.payload.parentToolCallId === undefined) {
      this.announcer.announce(`Answer: ${event.payload.text.slice(0, MAX_ANNOUNCED_LENGTH)}`);
    }
  }

  paintIncoming() {
    const events = this.incoming.splice(0);
    this.autoScroll.paint(() => this.pages.add(events));
    this.followIfUntouched();
    this.describeSoon(events.some(({ type }) => type === "turn_end" || type === "reset"));
  }

  end(reason) {
    this.isOver = true;
    this.live.setConnected(false);
    this.connection.ended(reason);
  }

  /** Show the session again after its log was replaced. */
  async reload() {
    this.live.setConnected(false);
    await this.openPage().catch((problem) => this.end(messageOf(problem)));
    this.autoScroll.follow();
    this.describeSoon(true);
  }

  /** @param {Set<Element>} painted */
  onPaint(painted) {
    super.onPaint(painted);
    if (this.pages.isOpen && !this.pages.hasOlder) this.header.setFirstPrompt(this.firstPrompt());
    this.live.update();
    this.marks.update();
    this.usage.update();
    this.turnChanges.update(painted);
    this.pagination.update();
    this.outline.older.hidden = !this.pages.hasOlder;
    this.outline.newer.hidden = !this.pages.hasNewer;
    this.updateEmptyNotice();
  }

  onFilter() {
    this.usage.setShown(this.filters.preset === "everything");
    super.onFilter();
    this.pagination.fill();
  }

  updateEmptyNotice() {
    const isEmpty = this.renderer.itemViews.size === 0;
    if (!isEmpty) this.emptyNotice?.remove();
    if (!isEmpty || this.emptyNotice?.isConnected) return;
    const detail = "The session exists, and new events will appear here.";
    this.emptyNotice = placeholder("empty", "No events yet", { detail });
    this.log.before(this.emptyNotice);
  }
}

/** The time of the session's last record with a time, or else the modification time of the imported file. */
function lastTime({ lastAt, fileModifiedAt }) {
  return lastAt ?? fileModifiedAt;
}

/**
 * Handlers of stream events (session/event-stream.js).
 *
 * @type {Record<string, (page: SessionPage, value: any) => void>}
 */
const STREAM_HANDLERS = {
  event: (page, event) => page.onEvent(event),
  connected(page) {
    page.connection.connected();
    page.live.setConnected(true);
    if (page.wasAway) page.describe().catch(() => undefined);
    page.wasAway = false;
  },
  caught_up: (page) => (page.isCaughtUp = true),
  lost(page, retryAt) {
    page.isCaughtUp = false;
    page.wasAway = true;
    page.live.setConnected(false);
    page.connection.disconnected(retryAt);
  },
  gone: (page) => page.end("This session was deleted. The loaded content stays visible."),
  refused: (page, problem) => page.end(problem.message),
  cursor_ahead: (page) => page.reload(),
};

loadFormulasOnDemand();
const page = new SessionPage(document.body.dataset.sessionId ?? "");
// Requests collect the source positions of all running functions, which takes long for the whole script.
queueMicrotask(() => page.start());
