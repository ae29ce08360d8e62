import { getJson, isAbandoned, withQuery } from "../lib/api.js";
import { button, el } from "../lib/dom.js";
import { counted } from "../lib/number-format.js";
import { command, errorState, skeleton, state } from "../lib/placeholders.js";
import { isMet, isNarrowed, parametersOf } from "./list-filters.js";
import { LIVE_FOR, SessionList } from "./session-list.js";
import { More } from "./load-more.js";
import { Pages } from "./page-cursor.js";

const PAGE = 100;
const LARGEST_PAGE = 1000;

/** All sessions, or those that the filters leave. */
export class ListView {
  /** `on.status(text)` is told what is shown, `on.sources` of whom; `on.clear` is to forget the filters. */
  constructor(on) {
    this.on = on;
    this.pages = new Pages("/api/sessions", PAGE);
    this.list = new SessionList({ onLayOut: () => this.tell(), onUnfold: (id) => this.loadChildren(id) });
    this.more = new More("More sessions", () => this.loadMore(), { isAutomatic: true });
    this.pill = button({ class: "changed-pill", hidden: true }, null, () => this.catchUp());
    this.contents = el("div");
    this.element = el("div", { class: "list-view" }, this.pill, this.contents, this.more.element);
  }

  get size() {
    return this.list.size;
  }

  /** Shows the sessions, `size` of them at first, once they are there. Whether nothing else was asked for. */
  show(filters, { size = PAGE } = {}) {
    this.filters = filters;
    return (this.loading = this.load(size));
  }

  async load(size) {
    this.element.setAttribute("aria-busy", "true");
    if (!this.list.element.isConnected) this.contents.replaceChildren(skeleton());
    this.more.show(false);
    try {
      const page = await this.pages.first(this.parameters, pageSize(size));
      this.list.clear();
      this.contents.replaceChildren(this.list.element);
      this.add(page);
    } catch (error) {
      if (isAbandoned(error)) return false;
      this.list.clear();
      this.contents.replaceChildren(errorState(error, () => this.show(this.filters, { size })));
      this.on.status("");
    }
    this.element.setAttribute("aria-busy", "false");
    return true;
  }

  leave() {
    this.pages.abandon();
  }

  async loadMore() {
    this.add(await this.pages.next());
  }

  /** Pages may hold some of them, and more of them lie behind. */
  async loadChildren(parentId) {
    try {
      const { sessions } = await getJson(withQuery("/api/sessions", { parentId, limit: LARGEST_PAGE }));
      this.list.add(sessions);
    } catch {
      // Those that are known are shown.
    }
  }

  /** What may have changed while nobody told. */
  async refresh() {
    await this.loading;
    if (!this.list.element.isConnected) return this.show(this.filters);
    try {
      const { sessions } = await this.pages.first(this.parameters, pageSize(this.size));
      const written = sessions.filter((session) => isRecent(session) && this.isWritten(session));
      this.list.renew(sessions, !this.hasMore);
      written.forEach(({ id }) => this.list.enliven(id));
      this.more.show(this.hasMore);
    } catch {
      // What is shown stays; the next return tries again.
    }
    return true;
  }

  /** A session as it is now. */
  update(session) {
    if (!this.list.element.isConnected) return;
    const before = this.list.get(session.id);
    if (!isMet(session, this.filters, Date.now())) {
      if (before) this.list.remove(session.id);
      return;
    }
    const isWritten = this.isWritten(session);
    this.list.update(session);
    this.on.sources([session.source]);
    if (isWritten) this.list.enliven(session.id);
  }

  /** Whether more was written to it than is known here. */
  isWritten(session) {
    return isFresh(session) && hasGrown(this.list.get(session.id), session);
  }

  remove(id) {
    this.list.remove(id);
  }

  get parameters() {
    return parametersOf(this.filters, Date.now());
  }

  get hasMore() {
    return this.pages.after !== undefined;
  }

  add({ sessions }) {
    this.list.add(sessions);
    this.on.sources(sessions.map(({ source }) => source));
    this.more.show(this.hasMore);
    this.tell();
  }

  tell() {
    const { waiting, size } = this.list;
    this.pill.hidden = waiting === 0;
    this.pill.textContent = `${waiting} changed`;
    this.showNothing(size === 0 && waiting === 0 && !this.hasMore);
    const told = size === 0 ? "" : counted(size, "session");
    this.on.status(this.hasMore ? `The newest ${told}` : told);
  }

  showNothing(isEmpty) {
    const shown = this.contents.querySelector(":scope > .state");
    if (!isEmpty) shown?.remove();
    else if (!shown) this.contents.append(isNarrowed(this.filters) ? noneLeft(this.on.clear) : nothingHere());
  }

  catchUp() {
    this.list.settle();
    scrollTo({ top: 0 });
    this.list.element.querySelector(".session-row")?.focus({ preventScroll: true });
  }
}

/** As many as were shown before, as far as one page holds them. */
function pageSize(size) {
  return Math.min(Math.max(size, PAGE), LARGEST_PAGE);
}

function isRecent({ updatedAt }) {
  return Date.now() - Date.parse(updatedAt) < LIVE_FOR;
}

/** What is stored long after it was written is an import, and nobody works there. */
function isFresh({ lastAt, updatedAt }) {
  return lastAt === undefined || Date.parse(updatedAt) - Date.parse(lastAt) < 60_000;
}

function hasGrown(before, now) {
  return !before || now.messageCount > before.messageCount || now.eventCount > before.eventCount;
}

function noneLeft(clear) {
  return state("none", "No session is left", {
    detail: "The filters leave none of them.",
    action: { label: "Clear filters", run: clear },
  });
}

function nothingHere() {
  return state("empty", "Nothing here yet", {
    detail: "What command line agents have kept on this machine can be brought in:",
    children: [
      command("ash import --discover"),
      command("ash import --all"),
      el("p", { class: "state-detail" }, "Or a run is stored while it goes on, and shown here live:"),
      command('claude -p "Fix the test" --output-format stream-json --verbose | ash ingest --session fix'),
      command('codex exec --json "Fix the test" | ash ingest --session fix'),
    ],
  });
}

