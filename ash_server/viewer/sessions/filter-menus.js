import { button, el, setChildren } from "../lib/dom.js";
import { formatNumber, formatShort } from "../lib/number-format.js";
import { folderName } from "../lib/session-facts.js";
import { sourceName } from "../lib/source-names.js";

const MAX_WITHOUT_SEARCH = 10;

/**
 * Filters with values from the server: the name in the address, the label, the name in the counts, and the shown text
 * of a value.
 * @type {[name: string, label: string, plural: string, textOf?: (value: string) => string][]}
 */
const MENUS = [
  ["project", "Project", "projects", folderName],
  ["branch", "Branch", "branches"],
  ["model", "Model", "models"],
  ["source", "Source", "sources", sourceName],
  ["machine", "Machine", "machines"],
  ["person", "Person", "persons"],
];

/** A number of sessions with a value of a filter. @typedef {{value: string, sessions: number}} ValueCount */

/** Menus of the filters with values from the server. */
export class FilterMenus {
  /**
   * @param {{choose: (name: string, value: string) => void, open: () => void}} on `choose` is called with the chosen
   *   value of a filter, empty for none; `open` when a menu opens
   */
  constructor(on) {
    this.menus = MENUS.map(([name, label, plural, textOf]) => ({ name, plural, menu: new FilterMenu({ name, label, textOf, on }) }));
    this.element = el("div", { class: "chips choices" }, ...this.menus.map(({ menu }) => menu.element));
  }

  /**
   * @param {Record<string, string>} filters
   * @param {any} counts the counts of the API, once loaded
   */
  show(filters, counts) {
    const note = counts?.isLimited ? "Counts of the latest 2,000 sessions" : "";
    for (const { name, plural, menu } of this.menus) menu.show(filters[name], counts?.[plural] ?? [], { note, hasCounts: !filters.q });
  }
}

/** A menu of the values of one filter. */
class FilterMenu {
  constructor({ name, label, textOf = (value) => value, on }) {
    this.label = label;
    this.textOf = textOf;
    this.choose = (value) => on.choose(name, value);
    this.name = el("summary", { class: "chip", "data-filter": name });
    this.search = el("input", { type: "search", class: "choice-search", "aria-label": `Find: ${label}`, placeholder: "Find" });
    this.list = el("div", { class: "choice-list", role: "group", "aria-label": label });
    this.note = el("p", { class: "choices-note" });
    const panel = el("div", { class: "range-panel choice-panel" }, this.search, this.list, this.note);
    this.details = el("details", { class: "range" }, this.name, panel);
    this.remove = button({ class: "chip-remove" }, "×", () => {
      this.choose("");
      this.name.focus();
    });
    this.element = el("div", { class: "choice" }, this.details, this.remove);
    this.details.addEventListener("toggle", () => this.onToggle(on));
    this.search.addEventListener("input", () => this.find());
    panel.addEventListener("keydown", (event) => this.onKey(event));
  }

  /**
   * @param {string} value the current value, empty for none
   * @param {ValueCount[]} values
   * @param {{note: string, hasCounts: boolean}} options
   */
  show(value, values, { note, hasCounts }) {
    this.element.hidden = !value && values.length < 2;
    this.element.toggleAttribute("data-set", value !== "");
    this.name.toggleAttribute("data-set", value !== "");
    this.name.replaceChildren(...(value ? [`${this.label} `, el("bdi", {}, this.textOf(value))] : [this.label]));
    this.name.title = value;
    this.remove.hidden = !value;
    this.remove.setAttribute("aria-label", `Remove the filter: ${this.label} ${this.textOf(value)}`);
    this.search.hidden = values.length <= MAX_WITHOUT_SEARCH;
    this.note.textContent = note;
    this.note.hidden = !note;
    const names = values.map((each) => this.textOf(each.value));
    const isAmbiguous = (name) => names.indexOf(name) !== names.lastIndexOf(name);
    const isMissing = value !== "" && !values.some((each) => each.value === value);
    const all = isMissing ? [{ value, sessions: 0 }, ...values] : values;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.value;
    const choices = all.map((each) => {
      const name = this.textOf(each.value);
      const hint = isAmbiguous(name) && name !== each.value && each.value;
      return this.choice(each, { name, hint, isChosen: each.value === value, hasCounts });
    });
    const hadFocus = this.list.contains(document.activeElement);
    setChildren(this.list, choices);
    if (hadFocus) choices.find((choice) => choice.dataset.value === focused)?.focus();
    this.find();
  }

  choice({ value, sessions }, { name, hint, isChosen, hasCounts }) {
    const count = el("span", { class: "choice-count", title: `${formatNumber(sessions)} sessions` }, formatShort(sessions));
    const choice = button({ class: "menu-item", "data-value": value, "aria-pressed": String(isChosen), title: value }, null, () => {
      this.close();
      this.choose(isChosen ? "" : value);
    });
    choice.append(el("bdi", { class: "choice-name" }, name));
    if (hint) choice.append(" ", el("bdi", { class: "choice-hint" }, hint));
    if (hasCounts) choice.append(" ", count);
    return choice;
  }

  /** Hide the values without the text in the search box. */
  find() {
    const words = this.search.hidden ? "" : this.search.value.trim().toLowerCase();
    const includes = (text) => text?.toLowerCase().includes(words);
    for (const choice of this.choices) choice.hidden = !includes(choice.dataset.value) && !includes(choice.textContent);
  }

  /** @returns {HTMLElement[]} */
  get choices() {
    return [...this.list.querySelectorAll("button")];
  }

  onToggle(on) {
    if (!this.details.open) return;
    this.search.value = "";
    this.find();
    on.open();
  }

  /** Arrow keys go through the values. */
  onKey(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const visible = this.choices.filter(({ hidden }) => !hidden);
    const index = visible.indexOf(event.target);
    visible[Math.max(0, index + by)]?.focus();
  }

  close() {
    this.details.open = false;
    this.name.focus();
  }
}
