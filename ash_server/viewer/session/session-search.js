import { getJson, isAborted, messageOf, withQuery } from "../lib/api.js";
import { blurActiveElement, el, iconButton } from "../lib/dom.js";
import { PENDING_MS, hasSearchWord, hitPlace, markedSnippet, suggestedQueries } from "../lib/search-result.js";
import { formatHits, formatNumber, pluralize } from "../lib/number-format.js";
import { clockTime } from "../lib/time-format.js";
import { placeUrl } from "./permalinks.js";

const DELAY_MS = 250;
const PAGE = 50;
const AFTER_LAST = Number.MAX_SAFE_INTEGER;

const ROLE_NAMES = { user: "User", assistant: "Assistant", tool: "Tool", system: "System" };
const TYPE_NAMES = {
  tool_call: "Tool call",
  tool_result: "Tool result",
  thinking_done: "Thinking",
  raw: "Not recognized",
};

/**
 * A hit: an event, numbered in the order of the log unless the session is long and the word is frequent.
 * @typedef {{number?: number, eventId: string, sequence?: number, eventSequence: number, type: string, role: string,
 *   createdAt: string, snippet: string, marks: [number, number][]}} Hit
 */

/** Search the whole session, including parts that are not loaded, and go from hit to hit. */
export class SessionSearch {
  /** The query of the hits. */
  q = "";
  total = 0;
  /** True if there may be more hits. */
  isAtLeast = false;
  /** Queries to try instead of one without hits. @type {string[] | undefined} */
  suggestions;
  /** The number of events that cannot be searched yet. @type {number | undefined} */
  pending;
  /** The sequence of the hit that is shown. @type {number | undefined} */
  current;
  /** The hits that are listed, without gaps. @type {Hit[]} */
  hits = [];
  /** The cursors of the next and the previous hits. @type {{after?: number, before?: number}} */
  cursors = {};
  /** @type {number | undefined} */
  timer;
  /** @type {AbortController | undefined} */
  request;
  /** The search for the text that was typed last. @type {Promise<void> | undefined} */
  searching;

  /**
   * @param {object} options
   * @param {string} options.address of the search in this session
   * @param {string} options.path of the session's page
   * @param {() => number} options.position the sequence of the first event on the screen
   * @param {(hit: Hit, q: string, isFirst: boolean) => Promise<any>} options.onHit shows a hit; `isFirst` is true for
   *   the first one of a query
   * @param {() => void} options.onClear
   */
  constructor({ address, path, position, onHit, onClear }) {
    this.address = address;
    this.path = path;
    this.position = position;
    this.onHit = onHit;
    this.onClear = onClear;
    this.input = el("input", {
      class: "find-input",
      type: "search",
      placeholder: "Search this session",
      "aria-label": "Search this session",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.summary = el("p", { class: "find-sum", role: "status" });
    this.buttons = [
      iconButton("prev", "Previous hit", () => this.go(-1)),
      iconButton("next", "Next hit", () => this.go(1)),
      iconButton("close", "End the search", () => this.close()),
    ];
    this.list = el("ol");
    const head = el("div", { class: "find-head" }, this.summary, ...this.buttons);
    this.results = el("div", { class: "find-results", hidden: true }, head, this.list);
    this.element = el("search", { class: "find" }, this.input, this.results);
    this.input.addEventListener("input", () => this.searchSoon());
    this.input.addEventListener("focus", () => (this.results.hidden = !this.isActive));
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (!this.element.contains(/** @type {Node} */ (relatedTarget))) this.results.hidden = true;
    });
    this.list.addEventListener("click", (event) => this.onClick(event));
  }

  /** True if there is a query. */
  get isActive() {
    return hasSearchWord(this.input.value.trim());
  }

  open() {
    this.input.focus();
    this.input.select();
  }

  searchSoon() {
    this.cancel();
    this.timer = setTimeout(() => this.search(), DELAY_MS);
  }

  searchFor(q) {
    this.input.value = q;
    this.input.focus();
    this.cancel();
    this.search();
  }

  /** Search for the typed text, unless that was done. */
  search() {
    clearTimeout(this.timer);
    return (this.searching ??= this.searchNow());
  }

  /** Stop a search that is due or running. */
  cancel() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.searching = undefined;
  }

  clear() {
    this.hits = [];
    this.suggestions = undefined;
    this.cursors = {};
    this.total = 0;
    this.isAtLeast = false;
    this.current = undefined;
    this.onClear();
  }

  async searchNow() {
    this.q = this.input.value.trim();
    this.results.hidden = !this.isActive;
    this.list.hidden = false;
    this.clear();
    if (!this.isActive) return;
    const position = this.position();
    const isLoaded = await this.load({ at: position });
    if (isLoaded && this.isAtLeast && !this.hits.length && position) await this.load({ before: position });
  }

  /** Load and list a page of hits, again while events are pending; false on failure. */
  async load(query) {
    clearTimeout(this.timer);
    this.request?.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    try {
      const page = await this.readHits(query, signal);
      this.hits = page.hits;
      this.cursors = { after: page.nextAfter, before: page.prevBefore };
      this.total = page.total;
      this.isAtLeast = page.atLeast ?? false;
      this.pending = page.pending;
      this.suggestions = page.suggestions;
      if (page.pending) this.timer = setTimeout(() => this.load(query), PENDING_MS);
      this.show();
      return true;
    } catch (problem) {
      if (!isAborted(problem)) this.show(messageOf(problem));
      return false;
    }
  }

  /** The next page with hits: in a long session, pages without hits may come first. */
  async readHits(query, signal) {
    const page = await getJson(withQuery(this.address, { q: this.q, limit: PAGE, ...query }), { signal });
    const isForward = query.before === undefined;
    const next = isForward ? { after: page.nextAfter } : { before: page.prevBefore };
    const isLast = (isForward ? page.nextAfter : page.prevBefore) === undefined;
    return page.hits.length || isLast ? page : this.readHits(next, signal);
  }

  show(summary = this.summaryText()) {
    this.summary.textContent = summary;
    this.buttons.slice(0, 2).forEach((button) => (button.disabled = this.total === 0));
    const suggested = suggestedQueries(this.suggestions, (q) => this.searchFor(q));
    const items = suggested ? [suggested] : this.hits.map((hit) => this.hitLink(hit));
    this.list.replaceChildren(...items.map((item) => el("li", {}, item)));
    this.list.scrollTop = 0;
    this.markCurrent();
  }

  summaryText() {
    const pending = this.pending && `${pluralize(this.pending, "event")} cannot be searched yet`;
    return [this.hitsText(), pending].filter(Boolean).join(" · ");
  }

  hitsText() {
    if (!this.total) return "Nothing found";
    const { number } = this.hits.find((hit) => hit.eventSequence === this.current) ?? {};
    if (number === undefined) return formatHits({ matches: this.total, atLeast: this.isAtLeast });
    return `${formatNumber(number)} of ${formatNumber(this.total)}`;
  }

  hitLink(hit) {
    const label = TYPE_NAMES[hit.type] ?? ROLE_NAMES[hit.role];
    return el(
      "a",
      { class: "find-hit", href: placeUrl(this.path, hitPlace(hit)), "data-sequence": hit.eventSequence },
      el("span", { class: "find-where" }, label, " · ", clockTime(Date.parse(hit.createdAt))),
      el("span", { dir: "auto" }, ...markedSnippet(hit)),
    );
  }

  markCurrent() {
    for (const link of this.list.querySelectorAll("a")) {
      const isCurrent = Number(link.dataset.sequence) === this.current;
      link.setAttribute("aria-current", String(isCurrent));
      if (isCurrent) link.scrollIntoView({ block: "nearest" });
    }
  }

  /**
   * Go to the next (1) or previous (-1) hit; after the last one to the first. Initially, to the hit at or after the
   * position of the page, or before it.
   *
   * @param {1 | -1} steps
   */
  async go(steps) {
    if (!this.isActive) return;
    await this.search();
    const hit = await this.hitAt(this.indexOfNext(steps), steps);
    if (hit) await this.showHit(hit);
  }

  /** The index of the next or previous hit in the list, or one beyond its ends. */
  indexOfNext(steps) {
    const { current, hits } = this;
    const place = current ?? this.position();
    if (steps < 0) return hits.findLastIndex((hit) => hit.eventSequence < place);
    const index = hits.findIndex(({ eventSequence }) => eventSequence > place || (!current && eventSequence === place));
    return index < 0 ? hits.length : index;
  }

  /**
   * The hit at an index of the list. Beyond its ends, load the next hits; after the last one, the first.
   *
   * @param {number} index
   * @param {1 | -1} steps
   */
  async hitAt(index, steps) {
    if (index in this.hits || !this.hits.length) return this.hits[index];
    const { after, before } = this.cursors;
    const [beyond, other] = steps > 0 ? [after, before] : [before, after];
    if (beyond !== undefined && !(await this.load(steps > 0 ? { after } : { before }))) return undefined;
    const isAround = beyond === undefined || !this.hits.length;
    if (isAround && (other !== undefined || !this.hits.length)) {
      if (!(await this.load(steps > 0 ? {} : { before: AFTER_LAST }))) return undefined;
    }
    return steps > 0 ? this.hits[0] : this.hits.at(-1);
  }

  /** Show a hit of the list. */
  async showHit(hit) {
    const isFirst = this.current === undefined;
    this.current = hit.eventSequence;
    this.summary.textContent = this.summaryText();
    this.results.hidden = false;
    this.list.hidden = true;
    this.markCurrent();
    await this.onHit(hit, this.q, isFirst);
  }

  onClick(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const hit = this.hits.find(({ eventSequence }) => eventSequence === Number(link.dataset.sequence));
    if (hit) this.showHit(hit);
  }

  onKey(event) {
    const links = [...this.list.querySelectorAll("a")];
    const index = links.findIndex((link) => link === document.activeElement);
    const actions = {
      ArrowDown: () => this.focusLink(links, index + 1),
      ArrowUp: () => (index > 0 ? links[index - 1] : this.input).focus(),
      Enter: () => this.go(event.shiftKey ? -1 : 1),
      Escape: () => this.close(),
    };
    const isInInput = event.target === this.input;
    if (!Object.hasOwn(actions, event.key) || (event.key === "Enter" && !isInInput)) return;
    event.preventDefault();
    actions[event.key]();
  }

  focusLink(links, index) {
    this.list.hidden = false;
    links[index]?.focus();
  }

  /** End the search. */
  close() {
    this.cancel();
    this.input.value = "";
    this.results.hidden = true;
    this.clear();
    blurActiveElement();
  }
}
