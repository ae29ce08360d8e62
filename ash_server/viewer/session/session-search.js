import { getJson, isAbandoned, withQuery } from "../lib/api.js";
import { el } from "../lib/dom.js";
import { hasWord, marked, placeOf } from "../lib/search-result.js";
import { counted } from "../lib/number-format.js";
import { clockTime } from "../lib/time-format.js";
import { addressOf } from "./permalinks.js";

const AFTER = 250;
const MOST = 50;

const WHOSE = { user: "User", assistant: "Assistant", tool: "Tool", system: "System" };
const WHAT = { tool_call: "Tool call", tool_result: "Tool result", thinking_done: "Thinking", raw: "Not recognised" };

/** Searches the whole session, also what is not loaded. */
export class Find {
  /** `path` is the page of the session; `onChoose` is called with a place. */
  constructor(sessionId, path, onChoose) {
    Object.assign(this, { sessionId, path, onChoose });
    this.input = el("input", {
      class: "find-input",
      type: "search",
      placeholder: "Search this session",
      "aria-label": "Search this session",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.sum = el("p", { class: "find-sum", role: "status" });
    this.list = el("ol");
    this.results = el("div", { class: "find-results", hidden: true }, this.sum, this.list);
    this.element = el("search", { class: "find" }, this.input, this.results);
    this.input.addEventListener("input", () => this.wait());
    this.input.addEventListener("focus", () => (this.results.hidden = !this.input.value.trim()));
    this.element.addEventListener("keydown", (event) => this.pressed(event));
    this.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (!this.element.contains(relatedTarget)) this.results.hidden = true;
    });
    this.list.addEventListener("click", (event) => this.clicked(event));
  }

  open() {
    this.input.focus();
    this.input.select();
  }

  wait() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.timer = setTimeout(() => this.search(), AFTER);
  }

  async search() {
    const q = this.input.value.trim();
    this.results.hidden = !hasWord(q);
    if (this.results.hidden) return;
    this.asking = new AbortController();
    const query = { q, sessionId: this.sessionId, limit: MOST };
    try {
      this.show(await getJson(withQuery("/api/search", query), { signal: this.asking.signal }));
    } catch (problem) {
      if (!isAbandoned(problem)) this.tell(problem.message, []);
    }
  }

  show({ results, nextAfter, pending }) {
    const [first] = results;
    const found = first ? counted(first.matches, "hit") : "Nothing found";
    const parts = [
      found,
      nextAfter !== undefined && `the newest ${MOST} of them`,
      pending && `${counted(pending, "event")} cannot be searched yet`,
    ];
    this.tell(parts.filter(Boolean).join(" · "), results);
  }

  tell(sum, results) {
    this.sum.textContent = sum;
    this.list.replaceChildren(...results.map((result) => el("li", {}, this.hit(result))));
    this.results.scrollTop = 0;
  }

  hit(result) {
    const place = placeOf(result);
    const what = WHAT[result.type] ?? WHOSE[result.role];
    const link = el(
      "a",
      { class: "find-hit", href: addressOf(this.path, place) },
      el("span", { class: "find-where" }, what, " · ", clockTime(Date.parse(result.createdAt))),
      el("span", { dir: "auto" }, ...marked(result)),
    );
    link.place = place;
    return link;
  }

  clicked(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.results.hidden = true;
    this.onChoose(link.place);
  }

  pressed(event) {
    const links = [...this.list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const acts = {
      ArrowDown: () => links[at + 1]?.focus(),
      ArrowUp: () => (at > 0 ? links[at - 1] : this.input).focus(),
      Enter: () => at < 0 && links[0]?.click(),
      Escape: () => this.close(),
    };
    if (!Object.hasOwn(acts, event.key) || (event.key === "Enter" && at >= 0)) return;
    event.preventDefault();
    acts[event.key]();
  }

  close() {
    this.results.hidden = true;
    document.activeElement.blur();
  }
}
