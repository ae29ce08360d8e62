import { getJson, withQuery } from "./lib/api.js";
import { el } from "./lib/dom.js";
import { helpButton, isField, listen } from "./lib/keyboard.js";
import { Finder } from "./sessions/search-form.js";
import { addressOf, filtersOf, isNarrowed, withoutFilters } from "./sessions/list-filters.js";
import { ListView } from "./sessions/list-view.js";
import { LiveSessions } from "./sessions/session-feed.js";
import { SearchView } from "./sessions/search-view.js";
import { lookAt, sightOf } from "./sessions/scroll-position.js";
import { themeToggle } from "./lib/theme.js";

const STOPS = ".session-row, .hits-session, .hit";

const FOLDED = "details:not([open]), [hidden]";

const SOON = 250;

const FOR_SOURCES = 200;

/** Where all is well, nothing is said. */
const CONNECTION = { connecting: "", live: "", away: "not connected" };

/** The page of all sessions. What it shows follows from its address. */
class SessionsPage {
  constructor() {
    this.status = el("p", { class: "list-status", role: "status" });
    this.connection = el("span", { class: "connection" });
    this.finder = new Finder((filters, how) => this.go(filters, how));
    const on = {
      status: (text) => this.tell(text),
      sources: (sources) => this.finder.offer(sources),
      clear: () => this.go(withoutFilters(this.filters)),
      everywhere: () => this.go({ ...this.filters, tools: "true" }),
    };
    this.list = new ListView(on);
    this.search = new SearchView(on);
    this.contents = el("div");
    const line = el("div", { class: "list-line" }, this.status, this.connection);
    const main = el("main", { class: "sessions", id: "sessions" }, this.finder.element, line, this.contents);
    document.body.append(pageHeader(listen(this.keys())), main);
  }

  async start() {
    history.scrollRestoration = "manual";
    addEventListener("popstate", () => this.show());
    addEventListener("pagehide", () => this.remember());
    this.finder.box.addEventListener("change", () => note({ isTyping: false }));
    document.addEventListener("keydown", (event) => this.arrow(event));
    await this.follow();
    await this.show();
    if (this.filters.q || isNarrowed(this.filters)) this.lookForSources();
  }

  // What is shown, and its address.

  /** Asks for something else. One search is one entry of the history, however it was typed. */
  go(filters, { isTyping = false } = {}) {
    const address = addressOf(filters);
    if (address === location.pathname + location.search) return;
    this.remember();
    if (isTyping && history.state?.isTyping) history.replaceState({ isTyping }, "", address);
    else history.pushState({ isTyping }, "", address);
    this.show({ isTyping });
  }

  /** Shows what the address says, where the person had left it. */
  async show({ isTyping = false } = {}) {
    this.filters = filtersOf(location.search);
    const { shown, sight } = history.state ?? {};
    this.finder.show(this.filters);
    const view = this.filters.q ? this.search : this.list;
    if (view !== this.view) this.turnTo(view);
    document.title = this.filters.q ? `${this.filters.q} · Ash` : "Sessions · Ash";
    if (await view.show(this.filters, { isTyping, size: shown })) lookAt(this.contents, sight);
  }

  turnTo(view) {
    this.view?.leave();
    this.view = view;
    this.contents.replaceChildren(view.element);
  }

  remember() {
    const shown = this.view === this.list ? this.list.size : undefined;
    note({ shown, sight: sightOf(this.contents) });
  }

  /** Done when from then on all is told; or soon, since the list must not wait long for that. */
  follow() {
    return new Promise((done) => {
      const live = new LiveSessions("/api/sessions/stream", {
        session: (session) => this.view?.update(session),
        deleted: ({ id }) => this.view?.remove(id),
        caught_up: () => (this.view ? this.view.refresh() : done()),
        state: (name) => this.connect(name),
      });
      setTimeout(done, SOON);
      live.open();
    });
  }

  connect(name) {
    this.connection.dataset.state = name;
    this.connection.textContent = CONNECTION[name];
  }

  tell(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  /** Filters hide sources that one may want to choose. */
  async lookForSources() {
    try {
      const { sessions } = await getJson(withQuery("/api/sessions", { limit: FOR_SOURCES }));
      this.finder.offer(sessions.map(({ source }) => source));
    } catch {
      // Those that were seen are offered.
    }
  }

  // Keys.

  keys() {
    return [
      [["j", "↓"], "next row", { j: () => this.step(1) }],
      [["k", "↑"], "previous row", { k: () => this.step(-1) }],
      [["Enter"], "open it"],
      [["e"], "unfold its subagents", { e: () => this.unfold() }],
      [["/"], "search", { "/": () => this.finder.focus() }],
      [["Esc"], "clear the search", { Escape: () => this.escape() }],
      [["?"], "these keys"],
    ];
  }

  /** Arrows lead from the box into what was found, and through it. */
  arrow(event) {
    const { target, key, ctrlKey, metaKey, altKey, shiftKey } = event;
    const by = { ArrowDown: 1, ArrowUp: -1 }[key];
    const isThere = target.matches?.(STOPS) || (target === this.finder.box && by > 0);
    if (!by || !isThere || ctrlKey || metaKey || altKey || shiftKey) return;
    event.preventDefault();
    this.step(by);
  }

  /** To the next row that can be seen; from the first one back into the box. */
  step(by) {
    const stops = [...this.contents.querySelectorAll(STOPS)].filter((stop) => !stop.closest(FOLDED));
    const at = stops.indexOf(document.activeElement);
    if (at === 0 && by < 0) return this.finder.focus();
    return stops[at < 0 ? 0 : at + by]?.focus();
  }

  unfold() {
    const item = document.activeElement.closest(".session-item:has(> .subagents)");
    const fold = item?.querySelector(":scope > .subagents");
    if (!fold) return false;
    fold.open = !fold.open;
    if (!fold.open) item.querySelector(":scope > .session-row").focus();
    return true;
  }

  escape() {
    if (!this.filters.q) return isField(document.activeElement) || document.activeElement.blur();
    this.finder.focus();
    return this.go({ ...this.filters, q: "" });
  }
}

/** Of this entry of the history. */
function note(state) {
  history.replaceState({ ...history.state, ...state }, "");
}

function pageHeader(openHelp) {
  return el(
    "header",
    { class: "page-header" },
    el("h1", { class: "wordmark" }, el("a", { href: "/" }, "Ash")),
    el("nav", { class: "header-links", "aria-label": "Ash" }, el("a", { href: "/docs" }, "API")),
    helpButton(openHelp),
    themeToggle(),
  );
}

new SessionsPage().start();
