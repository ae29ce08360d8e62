import { SessionMenu } from "./actions/session-menu.js";
import { getJson, isAborted, withQuery } from "./lib/api.js";
import { blurActiveElement, el } from "./lib/dom.js";
import { isTextField, listenForKeys } from "./lib/keyboard.js";
import { pageHeader } from "./lib/page-header.js";
import { NO_FILTERS, apiParameters, filtersUrl, parseFilters, withoutFilters } from "./sessions/list-filters.js";
import { ListView } from "./sessions/list-view.js";
import { readScrollPosition, restoreScrollPosition } from "./sessions/scroll-position.js";
import { SearchForm } from "./sessions/search-form.js";
import { SearchView } from "./sessions/search-view.js";
import { Announcer } from "./session/announcer.js";
import { SessionFeed } from "./sessions/session-feed.js";
import { UnstoredNotice } from "./sessions/unstored-notice.js";

/** The elements that the arrow keys go through. */
const STOPS = ".session-row, .hits-session, .hit";
const FOLDED = "details:not([open]), [hidden]";

const MAX_FEED_DELAY_MS = 250;
const COUNTS_MS = 10_000;

/** Texts of the connection states; only problems have one. */
const CONNECTION_TEXTS = { connecting: "", live: "", away: "not connected" };

/** The page of all sessions. Its address determines its content. */
class SessionsPage {
  filters = NO_FILTERS;
  /** @type {ListView | SearchView | undefined} */
  view;
  /** The address and the time of the shown counts. */
  counted = { address: "", at: 0 };
  counting = new AbortController();

  constructor() {
    this.status = el("p", { class: "list-status", role: "status" });
    this.connection = el("span", { class: "connection" });
    this.form = new SearchForm((filters, how) => this.go(filters, how), () => this.loadCounts());
    const on = {
      status: (text) => this.setStatus(text),
      clear: () => this.go(withoutFilters(this.filters)),
      everywhere: () => this.go({ ...this.filters, tools: "true" }),
      search: (q) => this.go({ ...this.filters, q }),
    };
    const announcer = new Announcer();
    const menu = new SessionMenu({
      get: (id) => this.view?.get(id),
      show: (session) => this.view?.update(session),
      announce: (text) => announcer.show(text),
    });
    this.list = new ListView(on, menu);
    this.search = new SearchView(on, menu);
    this.contents = el("div");
    const line = el("div", { class: "list-line" }, this.status, this.connection);
    this.unstored = new UnstoredNotice();
    const parts = [this.unstored.element, this.form.element, line, this.contents];
    const main = el("main", { class: "sessions", id: "sessions" }, ...parts);
    document.body.append(pageHeader("h1", listenForKeys(this.shortcuts())), main, announcer.toast);
  }

  async start() {
    history.scrollRestoration = "manual";
    addEventListener("popstate", () => this.show());
    addEventListener("pagehide", () => this.savePosition());
    this.form.box.addEventListener("change", () => updateHistoryState({ isTyping: false }));
    document.addEventListener("keydown", (event) => this.onArrowKey(event));
    await this.subscribe();
    await this.show();
    await this.unstored.load();
  }

  // Content and address.

  /** Go to other filters. Typing a search adds one entry to the history. */
  go(filters, { isTyping = false } = {}) {
    const address = filtersUrl(filters);
    if (address === location.pathname + location.search) return;
    this.savePosition();
    if (isTyping && history.state?.isTyping) history.replaceState({ isTyping }, "", address);
    else history.pushState({ isTyping }, "", address);
    this.show({ isTyping });
  }

  /** Show the list or the search of the address, and restore the scroll position of the history entry. */
  async show({ isTyping = false } = {}) {
    this.filters = parseFilters(location.search);
    const { size, position } = history.state ?? {};
    this.form.show(this.filters);
    const view = this.filters.q ? this.search : this.list;
    if (view !== this.view) this.switchTo(view);
    this.loadCounts();
    document.title = this.filters.q ? `${this.filters.q} · Ash` : "Sessions · Ash";
    if (await view.show(this.filters, { isTyping, size })) restoreScrollPosition(this.contents, position);
  }

  /** @param {ListView | SearchView} view */
  switchTo(view) {
    this.view?.close();
    this.view = view;
    this.contents.replaceChildren(view.element);
  }

  savePosition() {
    const size = this.view === this.list ? this.list.size : undefined;
    updateHistoryState({ size, position: readScrollPosition(this.contents) });
  }

  /**
   * Subscribe to changes of sessions. Resolves once all later changes will be delivered, or after a short time.
   *
   * @returns {Promise<void>}
   */
  subscribe() {
    return new Promise((done) => {
      const feed = new SessionFeed("/api/sessions/stream", {
        session: (session) => this.view?.update(session),
        deleted: ({ id }) => this.view?.remove(id),
        caught_up: () => (this.view ? this.view.refresh() : done()),
        state: (name) => this.setConnection(name),
      });
      setTimeout(done, MAX_FEED_DELAY_MS);
      feed.open();
    });
  }

  setConnection(name) {
    this.connection.dataset.state = name;
    this.connection.textContent = CONNECTION_TEXTS[name];
  }

  setStatus(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  /** Load the values of filters with their numbers of sessions, unless they were loaded a moment ago. */
  async loadCounts() {
    const address = withQuery("/api/sessions/counts", apiParameters(this.filters, Date.now()));
    const isRecent = Date.now() - this.counted.at < COUNTS_MS;
    if (address === this.counted.address && isRecent) return;
    this.counted = { address, at: Date.now() };
    this.counting.abort();
    this.counting = new AbortController();
    try {
      const counts = await getJson(address, { signal: this.counting.signal });
      this.form.showCounts(counts);
      const shown = { hasMachine: counts.machines.length > 1, hasPerson: counts.persons.length > 1 };
      [this.list, this.search].forEach((view) => view.showInRows(shown));
    } catch (error) {
      if (!isAborted(error)) this.counted.at = 0;
    }
  }

  // Keys.

  /** @returns {import("./lib/keyboard.js").Shortcut[]} */
  shortcuts() {
    return [
      [["j", "↓"], "next row", { j: () => this.step(1) }],
      [["k", "↑"], "previous row", { k: () => this.step(-1) }],
      [["Enter"], "open it"],
      [["e"], "unfold its subagents", { e: () => this.unfold() }],
      [["m"], "actions: resume, label, share", { m: () => this.openMenu() }],
      [["/"], "search", { "/": () => this.form.focus() }],
      [["Esc"], "clear the search", { Escape: () => this.escape() }],
      [["?"], "these keys"],
    ];
  }

  /** Arrow keys go from the search box to the rows, and through them. */
  onArrowKey(event) {
    const { target, key, ctrlKey, metaKey, altKey, shiftKey } = event;
    const by = { ArrowDown: 1, ArrowUp: -1 }[key];
    const isStop = target.matches?.(STOPS) || (target === this.form.box && by > 0);
    if (!by || !isStop || ctrlKey || metaKey || altKey || shiftKey) return;
    event.preventDefault();
    this.step(by);
  }

  /** Focus the next or previous visible row; from the first one, the search box. */
  step(by) {
    /** @type {NodeListOf<HTMLElement>} */
    const stops = this.contents.querySelectorAll(STOPS);
    const visible = [...stops].filter((stop) => !stop.closest(FOLDED));
    const index = visible.findIndex((stop) => stop === document.activeElement);
    if (index === 0 && by < 0) return this.form.focus();
    return visible[index < 0 ? 0 : index + by]?.focus();
  }

  /** Unfold or fold the subagents of the focused session; false if it has none. */
  unfold() {
    const item = document.activeElement?.closest(".session-item:has(> .subagents)");
    /** @type {HTMLDetailsElement | null | undefined} */
    const fold = item?.querySelector(":scope > .subagents");
    if (!item || !fold) return false;
    fold.open = !fold.open;
    /** @type {HTMLElement | null} */
    const row = item.querySelector(":scope > .session-row");
    if (!fold.open) row?.focus();
    return true;
  }

  /** Open the menu of the focused row; false without one. */
  openMenu() {
    const item = document.activeElement?.closest(".session-item");
    /** @type {HTMLElement | null | undefined} */
    const opener = item?.querySelector(":scope > .row-menu");
    opener?.click();
    return !!opener;
  }

  escape() {
    if (!this.filters.q) return isTextField(document.activeElement) || blurActiveElement();
    this.form.focus();
    return this.go({ ...this.filters, q: "" });
  }
}

/** Change the state of the current history entry. */
function updateHistoryState(changes) {
  history.replaceState({ ...history.state, ...changes }, "");
}

new SessionsPage().start();
