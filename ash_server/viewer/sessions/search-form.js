import { button, el, place } from "../lib/dom.js";
import { sourceName } from "../lib/source-names.js";
import { NOTHING, SPANS, isNarrowed, withoutFilters } from "./list-filters.js";
import { oneLine } from "./session-row.js";

const PAUSE = 150;

const SPAN_NAMES = { today: "Today", "7d": "7 days", "30d": "30 days" };

/** The box and the filters. `onChange(filters, {isTyping})` is called when something else is asked for. */
export class Finder {
  constructor(onChange) {
    this.onChange = onChange;
    this.filters = NOTHING;
    this.sources = new Set();
    this.build();
    this.listen();
  }

  build() {
    this.box = el("input", {
      class: "search-box",
      type: "search",
      name: "q",
      placeholder: "Search titles and messages",
      "aria-label": "Search titles and messages",
      "aria-describedby": "search-hint",
      "aria-keyshortcuts": "/",
      autocomplete: "off",
      spellcheck: "false",
      enterkeyhint: "search",
      maxlength: 1000,
    });
    this.tools = el("input", { type: "checkbox", name: "tools" });
    this.since = el("input", { type: "date", name: "since" });
    this.until = el("input", { type: "date", name: "until" });
    this.sourceChips = chips("Source");
    this.spanChips = Object.keys(SPANS).map((span) => chip({ "data-since": span }, SPAN_NAMES[span]));
    this.rangeName = el("summary", { class: "chip" });
    this.range = el(
      "details",
      { class: "range" },
      this.rangeName,
      el(
        "div",
        { class: "range-panel" },
        el("label", {}, "From ", this.since),
        " ",
        el("label", {}, "To ", this.until),
      ),
    );
    this.errors = chip({ "data-errors": "true" }, "With errors");
    this.clear = button({ class: "clear-filters" }, "Clear filters", () => this.ask(withoutFilters(this.filters)));
    this.element = this.form();
  }

  form() {
    return el(
      "form",
      { class: "finder", role: "search" },
      el("div", { class: "search-line" }, this.box, searchKey()),
      el(
        "p",
        { class: "search-hint", id: "search-hint" },
        el("span", {}, ...HINT),
        " ",
        el("label", { class: "switch" }, this.tools, " in tool results too"),
      ),
      el(
        "div",
        { class: "filters" },
        this.sourceChips,
        chips("Last activity", ...this.spanChips, this.range),
        this.errors,
        this.clear,
      ),
    );
  }

  listen() {
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.hear();
    });
    this.box.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.hear(true), PAUSE);
    });
    this.box.addEventListener("keydown", (event) => this.escape(event));
    this.tools.addEventListener("change", () => this.hear());
    [this.since, this.until].forEach((field) => field.addEventListener("change", () => this.hearRange()));
    this.element.addEventListener("click", ({ target }) => this.press(target.closest("button.chip")));
    document.addEventListener("click", ({ target }) => this.range.contains(target) || this.fold());
    this.range.addEventListener("keydown", (event) => event.key === "Escape" && this.fold(event));
  }

  /** Sets what the form says. */
  show(filters) {
    clearTimeout(this.timer);
    this.filters = filters;
    if (this.text !== filters.q) this.box.value = filters.q;
    this.tools.checked = Boolean(filters.tools);
    this.showRange(filters);
    press(this.errors, Boolean(filters.errors));
    this.spanChips.forEach((button) => press(button, button.dataset.since === filters.since));
    this.errors.hidden = filters.q !== "";
    this.clear.hidden = !isNarrowed(filters);
    this.element.toggleAttribute("data-searching", filters.q !== "");
    this.offer([]);
  }

  showRange({ since, until }) {
    const isDate = since !== "" && !Object.hasOwn(SPANS, since);
    this.since.value = isDate ? since : "";
    this.until.value = until;
    this.rangeName.textContent = rangeName(isDate ? since : "", until);
    this.rangeName.toggleAttribute("data-set", isDate || until !== "");
  }

  /** There are sessions of these sources. */
  offer(sources) {
    sources.forEach((source) => this.sources.add(source));
    if (this.filters.source) this.sources.add(this.filters.source);
    const known = new Map([...this.sourceChips.children].map((button) => [button.dataset.source, button]));
    const names = [...this.sources].sort();
    const shown = names.map((name) => known.get(name) ?? chip({ "data-source": name }, sourceName(name)));
    shown.forEach((button) => press(button, button.dataset.source === this.filters.source));
    place(this.sourceChips, shown);
    this.sourceChips.hidden = shown.length < 2 && !this.filters.source;
  }

  focus() {
    this.box.focus();
    this.box.select();
  }

  get text() {
    return oneLine(this.box.value);
  }

  hear(isTyping = false) {
    this.ask({ ...this.filters, q: this.text, tools: this.tools.checked ? "true" : "" }, isTyping);
  }

  hearRange() {
    const since = this.since.value || (Object.hasOwn(SPANS, this.filters.since) ? this.filters.since : "");
    this.ask({ ...this.filters, q: this.text, since, until: this.until.value });
  }

  /** A chip that is pressed already is let go. */
  press(button) {
    if (!button) return;
    const isPressed = button.getAttribute("aria-pressed") === "true";
    const [name, value] = Object.entries(button.dataset)[0];
    const span = name === "since" && { until: "" };
    this.ask({ ...this.filters, q: this.text, ...span, [name]: isPressed ? "" : value });
  }

  ask(filters, isTyping = false) {
    clearTimeout(this.timer);
    this.onChange(filters, { isTyping });
  }

  escape(event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    if (this.box.value === "") return this.box.blur();
    this.box.value = "";
    this.hear();
  }

  /** By a click elsewhere, or by a key, which then gives the focus back. */
  fold(key) {
    if (!this.range.open) return;
    this.range.open = false;
    key?.preventDefault();
    if (key) this.rangeName.focus();
  }
}

const HINT = [
  "All words, in any order; ",
  el("code", {}, '"these words"'),
  " together, ",
  el("code", {}, "-word"),
  " without it, ",
  el("code", {}, "or"),
  " for either.",
];

function searchKey() {
  return el("kbd", { class: "search-key", "aria-hidden": "true" }, "/");
}

function chips(label, ...members) {
  return el("div", { class: "chips", role: "group", "aria-label": label }, ...members);
}

function rangeName(from, to) {
  if (from && to) return `${from} – ${to}`;
  if (from) return `From ${from}`;
  return to ? `To ${to}` : "Dates";
}

function chip(data, name) {
  return el("button", { class: "chip", type: "button", ...data, "aria-pressed": "false" }, name);
}

function press(button, isPressed) {
  button.setAttribute("aria-pressed", isPressed);
}
