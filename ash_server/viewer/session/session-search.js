import { getJson, isAborted, messageOf, withQuery } from "../lib/api.js";
import { blurActiveElement, el } from "../lib/dom.js";
import { hasSearchWord, hitPlace, markedSnippet } from "../lib/search-result.js";
import { pluralize } from "../lib/number-format.js";
import { clockTime } from "../lib/time-format.js";
import { placeUrl } from "./permalinks.js";

const DELAY_MS = 250;
const MAX_RESULTS = 50;

const ROLE_NAMES = { user: "User", assistant: "Assistant", tool: "Tool", system: "System" };
const TYPE_NAMES = {
  tool_call: "Tool call",
  tool_result: "Tool result",
  thinking_done: "Thinking",
  raw: "Not recognised",
};

/** Search the whole session, including events that are not loaded. */
export class SessionSearch {
  /** @type {number | undefined} */
  timer;
  /** @type {AbortController | undefined} */
  request;
  /** The places of the results, by their links. @type {WeakMap<Element, import("./permalinks.js").Place>} */
  places = new WeakMap();

  /**
   * @param {string} sessionId
   * @param {string} path of the session's page
   * @param {(place: import("./permalinks.js").Place) => void} onChoose
   */
  constructor(sessionId, path, onChoose) {
    this.sessionId = sessionId;
    this.path = path;
    this.onChoose = onChoose;
    this.input = el("input", {
      class: "find-input",
      type: "search",
      placeholder: "Search this session",
      "aria-label": "Search this session",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.summary = el("p", { class: "find-sum", role: "status" });
    this.list = el("ol");
    this.results = el("div", { class: "find-results", hidden: true }, this.summary, this.list);
    this.element = el("search", { class: "find" }, this.input, this.results);
    this.input.addEventListener("input", () => this.searchSoon());
    this.input.addEventListener("focus", () => (this.results.hidden = !this.input.value.trim()));
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (!this.element.contains(/** @type {Node} */ (relatedTarget))) this.results.hidden = true;
    });
    this.list.addEventListener("click", (event) => this.onClick(event));
  }

  open() {
    this.input.focus();
    this.input.select();
  }

  searchSoon() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.timer = setTimeout(() => this.search(), DELAY_MS);
  }

  async search() {
    const q = this.input.value.trim();
    this.results.hidden = !hasSearchWord(q);
    if (this.results.hidden) return;
    this.request = new AbortController();
    const query = { q, sessionId: this.sessionId, limit: MAX_RESULTS };
    try {
      this.showPage(await getJson(withQuery("/api/search", query), { signal: this.request.signal }));
    } catch (problem) {
      if (!isAborted(problem)) this.show(messageOf(problem), []);
    }
  }

  showPage({ results, nextAfter, pending }) {
    const [first] = results;
    const parts = [
      first ? pluralize(first.matches, "hit") : "Nothing found",
      nextAfter !== undefined && `the newest ${MAX_RESULTS} of them`,
      pending && `${pluralize(pending, "event")} cannot be searched yet`,
    ];
    this.show(parts.filter(Boolean).join(" · "), results);
  }

  show(summary, results) {
    this.summary.textContent = summary;
    this.list.replaceChildren(...results.map((result) => el("li", {}, this.resultLink(result))));
    this.results.scrollTop = 0;
  }

  resultLink(result) {
    const place = hitPlace(result);
    const label = TYPE_NAMES[result.type] ?? ROLE_NAMES[result.role];
    const link = el(
      "a",
      { class: "find-hit", href: placeUrl(this.path, place) },
      el("span", { class: "find-where" }, label, " · ", clockTime(Date.parse(result.createdAt))),
      el("span", { dir: "auto" }, ...markedSnippet(result)),
    );
    this.places.set(link, place);
    return link;
  }

  onClick(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.results.hidden = true;
    const place = this.places.get(link);
    if (place) this.onChoose(place);
  }

  onKey(event) {
    const links = [...this.list.querySelectorAll("a")];
    const index = links.findIndex((link) => link === document.activeElement);
    const actions = {
      ArrowDown: () => links[index + 1]?.focus(),
      ArrowUp: () => (index > 0 ? links[index - 1] : this.input).focus(),
      Enter: () => index < 0 && links[0]?.click(),
      Escape: () => this.close(),
    };
    if (!Object.hasOwn(actions, event.key) || (event.key === "Enter" && index >= 0)) return;
    event.preventDefault();
    actions[event.key]();
  }

  close() {
    this.results.hidden = true;
    blurActiveElement();
  }
}
