import { isAbandoned } from "../lib/api.js";
import { el } from "../lib/dom.js";
import { hasWord } from "../lib/search-result.js";
import { counted } from "../lib/number-format.js";
import { errorState, skeleton, state } from "../lib/placeholders.js";
import { isNarrowed, parametersOf } from "./list-filters.js";
import { Hits } from "./search-hits.js";
import { SessionList } from "./session-list.js";
import { More } from "./load-more.js";
import { Pages } from "./page-cursor.js";

const FEW_TITLES = 5;
const TITLES = 50;
const HITS = 60;
const HITS_OF_ONE = 3;
const PAUSE = 250;

/** What was found: sessions by their titles at once, and by what was said in them after a short pause. */
export class SearchView {
  /**
   * `on.status(text)` is told what was found, `on.sources` of whom; `on.clear` is to forget the filters,
   * `on.everywhere` to search the results of tools too.
   */
  constructor(on) {
    this.on = on;
    this.titlePages = new Pages("/api/sessions", TITLES);
    this.hitPages = new Pages("/api/search", HITS);
    this.titles = new SessionList({ isFlat: true });
    this.hits = new Hits(() => this.parameters);
    this.moreTitles = new More("More titles", () => this.loadTitles());
    this.moreHits = new More("More messages", () => this.loadHits(), { isAutomatic: true });
    this.pending = el("p", { class: "pending", hidden: true });
    this.rest = el("div", { class: "rest" });
    this.titleSection = section("titles-found", "Titles", this.titles.element, this.moreTitles.element);
    const found = [this.pending, this.rest, this.hits.element, this.moreHits.element];
    this.hitSection = section("contents-found", "Messages", ...found);
    this.element = el("div", { class: "results" }, this.titleSection, this.hitSection);
  }

  /** Whether it was shown, and not given up for something else. */
  show(filters, { isTyping = false } = {}) {
    this.leave();
    this.filters = filters;
    this.element.setAttribute("aria-busy", "true");
    this.moreTitles.show(false);
    this.moreHits.show(false);
    const titles = this.searchTitles();
    return new Promise((done) => {
      this.timer = setTimeout(() => done(this.searchHits(titles)), isTyping ? PAUSE : 0);
    });
  }

  leave() {
    clearTimeout(this.timer);
    this.titlePages.abandon();
    this.hitPages.abandon();
  }

  /** What was found stays as it is, for whoever reads it. */
  refresh() {}

  update(session) {
    if (this.titles.get(session.id)) this.titles.update(session);
  }

  remove(id) {
    this.titles.remove(id);
  }

  /** Of the search for messages. */
  get parameters() {
    const { q, source, tools } = this.filters;
    const { since, until } = parametersOf(this.filters, Date.now());
    return { q, source, since, until, in: tools ? "everything" : undefined };
  }

  /** Titles tell of their failure where messages tell of theirs: it is the same server. */
  async searchTitles() {
    const { q, ...others } = { ...this.filters, errors: "" };
    try {
      const asked = { ...parametersOf(others, Date.now()), q: q.replaceAll('"', "") };
      const page = await this.titlePages.first(asked, FEW_TITLES);
      this.titles.clear();
      this.showTitles(page);
    } catch (error) {
      if (!isAbandoned(error)) this.titleSection.hidden = true;
    }
  }

  async searchHits(titles) {
    if (!this.hits.count) this.rest.replaceChildren(skeleton(3));
    try {
      const asked = { ...this.parameters, perSession: HITS_OF_ONE };
      const page = hasWord(this.filters.q) ? await this.hitPages.first(asked) : { results: [] };
      await titles;
      this.hits.clear();
      this.showHits(page);
    } catch (error) {
      if (isAbandoned(error)) return false;
      this.hits.clear();
      this.rest.replaceChildren(errorState(error, () => this.show(this.filters)));
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
    this.on.sources(sessions.map(({ source }) => source));
    this.titleSection.hidden = this.titles.size === 0;
    this.moreTitles.show(this.titlePages.after !== undefined);
  }

  showHits({ results, pending }) {
    this.hits.add(results);
    this.on.sources(results.map(({ source }) => source));
    this.moreHits.show(this.hitPages.after !== undefined);
    this.pending.hidden = !pending;
    this.pending.textContent = pending ? `${counted(pending, "event")} cannot be found yet.` : "";
    this.rest.replaceChildren(...(this.hits.count ? [] : [this.nothing()]));
    this.on.status(this.told());
  }

  told() {
    const { count, groups } = this.hits;
    if (!count && !this.titles.size) return "Nothing found";
    const titles = counted(this.titles.size, "title") + andMore(this.titlePages);
    const hits = `${counted(count, "hit")} in ${counted(groups.size, "session")}${andMore(this.hitPages)}`;
    return `${titles} · ${hits}`;
  }

  nothing() {
    const { q, tools } = this.filters;
    const isAll = this.titles.size === 0;
    const action = isNarrowed(this.filters)
      ? { label: "Clear filters", run: this.on.clear }
      : !tools && { label: "Search results of tools too", run: this.on.everywhere };
    return state("none", isAll ? `Nothing found for “${q}”` : "Nothing in messages", {
      detail: "All words must be in one message. Fewer words, or “or” between them, find more.",
      action,
    });
  }
}

function andMore({ after }) {
  return after === undefined ? "" : " and more";
}

function section(name, title, ...children) {
  return el("section", { class: name }, el("h2", { class: "results-title" }, title), ...children);
}
