import { getJson, isAborted, messageOf, withQuery } from "../lib/api.js";
import { blurActiveElement, el, iconButton } from "../lib/dom.js";
import { PENDING_MS, hasSearchWord, hitPlace, markedSnippet, suggestedQueries } from "../lib/search-result.js";
import { formatNumber, pluralize } from "../lib/number-format.js";
import { clockTime } from "../lib/time-format.js";
import { placeUrl } from "./permalinks.js";

const DELAY_MS = 250;
const PAGE = 50;

const ROLE_NAMES = { user: "User", assistant: "Assistant", tool: "Tool", system: "System" };
const TYPE_NAMES = {
  tool_call: "Tool call",
  tool_result: "Tool result",
  thinking_done: "Thinking",
  raw: "Not recognised",
};

/**
 * A hit: an event, numbered in the order of the log.
 * @typedef {{number: number, eventId: string, sequence?: number, eventSequence: number, type: string, role: string,
 *   createdAt: string, snippet: string, marks: [number, number][]}} Hit
 */

/** Search the whole session, including parts that are not loaded, and go from hit to hit. */
export class SessionSearch {
  /** The query of the hits. */
  q = "";
  total = 0;
  /** Queries to try instead of one without hits. @type {string[] | undefined} */
  suggestions;
  /** The number of events that cannot be searched yet. @type {number | undefined} */
  pending;
  /** The number of the hit that is shown. @type {number | undefined} */
  current;
  /** The hits that are listed, without gaps. @type {Hit[]} */
  hits = [];
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
    this.total = 0;
    this.current = undefined;
    this.onClear();
  }

  async searchNow() {
    this.q = this.input.value.trim();
    this.results.hidden = !this.isActive;
    this.list.hidden = false;
    this.clear();
    if (this.isActive) await this.load({ at: this.position() });
  }

  /** Load and list a page of hits, again while events are pending; false on failure. */
  async load(query) {
    clearTimeout(this.timer);
    this.request?.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    try {
      const page = await getJson(withQuery(this.address, { q: this.q, limit: PAGE, ...query }), { signal });
      this.hits = page.hits;
      this.total = page.total;
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
    if (this.current === undefined) return pluralize(this.total, "hit");
    return `${formatNumber(this.current)} of ${formatNumber(this.total)}`;
  }

  hitLink(hit) {
    const label = TYPE_NAMES[hit.type] ?? ROLE_NAMES[hit.role];
    return el(
      "a",
      { class: "find-hit", href: placeUrl(this.path, hitPlace(hit)), "data-number": hit.number },
      el("span", { class: "find-where" }, label, " · ", clockTime(Date.parse(hit.createdAt))),
      el("span", { dir: "auto" }, ...markedSnippet(hit)),
    );
  }

  markCurrent() {
    for (const link of this.list.querySelectorAll("a")) {
      const isCurrent = Number(link.dataset.number) === this.current;
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
    const number = this.current === undefined ? this.start(steps) : this.current + steps;
    if (this.total) await this.showHit(this.wrapped(number));
  }

  start(steps) {
    const position = this.position();
    const next = this.hits.find((hit) => hit.eventSequence >= position)?.number ?? this.total + 1;
    return steps > 0 ? next : next - 1;
  }

  wrapped(number) {
    return ((number - 1 + this.total) % this.total) + 1;
  }

  /** Show a hit, loading its page of the list if needed. */
  async showHit(number) {
    const find = () => this.hits.find((hit) => hit.number === number);
    if (!find()) await this.load({ after: Math.max(0, number - PAGE / 2) });
    const hit = find();
    if (!hit) return;
    const isFirst = this.current === undefined;
    this.current = number;
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
    this.showHit(Number(link.dataset.number));
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
