import { isAborted } from "../lib/api.js";
import { el } from "../lib/dom.js";
import { PENDING_MS, hasSearchWord, suggestedQueries } from "../lib/search-result.js";
import { formatCold, formatHits, pluralize } from "../lib/number-format.js";
import { errorPlaceholder, placeholder, skeleton } from "../lib/placeholders.js";
import { NO_FILTERS, apiParameters, isNarrowed } from "./list-filters.js";
import { SearchHits } from "./search-hits.js";
import { SessionList } from "./session-list.js";
import { LoadMore } from "./load-more.js";
import { MissedChanges } from "./missed-changes.js";
import { PageCursor } from "./page-cursor.js";

const FIRST_TITLES = 5;
const TITLES = 50;
const HITS = 60;
const HITS_PER_SESSION = 3;
const TYPING_DELAY_MS = 250;

/** Search results: sessions with matching titles, and messages after a short delay. */
export class SearchView {
  filters = NO_FILTERS;
  /** @type {number | undefined} */
  timer;
  missed = new MissedChanges();

  /**
   * @param {import("./list-view.js").ViewCallbacks} on
   * @param {import("../actions/session-menu.js").SessionMenu} menu
   */
  constructor(on, menu) {
    this.on = on;
    this.titlePages = new PageCursor("/api/sessions", TITLES);
    this.hitPages = new PageCursor("/api/search", HITS);
    this.titles = new SessionList({ menu, isFlat: true });
    this.hits = new SearchHits(() => this.parameters);
    this.moreTitles = new LoadMore("More titles", () => this.loadTitles());
    this.moreHits = new LoadMore("More messages", () => this.loadHits(), { isAutomatic: true });
    this.pending = el("p", { class: "pending", hidden: true });
    this.cold = el("p", { class: "not-searched", hidden: true });
    this.rest = el("div", { class: "rest" });
    this.titleSection = section("titles-found", "Titles", this.titles.element, this.moreTitles.element);
    const hitParts = [this.pending, this.cold, this.rest, this.hits.element, this.moreHits.element];
    this.hitSection = section("contents-found", "Messages", ...hitParts);
    this.hitHeading = /** @type {HTMLElement} */ (this.hitSection.firstElementChild);
    this.element = el("div", { class: "results" }, this.titleSection, this.hitSection);
  }

  /**
   * Search and show the results; false if another search was requested in the meantime.
   *
   * @param {typeof NO_FILTERS} filters
   * @param {{size?: number, isTyping?: boolean}} [options]
   */
  show(filters, { isTyping = false } = {}) {
    this.close();
    this.filters = filters;
    this.element.setAttribute("aria-busy", "true");
    this.moreTitles.show(false);
    this.moreHits.show(false);
    const titles = this.searchTitles();
    return new Promise((done) => {
      this.timer = setTimeout(() => done(this.searchHits(titles)), isTyping ? TYPING_DELAY_MS : 0);
    });
  }

  /** Abort pending requests. */
  close() {
    clearTimeout(this.timer);
    this.titlePages.abort();
    this.hitPages.abort();
  }

  /** Results are not refreshed, so that they do not change while they are read. */
  refresh() {}

  /** Show the machine or the person in each row, or not. */
  showInRows(shown) {
    this.titles.showInRows(shown);
  }

  get(id) {
    return this.titles.get(id);
  }

  update(session) {
    this.missed.note(session.id, session);
    if (this.titles.get(session.id)) this.titles.update(session);
  }

  remove(id) {
    this.missed.note(id, undefined);
    this.titles.remove(id);
  }

  /** The parameters of the message search. */
  get parameters() {
    const { q, tools } = this.filters;
    return { ...this.narrowed, q, in: tools ? "everything" : undefined };
  }

  /** The filters as parameters. Archived sessions are found, too. */
  get narrowed() {
    const { archived = "include", ...parameters } = apiParameters(this.filters, Date.now());
    return { ...parameters, archived };
  }

  /** Search titles. Errors are shown by the message search, which uses the same server. */
  async searchTitles() {
    try {
      const words = this.filters.q.replaceAll('"', "");
      const parameters = { ...this.narrowed, usage: true, q: words };
      const { page, changes } = await this.missed.during(() => this.titlePages.first(parameters, FIRST_TITLES));
      this.titles.clear();
      this.showTitles(page);
      changes.forEach((session, id) => (session ? this.update(session) : this.remove(id)));
    } catch (error) {
      if (!isAborted(error)) this.titleSection.hidden = true;
    }
  }

  async searchHits(titles) {
    if (!this.hits.count && this.pending.hidden) this.rest.replaceChildren(skeleton(3));
    try {
      const parameters = { ...this.parameters, perSession: HITS_PER_SESSION };
      const page = hasSearchWord(this.filters.q) ? await this.hitPages.first(parameters) : { results: [] };
      await titles;
      this.hits.clear();
      this.showHits(page);
      const isIncomplete = page.pending && !this.hits.count;
      if (isIncomplete) this.timer = setTimeout(() => this.searchHits(titles), PENDING_MS);
    } catch (error) {
      if (isAborted(error)) return false;
      this.hits.clear();
      this.rest.replaceChildren(errorPlaceholder(error, () => this.show(this.filters)));
      this.on.status("");
    }
    this.element.setAttribute("aria-busy", "false");
    return true;
  }

  async loadTitles() {
    this.showTitles(await this.titlePages.next());
  }

  async loadHits() {
    this.showHits(await this.hitPages.next());
  }

  showTitles({ sessions }) {
    this.titles.add(sessions);
    this.titleSection.hidden = this.titles.size === 0;
    this.moreTitles.show(this.titlePages.after !== undefined);
  }

  showHits({ results, pending, coldSessions, suggestions }) {
    this.hits.add(results);
    this.moreHits.show(this.hitPages.after !== undefined);
    this.pending.hidden = !pending;
    this.pending.textContent = pending ? `${pluralize(pending, "event")} not indexed yet.` : "";
    this.cold.hidden = !coldSessions;
    this.cold.textContent = coldSessions ? `${formatCold(coldSessions)} not searched. Open one to find its words.` : "";
    this.rest.replaceChildren(...(this.hits.count ? [] : [this.noResults(suggestions)]));
    this.hitHeading.hidden = !this.hits.count && !this.titles.size;
    this.on.status(this.statusText());
  }

  statusText() {
    const { count, groups, isAtLeast } = this.hits;
    const found = [
      count > 0 && `${formatHits({ matches: count, atLeast: isAtLeast })} in ${pluralize(groups.size, "session")}`,
      this.titles.size > 0 && pluralize(this.titles.size, "title"),
    ].filter(Boolean);
    if (!found.length) return "Nothing found";
    const hasMore = [this.titlePages, this.hitPages].some(({ after }) => after !== undefined);
    return `${found.join(", and ")}${hasMore ? "; more below" : ""}`;
  }

  noResults(suggestions) {
    const { q, tools } = this.filters;
    const isAll = this.titles.size === 0;
    const action = isNarrowed(this.filters)
      ? { label: "Clear filters", run: this.on.clear }
      : !tools && { label: "Search results of tools too", run: this.on.everywhere };
    return placeholder("none", isAll ? `Nothing found for “${q}”` : "Nothing in messages", {
      detail: "All words must be in one message. Fewer words, or “or” between them, find more.",
      children: [suggestedQueries(suggestions, this.on.search)],
      action,
    });
  }
}

function section(name, title, ...children) {
  return el("section", { class: name }, el("h2", { class: "results-title" }, title), ...children);
}
