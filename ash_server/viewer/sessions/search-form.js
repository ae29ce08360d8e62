import { button, el, setChildren } from "../lib/dom.js";
import { NAMED_FILTERS, NO_FILTERS, SPANS, isNarrowed, withoutFilters } from "./list-filters.js";
import { FilterMenus } from "./filter-menus.js";
import { oneLine } from "../lib/title-text.js";

const TYPING_DELAY_MS = 150;

const SPAN_NAMES = { today: "Today", "7d": "7 days", "30d": "30 days" };

/** The search box and the filters of the list. */
export class SearchForm {
  filters = NO_FILTERS;
  /** The counts of sessions by the values of filters, once loaded. @type {any} */
  counts;
  /** @type {number | undefined} */
  timer;

  /**
   * @param {(filters: typeof NO_FILTERS, how: {isTyping: boolean}) => void} onChange
   * @param {() => void} onOpen called when a menu of values opens
   */
  constructor(onChange, onOpen) {
    this.onChange = onChange;
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
    this.menus = new FilterMenus({ choose: (name, value) => this.change({ ...this.filters, q: this.text, [name]: value }), open: onOpen });
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
    this.errors = chip({ "data-errors": "true" }, "Errors only");
    this.starred = chip({ "data-starred": "true" }, "Starred");
    this.namedChips = chips("Other filters");
    this.clear = button({ class: "clear-filters" }, "Clear filters", () => this.change(withoutFilters(this.filters)));
    this.element = this.createForm();
    this.addListeners();
  }

  createForm() {
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
        this.menus.element,
        chips("Last activity", ...this.spanChips, this.range),
        this.errors,
        this.starred,
        this.namedChips,
        this.clear,
      ),
    );
  }

  addListeners() {
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.box.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.submit(true), TYPING_DELAY_MS);
    });
    this.box.addEventListener("keydown", (event) => this.onEscape(event));
    this.tools.addEventListener("change", () => this.submit());
    [this.since, this.until].forEach((field) => field.addEventListener("change", () => this.submitRange()));
    this.element.addEventListener("click", ({ target }) => {
      this.toggleChip(/** @type {Element} */ (target).closest("button.chip"));
    });
    document.addEventListener("click", ({ target }) => this.closePanels(/** @type {Node} */ (target)));
    this.element.addEventListener("keydown", (event) => event.key === "Escape" && this.closePanel(event));
  }

  /** Set the fields of the form. */
  show(filters) {
    clearTimeout(this.timer);
    this.filters = filters;
    if (this.text !== filters.q) this.box.value = filters.q;
    this.tools.checked = Boolean(filters.tools);
    this.showRange(filters);
    setPressed(this.errors, Boolean(filters.errors));
    setPressed(this.starred, Boolean(filters.starred));
    this.showNamed(filters);
    this.spanChips.forEach((button) => setPressed(button, button.dataset.since === filters.since));
    this.clear.hidden = !isNarrowed(filters);
    this.element.toggleAttribute("data-searching", filters.q !== "");
    this.menus.show(filters, this.counts);
  }

  /** Offer the values of filters, with their numbers of sessions. */
  showCounts(counts) {
    this.counts = counts;
    this.menus.show(this.filters, counts);
  }

  showRange({ since, until }) {
    const isDate = since !== "" && !Object.hasOwn(SPANS, since);
    this.since.value = isDate ? since : "";
    this.until.value = until;
    this.rangeName.textContent = rangeName(isDate ? since : "", until);
    this.rangeName.toggleAttribute("data-set", isDate || until !== "");
  }

  /** Show the filters that a link has set; a click removes one. */
  showNamed(filters) {
    const set = Object.entries(NAMED_FILTERS).filter(([name]) => filters[name]);
    const buttons = set.map(([name, label]) => {
      const text = filters[name] === "true" ? label : `${label} ${filters[name]}`;
      const button = chip({ [`data-${name}`]: filters[name], title: text }, text);
      setPressed(button, true);
      return button;
    });
    setChildren(this.namedChips, buttons);
    this.namedChips.hidden = !buttons.length;
  }

  focus() {
    this.box.focus();
    this.box.select();
  }

  get text() {
    return oneLine(this.box.value);
  }

  submit(isTyping = false) {
    this.change({ ...this.filters, q: this.text, tools: this.tools.checked ? "true" : "" }, isTyping);
  }

  submitRange() {
    const since = this.since.value || (Object.hasOwn(SPANS, this.filters.since) ? this.filters.since : "");
    this.change({ ...this.filters, q: this.text, since, until: this.until.value });
  }

  /** Press a chip, or release it if it is pressed. */
  toggleChip(button) {
    if (!button) return;
    const isPressed = button.getAttribute("aria-pressed") === "true";
    const [name, value] = Object.entries(button.dataset)[0];
    const span = name === "since" && { until: "" };
    this.change({ ...this.filters, q: this.text, ...span, [name]: isPressed ? "" : value });
  }

  change(filters, isTyping = false) {
    clearTimeout(this.timer);
    this.onChange(filters, { isTyping });
  }

  onEscape(event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    if (this.box.value === "") return this.box.blur();
    this.box.value = "";
    this.submit();
  }

  /** Close the open panels, except one with this node. */
  closePanels(target) {
    for (const panel of this.element.querySelectorAll("details[open]")) {
      if (!panel.contains(target)) panel.removeAttribute("open");
    }
  }

  /** Close the panel around the focus, and return the focus to its summary. */
  closePanel(event) {
    const panel = event.target.closest("details[open]");
    if (!panel) return;
    panel.open = false;
    event.preventDefault();
    event.stopPropagation();
    panel.querySelector("summary").focus();
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

function setPressed(button, isPressed) {
  button.setAttribute("aria-pressed", isPressed);
}
