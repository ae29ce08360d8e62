/** Filters of a session: presets, and a switch per kind of item. The bar shows the number of hidden system messages. */
import { DelayedTask } from "../lib/delayed-task.js";
import { button, el } from "../lib/dom.js";
import { formatNumber, pluralize } from "../lib/number-format.js";
import { FAILED, ITEM, keepScrollPosition } from "./scroll-anchor.js";

/**
 * Kinds of items that can be hidden: styles/filters.css hides those named by `data-hides` on the log.
 *
 * @type {Record<string, {label: string, selector: string, within?: string}>}
 */
const KINDS = {
  thinking: { label: "Thinking", selector: ".thinking" },
  tools: {
    label: "Tool calls",
    selector: ".tool-call:not([data-message]), .agent-message, .subagent[data-unlinked]",
    within: ":is(.tool-call, .subagent) *",
  },
  results: { label: "Tool results", selector: ".tool-result, .tool-output", within: ":not(*)" },
  answers: { label: "Intermediate answers", selector: ".assistant-text:not([data-final])" },
  system: { label: "System messages", selector: ".notice, .user-message[data-synthetic]" },
  raw: { label: "Not recognized", selector: ".raw[data-event-id]" },
};

const PRESETS = {
  read: { label: "Read", title: "Prompts and answers", hides: Object.keys(KINDS) },
  work: { label: "Work", title: "All but system messages", hides: ["system"] },
  everything: { label: "Everything", title: "Everything, with the model, usage and cost of each answer", hides: [] },
};

const DEFAULT_PRESET = "work";
const DELAY_MS = 250;

export class Filters {
  preset = DEFAULT_PRESET;
  /** Whether a kind is shown. @type {Record<string, boolean>} */
  shows = {};
  errorsOnly = false;
  /** The number of items of each kind in the whole session, if known. @type {Record<string, number> | undefined} */
  totals;
  updating = new DelayedTask(() => this.updateControls(), DELAY_MS);

  /**
   * @param {HTMLElement} log
   * @param {() => void} onChange
   */
  constructor(log, onChange) {
    this.log = log;
    this.onChange = onChange;
    const names = [...Object.keys(KINDS), "errors"];
    this.switches = Object.fromEntries(names.map((name) => [name, this.createSwitch(name)]));
    this.summary = el("span", { class: "filter-sum" });
    this.presets = this.presetButtons();
    this.menu = el(
      "details",
      { class: "menu filters" },
      el("summary", {}, "Filters ", this.summary),
      el("div", { class: "menu-body" }, ...Object.values(this.switches).map(({ element }) => element)),
    );
    this.menu.addEventListener("toggle", () => this.updateControls());
    this.readAddress();
  }

  /** Apply the filters in the address of the page. */
  readAddress() {
    const query = new URLSearchParams(location.search);
    const preset = query.get("preset") ?? DEFAULT_PRESET;
    this.preset = Object.hasOwn(PRESETS, preset) ? preset : DEFAULT_PRESET;
    this.shows = Object.fromEntries(Object.keys(KINDS).map((name) => [name, this.isShownIn(name, query)]));
    this.errorsOnly = query.get("errors") === "1";
    this.apply();
  }

  isShownIn(name, query) {
    return query.has(name) ? query.get(name) !== "0" : !PRESETS[this.preset].hides.includes(name);
  }

  choose(preset) {
    this.preset = preset;
    this.errorsOnly = false;
    this.shows = Object.fromEntries(Object.keys(KINDS).map((name) => [name, !PRESETS[preset].hides.includes(name)]));
    this.change();
  }

  /** Toggle a kind; "errors" toggles showing only failed items. */
  toggle(name) {
    if (name === "errors") this.errorsOnly = !this.errorsOnly;
    else this.shows[name] = !this.shows[name];
    this.change();
  }

  /** Change the filters so that an element is visible. */
  reveal(element) {
    const hiding = Object.keys(KINDS).filter((name) => !this.shows[name] && element.closest(KINDS[name].selector));
    if (!hiding.length && !(this.errorsOnly && !element.closest(FAILED))) return;
    hiding.forEach((name) => (this.shows[name] = true));
    this.errorsOnly = false;
    this.change();
  }

  change() {
    keepScrollPosition(this.log, () => this.apply());
    history.replaceState(history.state, "", this.address());
    this.onChange();
  }

  apply() {
    this.log.dataset.preset = this.preset;
    this.log.dataset.hides = [...this.hiddenKinds(), ...(this.errorsOnly ? ["fine"] : [])].join(" ");
    this.markEmptyTurns();
    this.updateControls();
  }

  hiddenKinds() {
    return Object.keys(KINDS).filter((name) => !this.shows[name]);
  }

  /** The address of this page with the filters that differ from the defaults. */
  address() {
    const url = new URL(location.href);
    const set = (name, value) => {
      if (value === undefined) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    };
    set("preset", this.preset === DEFAULT_PRESET ? undefined : this.preset);
    for (const [name, isShown] of Object.entries(this.shows)) {
      set(name, isShown === !PRESETS[this.preset].hides.includes(name) ? undefined : Number(isShown));
    }
    set("errors", this.errorsOnly ? 1 : undefined);
    return url;
  }

  /**
   * Mark turns without visible items, so that they take no space.
   *
   * @param {Iterable<Element>} [turns] all turns by default
   */
  markEmptyTurns(turns = this.log.querySelectorAll(":scope > .turn")) {
    const shown = this.errorsOnly ? FAILED : this.shownSelector();
    for (const turn of turns) {
      turn.toggleAttribute("data-empty", turn.querySelector(shown) === null);
    }
  }

  shownSelector() {
    const hidden = this.hiddenKinds().flatMap((name) => [KINDS[name].selector, KINDS[name].within ?? []].flat());
    return hidden.length ? `${ITEM}:not(${hidden.join(", ")})` : ITEM;
  }

  /**
   * Update after each painting: new items may be hidden, and are counted.
   *
   * @param {Set<Element>} painted the turns that were painted
   */
  update(painted) {
    this.markEmptyTurns(painted);
    this.updating.request();
  }

  updateControls() {
    for (const [name, { box }] of Object.entries(this.switches)) {
      box.checked = name === "errors" ? this.errorsOnly : this.shows[name];
    }
    for (const button of this.presets.querySelectorAll("button")) {
      const isChosen = button.dataset.preset === this.preset;
      button.setAttribute("aria-checked", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    }
    this.summary.textContent = this.summaryText(this.countOf("system"));
    if (this.menu.open) this.showCounts();
  }

  /** Show the number of items of each kind in the whole session. */
  setTotals(totals) {
    this.totals = totals;
    this.updateControls();
  }

  /** Show the counts, only while the menu is open: without totals, it searches the whole log. */
  showCounts() {
    for (const [name, { count }] of Object.entries(this.switches)) {
      const items = this.countOf(name);
      count.textContent = items ? formatNumber(items) : "";
    }
  }

  /** The number of items in the session, or at least of those that are loaded: new ones come before new totals. */
  countOf(name) {
    return Math.max(this.totals?.[name] ?? 0, this.loadedCount(name));
  }

  loadedCount(name) {
    return this.log.querySelectorAll(name === "errors" ? FAILED : KINDS[name].selector).length;
  }

  summaryText(count) {
    if (this.errorsOnly) return "errors only";
    return this.shows.system || !count ? "" : `${pluralize(count, "system message")} hidden`;
  }

  createSwitch(name) {
    const box = el("input", { type: "checkbox", name });
    const count = el("span", { class: "filter-count" });
    const label = KINDS[name]?.label ?? "Errors only";
    box.addEventListener("change", () => this.toggle(name));
    const element = el("label", { class: "filter" }, box, el("span", { class: "filter-name" }, label), count);
    return { box, count, element };
  }

  presetButtons() {
    const buttons = Object.entries(PRESETS).map(([name, { label, title }]) => {
      const attributes = { class: "preset", role: "radio", "data-preset": name, title };
      return button(attributes, label, () => this.choose(name));
    });
    const group = el("div", { class: "presets", role: "radiogroup", "aria-label": "What is shown" }, ...buttons);
    group.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = buttons.at((buttons.findIndex(({ tabIndex }) => tabIndex === 0) + step) % buttons.length);
      this.choose(next?.dataset.preset);
      next?.focus();
    });
    return group;
  }
}
