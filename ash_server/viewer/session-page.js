/** The page of a session: fetches its events, follows what is new, and knows the addresses of places in it. */
import { getJson, withQuery } from "./lib/api.js";
import { errorState, skeleton, state } from "./lib/placeholders.js";
import { Connection } from "./session/connection-notice.js";
import { Edges } from "./session/pagination-controls.js";
import { Find } from "./session/session-search.js";
import { Header, exports, titleOf } from "./session/session-header.js";
import { Live } from "./session/live-indicator.js";
import { Pages } from "./session/event-pages.js";
import { addressOf, find, findNear, pageOf, placeIn, placeOf } from "./session/permalinks.js";
import { edge, inView } from "./session/scroll-anchor.js";
import { Stream } from "./session/event-stream.js";
import { Usage } from "./session/answer-usage.js";
import { View } from "./session/session-view.js";

const NOTICED = 150;
const RECENT = 5 * 60_000;
const SOON = 15_000;
const AWAY = 20_000;
const SETTLED = 250;
const QUOTED = 200;
const COUNTED = 3_000;
const SUMMED = 15_000;
const SUMMED_PER_EVENT = 5;

class SessionPage extends View {
  constructor(id) {
    const path = `/sessions/${id}`;
    const api = `/api/sessions/${id}`;
    super({
      addressOf: (item) => addressOf(path, placeOf(item)),
      messages: `${api}/messages`,
      hrefOf: (session) => `/sessions/${encodeURIComponent(session)}`,
      usageOf: (item) => this.usage.of(item),
    });
    Object.assign(this, { id, path, api });
    const paint = (change) => this.follow.paint(change);
    this.header = new Header();
    this.live = new Live(this.renderer, { paint, hasEnd: () => this.hasEnd() });
    this.usage = new Usage(`${api}/standard-messages`, this.renderer);
    this.pages = new Pages(`${api}/events`, this.renderer);
    this.edges = new Edges(this.pages, { paint, onEnd: () => this.listen(), toEnd: () => this.toEnd() });
    this.find = new Find(id, path, (place) => this.try(() => this.go(place, { isNew: true })));
    this.stream = new Stream(`${api}/events/stream?collapse=true`, (what, told) => HEARD[what](this, told));
    this.connection = new Connection(() => this.stream.retry());
    this.incoming = [];
  }

  start() {
    const { header, edges, connection, find, live } = this;
    this.shell = this.build({
      home: "/",
      mark: live.mark,
      bar: [find.element, exports(this.path)],
      header: header.element,
      ahead: [edges.older],
      behind: [edges.newer, connection.element],
      keys: { openFind: () => find.open(), onEdge: (steps) => edges.load(steps > 0 ? "newer" : "older") },
    });
    this.outline.older.addEventListener("click", () => edges.load("older"));
    this.usage.want(this.filters.preset === "everything");
    history.scrollRestoration = "manual";
    addEventListener("popstate", ({ state }) => this.try(() => this.returnTo(state)));
    addEventListener("scroll", () => this.keepPlaceSoon(), { passive: true });
    addEventListener("pagehide", () => this.stream.stop());
    addEventListener("pageshow", ({ persisted }) => persisted && this.listen());
    addEventListener("online", () => this.stream.retry());
    document.addEventListener("visibilitychange", () => this.look());
    this.load();
  }

  /** The first screen. What is known of the session tells where it opens, and stands above it: so that comes first. */
  async load() {
    this.waiting = skeleton(6);
    const isSlow = setTimeout(() => this.log.before(this.waiting), NOTICED);
    try {
      await this.describe();
      await this.returnTo(history.state);
      this.describeMore();
      this.log.parentElement.querySelector(".state[data-state=error]")?.remove();
    } catch (problem) {
      const shown = errorState(problem, () => {
        shown.remove();
        this.load();
      });
      this.log.before(shown);
    } finally {
      clearTimeout(isSlow);
      this.waiting.remove();
    }
  }

  // What the session is.

  async describe() {
    const known = this.session;
    this.session = await getJson(this.api);
    // Who deletes a session and makes it anew gives it the address of the old one.
    if (known && known.createdAt !== this.session.createdAt) this.reload();
    this.header.show(this.session, this.facts);
    this.live.describe(`${titleOf(this.session)} · Ash`, this.session.lastAt);
    this.shell.name(titleOf(this.session));
    this.edges.update(this.session.eventCount);
  }

  /** What takes longer, and is there to look at. */
  async describeMore() {
    const { session } = this;
    const quietly = (asked) => asked.catch(() => undefined);
    const [summary, parent, children] = await Promise.all([
      quietly(getJson(`${this.api}/projections/session-summary`)),
      session.parentId && quietly(getJson(`/api/sessions/${session.parentId}`)),
      quietly(getJson(withQuery("/api/sessions", { parentId: session.id, limit: 200 }))),
    ]);
    this.facts = { summary, onUnrecognised: () => this.try(() => this.goToUnrecognised()) };
    this.header.show(this.session, this.facts);
    const { parentId: id } = session;
    this.header.relate(id && { id, title: "another session", ...parent }, children?.sessions ?? []);
  }

  /** What came is counted soon, and the rest, for which all of the log is read: the later the longer it is, within a turn. */
  describeAnew(isOver) {
    this.counting ??= setTimeout(() => {
      this.counting = undefined;
      this.describe().catch(() => undefined);
    }, COUNTED);
    const later = Math.min(SUMMED, SUMMED_PER_EVENT * this.pages.last);
    const due = Date.now() + Math.max(COUNTED, isOver ? 0 : later);
    if (this.summing?.due <= due) return;
    clearTimeout(this.summing?.timer);
    this.summing = { due, timer: setTimeout(() => this.sumUp(), due - Date.now()) };
  }

  sumUp() {
    this.summing = undefined;
    this.describeMore();
  }

  async goToUnrecognised() {
    if (super.goToUnrecognised()) return;
    const { events } = await getJson(withQuery(`${this.api}/events`, { type: "raw", limit: 1 }));
    if (events.length) await this.go(placeOf({ event: events[0] }), { isNew: true });
  }

  // Where in it one is.

  /** Where an entry of the history was left, or else where its address leads. */
  async returnTo(state) {
    this.filters.read();
    if (state?.place) return this.go(state.place, { ...state, flashes: false });
    const place = state?.isEnd ? undefined : placeIn(location);
    return place ? this.go(place) : this.open(state);
  }

  /**
   * Shows the newest events: at the end while it is written, and where there is more than is loaded. A session that is
   * over, and is here as a whole, is read from its beginning.
   */
  async open(state) {
    if (!this.pages.last || this.pages.hasNewer) await this.openPage();
    if (state?.isEnd || this.live.isOpen || this.pages.hasOlder || this.live.since < RECENT) this.follow.stick();
    else {
      this.toTop();
      this.begunAt = Date.now();
    }
  }

  /** Who has just opened it at its beginning, and has not moved, wants to see what is being written after all. */
  followAfterAll() {
    const isUntouched = scrollY === 0 && document.activeElement === document.body;
    if (!this.live.isOpen || !isUntouched || !(Date.now() - this.begunAt < SOON)) return;
    this.begunAt = undefined;
    this.follow.stick();
  }

  /** Shows a page of events, and follows what is behind it; gives false where another was asked for meanwhile. */
  async openPage(query) {
    this.stream.stop();
    this.incoming = [];
    try {
      if (!(await this.pages.open(query))) return false;
    } catch (problem) {
      this.listen();
      throw problem;
    }
    this.waiting.remove();
    this.listen();
    requestAnimationFrame(() => this.edges.fill());
    return true;
  }

  /** What a person asks for may fail; what is here stays. */
  try(act) {
    return act().catch((problem) => this.voice.say(problem.message));
  }

  /** Goes to a place; `isNew` makes it an entry of the history. */
  async go(place, { isNew = false, below, flashes } = {}) {
    if (isNew) {
      this.keepPlace();
      history.pushState(null, "", addressOf(this.path, place));
    }
    const known = find(this.renderer, place);
    const page = pageOf(place);
    if (!known && (page || !this.pages.last) && !(await this.openPage(page))) return;
    const element = known ?? find(this.renderer, place);
    if (element) this.arrive(element, place, { below, flashes });
    else this.miss(place);
  }

  arrive(element, { message }, { below, flashes }) {
    const { kind, event } = this.renderer.itemOf(element);
    if (kind === "tool" && message !== undefined && message !== event.messageSequence) {
      element.open = true;
      this.renderer.fill(element);
    }
    this.present(element, { below, flashes });
  }

  /** What an address named is not there (any more): what was next to it is shown, without a fuss. */
  miss(place) {
    const near = pageOf(place) && findNear(this.renderer, place);
    if (near) this.present(near, { flashes: false });
    else this.follow.stick();
    const isNamed = place.id !== undefined || place.message === undefined || !near;
    const told = isNamed ? "This place is not there any more" : `Nothing of message ${place.message} is shown here`;
    this.voice.say(near ? `${told}: this is what is next to it.` : `${told}.`);
  }

  visit(element) {
    this.keepPlace();
    super.visit(element);
  }

  keepPlaceSoon() {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => this.keepPlace(), SETTLED);
  }

  /** For the way back, and for who loads the page again. */
  keepPlace() {
    clearTimeout(this.keeping);
    const [first] = inView(this.log);
    const item = first && this.renderer.itemOf(first);
    const below = first && Math.round(first.getBoundingClientRect().top - edge());
    const state = this.follow.sticks ? { isEnd: true } : item && { place: placeOf(item), below };
    history.replaceState(state ?? null, "");
  }

  async toStart() {
    this.follow.release();
    if (!this.pages.hasOlder || (await this.try(() => this.openPage({ after: 0 })))) this.toTop();
  }

  toTop() {
    super.toStart();
  }

  hasEnd() {
    return !this.pages.hasNewer;
  }

  async toEnd() {
    if (!this.pages.hasNewer || (await this.try(() => this.openPage()))) this.follow.stick();
  }

  // What is new.

  /** From the last event on; who does not look needs no connection, of which a browser has few. */
  listen() {
    const { isOpen, hasNewer, last } = this.pages;
    if (isOpen && !hasNewer && !document.hidden) this.stream.start(last);
  }

  look() {
    clearTimeout(this.away);
    if (document.hidden) this.away = setTimeout(() => this.rest(), AWAY);
    else if (this.stream.isRunning) this.stream.retry();
    else if (!this.isOver) this.listen();
  }

  rest() {
    this.stream.stop();
    this.wasAway = true;
    this.live.connect(false);
  }

  hear(event) {
    this.live.hear();
    this.incoming.push(event);
    this.frame ??= requestAnimationFrame(() => {
      const events = this.incoming.splice(0);
      this.frame = undefined;
      this.follow.paint(() => this.pages.add(events));
      this.followAfterAll();
      this.describeAnew(events.some(({ type }) => type === "turn_end" || type === "reset"));
    });
    if (this.isCaughtUp && event.type === "assistant_done" && event.payload.parentToolCallId === undefined) {
      this.voice.tell(`Answer: ${event.payload.text.slice(0, QUOTED)}`);
    }
  }

  end(told) {
    this.isOver = true;
    this.live.connect(false);
    this.connection.ended(told);
  }

  /** The log is another one than what is shown. */
  async reload() {
    this.live.connect(false);
    await this.openPage().catch((problem) => this.end(problem.message));
    this.follow.stick();
    this.describeAnew(true);
  }

  painted() {
    super.painted();
    this.live.update();
    this.usage.update();
    this.edges.update();
    this.outline.older.hidden = !this.pages.hasOlder;
    this.showEmpty();
  }

  filtered() {
    this.usage.want(this.filters.preset === "everything");
    super.filtered();
    this.edges.fill();
  }

  showEmpty() {
    const isEmpty = this.renderer.shown.size === 0;
    if (!isEmpty) this.empty?.remove();
    if (!isEmpty || this.empty?.isConnected) return;
    const detail = "The session is there. What is written to it appears here.";
    this.empty = state("empty", "No events yet", { detail });
    this.log.before(this.empty);
  }
}

/** What the stream tells. */
const HEARD = {
  event: (page, event) => page.hear(event),
  connected(page) {
    page.connection.good();
    page.live.connect(true);
    if (page.wasAway) page.describe().catch(() => undefined);
    page.wasAway = false;
  },
  caught_up: (page) => (page.isCaughtUp = true),
  lost(page, until) {
    page.isCaughtUp = false;
    page.wasAway = true;
    page.live.connect(false);
    page.connection.lost(until);
  },
  gone: (page) => page.end("This session was deleted. What is here is what was loaded."),
  refused: (page, problem) => page.end(problem.message),
  ahead: (page) => page.reload(),
};

new SessionPage(document.body.dataset.sessionId).start();
