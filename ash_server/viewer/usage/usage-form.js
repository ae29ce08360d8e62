import { button, el } from "../lib/dom.js";
import { sourceName } from "../lib/source-names.js";
import { UNKNOWN } from "./usage-figures.js";
import {
  DIMENSIONS,
  NO_FILTERS,
  NO_PARTS,
  PARTS,
  SPANS,
  VALUES,
  isNarrowed,
  partsOf,
  rowsOf,
  spanOf,
  withoutFilters,
} from "./usage-filters.js";
import { nameOf } from "./usage-names.js";

const SPAN_NAMES = { today: "Today", "7d": "7 days", "30d": "30 days", "90d": "90 days", all: "All" };
const COST_NAMES = { "": "All costs", computed: "Computed costs", reported: "Reported costs" };
/** Filters with a choice of values; others are shown if they are set. */
const CHOICES = ["project", "model", "source", "machine"];
const LABELS = { project: "All projects", model: "All models", source: "All sources", machine: "All machines" };

/** @typedef {import("./usage-filters.js").UsageFilters} UsageFilters */

/** The choices of the page. */
export class UsageForm {
  filters = NO_FILTERS;
  /** The values that can be chosen, by dimension. @type {Record<string, Set<string>>} */
  values = Object.fromEntries(CHOICES.map((name) => [name, new Set()]));

  /** @param {(filters: UsageFilters) => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.spans = Object.keys(SPANS).map((span) =>
      chip(SPAN_NAMES[span], { "data-since": span }, () => this.change({ since: span, until: "" })),
    );
    this.since = el("input", { type: "date", name: "since" });
    this.until = el("input", { type: "date", name: "until" });
    this.rangeName = el("summary", { class: "chip" });
    const dates = [el("label", {}, "From ", this.since), " ", el("label", {}, "To ", this.until)];
    this.range = el("details", { class: "range" }, this.rangeName, el("div", { class: "range-panel" }, ...dates));
    this.measures = [
      chip("Cost", { "data-measure": "" }, () => this.change({ measure: "" })),
      chip("Tokens", { "data-measure": "tokens" }, () => this.change({ measure: "tokens" })),
    ];
    this.by = select("by", "By");
    this.parts = select("parts", "Split by");
    this.cost = select("cost", "Costs");
    this.choices = CHOICES.map((name) => select(name, DIMENSIONS[name]));
    this.others = el("div", { class: "chips" });
    this.clear = button({ class: "clear-filters" }, "Clear filters", () => this.onChange(withoutFilters(this.filters)));
    this.element = el(
      "form",
      { class: "finder usage-form", "aria-label": "Choices" },
      el("div", { class: "filters" }, group("Time", ...this.spans, this.range), group("Bars", ...this.measures)),
      el(
        "div",
        { class: "filters selects" },
        this.by,
        this.parts,
        ...this.choices,
        this.cost,
        this.others,
        this.clear,
      ),
    );
    this.addListeners();
  }

  addListeners() {
    this.element.addEventListener("submit", (event) => event.preventDefault());
    for (const field of [this.by, this.parts, this.cost, ...this.choices]) {
      field.addEventListener("change", () => this.change({ [field.name]: field.value }));
    }
    for (const field of [this.since, this.until]) field.addEventListener("change", () => this.changeDates());
    document.addEventListener("click", ({ target }) => {
      if (!this.range.contains(/** @type {Node} */ (target))) this.range.open = false;
    });
    this.range.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.range.open) return;
      this.range.open = false;
      event.preventDefault();
      this.rangeName.focus();
    });
  }

  /** @param {UsageFilters} filters */
  show(filters) {
    this.filters = filters;
    const span = spanOf(filters);
    const isRange = !Object.hasOwn(SPANS, span) || filters.until !== "";
    for (const each of this.spans) setPressed(each, !isRange && each.dataset.since === span);
    for (const each of this.measures) setPressed(each, each.dataset.measure === filters.measure);
    this.since.value = Object.hasOwn(SPANS, span) ? "" : span.slice(0, 10);
    this.until.value = filters.until.slice(0, 10);
    this.rangeName.textContent = rangeName(Object.hasOwn(SPANS, span) ? "" : span, filters.until);
    this.rangeName.toggleAttribute("data-set", isRange);
    const dimensions = Object.keys(DIMENSIONS).map((name) => [name, `By ${DIMENSIONS[name].toLowerCase()}`]);
    setOptions(this.by, dimensions, rowsOf(filters));
    const parts = PARTS.filter((name) => name !== rowsOf(filters)).map((name) => [name, `Split by ${DIMENSIONS[name].toLowerCase()}`]);
    setOptions(this.parts, [[NO_PARTS, "Not split"], ...parts], partsOf(filters) ?? NO_PARTS);
    setOptions(this.cost, Object.entries(COST_NAMES), filters.cost);
    this.clear.hidden = !isNarrowed(filters);
    this.showChoices();
  }

  /** Offer the values that answers have. */
  addValues(dimension, values) {
    const known = this.values[dimension];
    values.filter((value) => value !== UNKNOWN).forEach((value) => known.add(value));
  }

  showChoices() {
    const { filters } = this;
    for (const field of this.choices) {
      const known = new Set([...this.values[field.name], filters[field.name]].filter(Boolean));
      const names = [...known].sort().map((value) => [value, optionName(field.name, value)]);
      setOptions(field, [["", LABELS[field.name]], ...names], filters[field.name]);
      field.hidden = known.size < 2 && !filters[field.name];
    }
    const set = VALUES.filter((name) => !CHOICES.includes(name) && filters[name]);
    this.others.replaceChildren(...set.map((name) => this.removable(name, filters[name])));
    this.others.hidden = !set.length;
  }

  /** A filter that other pages set; clicking it removes it. */
  removable(name, value) {
    const label = `${DIMENSIONS[name]}: ${nameOf(name, value)}`;
    const attributes = { "aria-pressed": "true", title: "Remove this filter" };
    return chip(label, attributes, () => this.change({ [name]: "" }));
  }

  changeDates() {
    const since = this.since.value || (this.until.value ? "" : "all");
    this.change({ since, until: this.until.value });
  }

  change(changes) {
    this.onChange({ ...this.filters, ...changes });
  }
}

function chip(name, attributes, run) {
  return button({ class: "chip", "aria-pressed": "false", ...attributes }, name, run);
}

function group(label, ...members) {
  return el("div", { class: "chips", role: "group", "aria-label": label }, ...members);
}

function select(name, label) {
  return el("select", { name, "aria-label": label });
}

function setOptions(field, options, value) {
  field.replaceChildren(...options.map(([key, name]) => el("option", { value: key }, name)));
  field.value = value;
}

function optionName(dimension, value) {
  return dimension === "source" ? sourceName(value) : nameOf(dimension, value);
}

function rangeName(from, to) {
  const [first, last] = [from, to].map((text) => text.replace("T", " "));
  if (first && last) return first === last ? first : `${first} – ${last}`;
  if (first) return `From ${first}`;
  return last ? `To ${last}` : "Dates";
}

function setPressed(element, isPressed) {
  element.setAttribute("aria-pressed", String(isPressed));
}
