import { getJson, isAborted, withQuery } from "../lib/api.js";
import { button, el } from "../lib/dom.js";
import { pluralize } from "../lib/number-format.js";
import { commandLine, errorPlaceholder, placeholder, skeleton } from "../lib/placeholders.js";
import { NO_FILTERS, apiParameters, isNarrowed, matchesFilters } from "./list-filters.js";
import { isImported } from "./session-groups.js";
import { LIVE_MS, SessionList } from "./session-list.js";
import { LoadMore } from "./load-more.js";
import { MissedChanges } from "./missed-changes.js";
import { PageCursor } from "./page-cursor.js";
import { UsageUpdates } from "./usage-updates.js";

const PAGE = 100;
const MAX_PAGE = 1000;
/** Time after which a list that could not be loaded again is requested once more. */
const RETRY_MS = 5_000;

/**
 * Callbacks of both views: `status` shows a text about the list, `clear` removes the filters, `everywhere` searches
 * tool results too, `search` searches for another query.
 * @typedef {{status: (text: string) => void, clear: () => void, everywhere: () => void,
 *   search: (q: string) => void}} ViewCallbacks
 */

/** The list of sessions that match the filters. */
export class ListView {
  filters = NO_FILTERS;
  /** @type {Promise<boolean> | undefined} */
  loading;
  missed = new MissedChanges();
  /** @type {number | undefined} */
  retryTimer;

  /**
   * @param {ViewCallbacks} on
   * @param {import("../actions/session-menu.js").SessionMenu} menu
   */
  constructor(on, menu) {
    this.on = on;
    this.pages = new PageCursor("/api/sessions", PAGE);
    const onLayOut = () => this.updateStatus();
    this.list = new SessionList({ menu, onLayOut, onUnfold: (id) => this.loadChildren(id) });
    this.usage = new UsageUpdates((id, usage) => {
      const session = this.list.get(id);
      if (session) this.list.update({ ...session, ...usage });
    });
    this.more = new LoadMore("More sessions", () => this.loadMore(), { isAutomatic: true });
    this.pill = button({ class: "changed-pill", hidden: true }, null, () => this.showPending());
    this.pricesError = el("p", { class: "usage-note", hidden: true });
    this.costsOutdated = el(
      "p",
      { class: "usage-note", hidden: true },
      "Prices or usage have changed: the order is approximate until the server has computed all costs.",
    );
    this.contents = el("div");
    const notes = [this.pill, this.pricesError, this.costsOutdated];
    this.element = el("div", { class: "list-view" }, ...notes, this.contents, this.more.element);
  }

  get size() {
    return this.list.size;
  }

  get(id) {
    return this.list.get(id);
  }

  /**
   * Load and show sessions; false if another list was requested in the meantime.
   *
   * @param {typeof NO_FILTERS} filters
   * @param {{size?: number, isTyping?: boolean}} [options] `size` is the number of sessions to load first
   */
  show(filters, { size = PAGE } = {}) {
    this.filters = filters;
    return (this.loading = this.load(size));
  }

  async load(size) {
    this.element.setAttribute("aria-busy", "true");
    if (!this.list.element.isConnected) this.contents.replaceChildren(skeleton());
    this.more.show(false);
    clearTimeout(this.retryTimer);
    try {
      const { page, changes } = await this.loadFirst(size);
      this.list.clear();
      this.contents.replaceChildren(this.list.element);
      this.add(page);
      this.apply(changes);
    } catch (error) {
      if (isAborted(error)) return false;
      this.list.clear();
      this.contents.replaceChildren(errorPlaceholder(error, () => this.show(this.filters, { size })));
      this.on.status("");
    }
    this.element.setAttribute("aria-busy", "false");
    return true;
  }

  /** Abort pending requests. */
  close() {
    clearTimeout(this.retryTimer);
    this.pages.abort();
  }

  loadFirst(size) {
    return this.missed.during(() => this.pages.first(this.parameters, pageSize(size)));
  }

  /** @param {Map<string, any>} changes */
  apply(changes) {
    changes.forEach((session, id) => (session ? this.update(session) : this.remove(id)));
  }

  async loadMore() {
    this.add(await this.pages.next());
  }

  /** Load all subagents of a session: the loaded pages may contain only some of them. */
  async loadChildren(parentId) {
    try {
      const { sessions } = await getJson(withQuery("/api/sessions", { parentId, limit: MAX_PAGE, usage: true, activity: true }));
      this.list.add(sessions);
    } catch {
      // The subagents that are loaded are shown.
    }
  }

  /** Load the list again after the feed was disconnected. */
  async refresh() {
    await this.loading;
    if (!this.list.element.isConnected) return this.show(this.filters);
    clearTimeout(this.retryTimer);
    try {
      const { page, changes } = await this.loadFirst(this.size);
      const { sessions } = page;
      const active = sessions.filter((session) => isRecent(session) && this.hasNewContent(session));
      this.list.replace(sessions, !this.hasMore);
      active.forEach(({ id }) => this.list.markLive(id));
      this.more.show(this.hasMore);
      this.apply(changes);
    } catch (error) {
      if (!isAborted(error)) this.retryTimer = setTimeout(() => this.refresh(), RETRY_MS);
    }
    return true;
  }

  /** Show the machine or the person in each row, or not. */
  showInRows(shown) {
    this.list.showInRows(shown);
  }

  /** Update a session that changed. */
  update(session) {
    this.missed.note(session.id, session);
    if (!this.list.element.isConnected) return;
    const before = this.list.get(session.id);
    if (!matchesFilters(session, this.filters, Date.now())) {
      if (before) this.list.remove(session.id);
      return;
    }
    const isActive = this.hasNewContent(session);
    this.list.update(session);
    if (!isActive) return;
    this.list.markLive(session.id);
    this.usage.updateSoon(session.id);
  }

  /** True if a session was written to since it was loaded. Imports do not count. */
  hasNewContent(session) {
    return !isImported(session) && hasGrown(this.list.get(session.id), session);
  }

  remove(id) {
    this.missed.note(id, undefined);
    this.list.remove(id);
  }

  get parameters() {
    return { ...apiParameters(this.filters, Date.now()), usage: true, activity: true };
  }

  get hasMore() {
    return this.pages.after !== undefined;
  }

  add({ sessions, pricesError, costsOutdated }) {
    this.list.add(sessions);
    this.costsOutdated.hidden = !costsOutdated;
    this.pricesError.hidden = pricesError === undefined;
    this.pricesError.textContent = `Costs are missing: ${pricesError ?? ""}`;
    this.more.show(this.hasMore);
    this.updateStatus();
  }

  updateStatus() {
    const { pendingMoves, size } = this.list;
    this.pill.hidden = pendingMoves === 0;
    this.pill.textContent = `${pendingMoves} changed`;
    this.updateEmptyNotice(size === 0 && pendingMoves === 0 && !this.hasMore);
    const count = size === 0 ? "" : pluralize(size, "session");
    this.on.status(this.hasMore ? `The newest ${count}` : count);
  }

  updateEmptyNotice(isEmpty) {
    const notice = this.contents.querySelector(":scope > .state");
    if (!isEmpty) notice?.remove();
    else if (!notice) this.contents.append(isNarrowed(this.filters) ? noMatches(this.on.clear) : noSessions());
  }

  /** Apply pending moves and go to the first row. */
  showPending() {
    this.list.applyMoves();
    scrollTo({ top: 0 });
    /** @type {HTMLElement | null} */
    const first = this.list.element.querySelector(".session-row");
    first?.focus({ preventScroll: true });
  }
}

/** As many sessions as are shown, within the limits of a page. */
function pageSize(size) {
  return Math.min(Math.max(size, PAGE), MAX_PAGE);
}

function isRecent({ updatedAt }) {
  return Date.now() - Date.parse(updatedAt) < LIVE_MS;
}

function hasGrown(before, now) {
  return !before || now.messageCount > before.messageCount || now.eventCount > before.eventCount;
}

function noMatches(clear) {
  return placeholder("none", "No session matches", {
    detail: "The filters exclude all sessions.",
    action: { label: "Clear filters", run: clear },
  });
}

/** With a key, the notice contains its tenant, because other tenants may have sessions, and needs no database. */
function noSessions() {
  const { tenant } = document.body.dataset;
  const detail = tenant
    ? "Send the sessions that command-line agents have stored on your machine:"
    : "Import the sessions that command-line agents have stored on this machine:";
  const commands = tenant
    ? [`export ASH_URL=${location.origin} ASH_KEY=ash_…`, "ash push --discover"]
    : ["ash import --discover", "ash import --all"];
  return placeholder("empty", tenant ? `The tenant ${tenant} has no sessions yet` : "Nothing here yet", {
    detail,
    children: [
      ...commands.map((command) => commandLine(command)),
      el("p", { class: "state-detail" }, "Or store a run while it is in progress, and follow it here:"),
      commandLine('claude -p "Fix the test" --output-format stream-json --verbose | ash ingest --session fix'),
      commandLine('codex exec --json "Fix the test" | ash ingest --session fix'),
    ],
  });
}

