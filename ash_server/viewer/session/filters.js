/**
 * What of a session is shown: three presets, and switches beside them. System messages that are hidden are counted in
 * the bar, every kind in the menu.
 */
import { button, el } from "../lib/dom.js";
import { counted, number } from "../lib/number-format.js";
import { FAILED, ITEM, keepInView } from "./scroll-anchor.js";

/** Each kind of thing that can be left out: styles/filters.css hides it where `data-hides` on the log names it. */
const KINDS = {
  thinking: { label: "Thinking", selector: ".thinking" },
  tools: { label: "Tool calls", selector: ".tool-call, .agent-message", within: ".tool-call *" },
  results: { label: "Tool results", selector: ".tool-result, .tool-output", within: ":not(*)" },
  answers: { label: "What is said on the way", selector: ".assistant-text:not([data-final])" },
  system: { label: "System messages", selector: ".notice, .user-message[data-synthetic]" },
  raw: { label: "Not recognised", selector: ".raw[data-event-id]" },
};

const PRESETS = {
  read: { label: "Read", title: "Prompts and answers", hides: Object.keys(KINDS) },
  work: { label: "Work", title: "All but system messages", hides: ["system"] },
  everything: { label: "Everything", title: "All there is, and what it cost", hides: [] },
};

const STANDARD = "work";
const LATER = 250;

export class Filters {
  /** `log` is the element; `onChange` is called after each change. */
  constructor(log, onChange) {
    this.log = log;
    this.onChange = onChange;
    this.switches = Object.fromEntries([...Object.keys(KINDS), "errors"].map((name) => [name, this.switchOf(name)]));
    this.sum = el("span", { class: "filter-sum" });
    this.presets = this.presetButtons();
    this.menu = el(
      "details",
      { class: "menu filters" },
      el("summary", {}, "Filters ", this.sum),
      el("div", { class: "menu-body" }, ...Object.values(this.switches).map(({ element }) => element)),
    );
    this.menu.addEventListener("toggle", () => this.tell());
    this.read();
  }

  /** Takes what the address says. */
  read() {
    const query = new URLSearchParams(location.search);
    const preset = query.get("preset");
    this.preset = Object.hasOwn(PRESETS, preset) ? preset : STANDARD;
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

  /** Shows a kind or leaves it out; "errors" shows nothing but what went wrong. */
  toggle(name) {
    if (name === "errors") this.errorsOnly = !this.errorsOnly;
    else this.shows[name] = !this.shows[name];
    this.change();
  }

  /** Shows what hides this element. */
  reveal(element) {
    const hiding = Object.keys(KINDS).filter((name) => !this.shows[name] && element.closest(KINDS[name].selector));
    if (!hiding.length && !(this.errorsOnly && !element.closest(FAILED))) return;
    hiding.forEach((name) => (this.shows[name] = true));
    this.errorsOnly = false;
    this.change();
  }

  change() {
    keepInView(this.log, () => this.apply());
    history.replaceState(history.state, "", this.address());
    this.onChange();
  }

  apply() {
    this.log.dataset.preset = this.preset;
    this.log.dataset.hides = [...this.hidden(), ...(this.errorsOnly ? ["fine"] : [])].join(" ");
    this.markEmpty();
    this.tell();
  }

  hidden() {
    return Object.keys(KINDS).filter((name) => !this.shows[name]);
  }

  /** The address of this page with what is chosen, as far as it is not what one would get anyway. */
  address() {
    const url = new URL(location);
    const set = (name, value) => {
      if (value === undefined) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    };
    set("preset", this.preset === STANDARD ? undefined : this.preset);
    for (const [name, isShown] of Object.entries(this.shows)) {
      set(name, isShown === !PRESETS[this.preset].hides.includes(name) ? undefined : Number(isShown));
    }
    set("errors", this.errorsOnly ? 1 : undefined);
    return url;
  }

  /** Turns of which nothing is left take no room. */
  markEmpty() {
    const shown = this.errorsOnly ? FAILED : this.shownSelector();
    for (const turn of this.log.querySelectorAll(":scope > .turn")) {
      turn.toggleAttribute("data-empty", turn.querySelector(shown) === null);
    }
  }

  shownSelector() {
    const hidden = this.hidden().flatMap((name) => [KINDS[name].selector, KINDS[name].within ?? []].flat());
    return hidden.length ? `${ITEM}:not(${hidden.join(", ")})` : ITEM;
  }

  /** After each painting: what came may be hidden, and counts. */
  update() {
    this.markEmpty();
    this.later ??= setTimeout(() => {
      this.later = undefined;
      this.tell();
    }, LATER);
  }

  tell() {
    for (const [name, { box }] of Object.entries(this.switches)) {
      box.checked = name === "errors" ? this.errorsOnly : this.shows[name];
    }
    for (const button of this.presets.children) {
      const isChosen = button.dataset.preset === this.preset;
      button.setAttribute("aria-checked", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    }
    this.sum.textContent = this.told(this.countOf("system"));
    if (this.menu.open) this.count();
  }

  /** Only while somebody looks: it means to go through the whole log. */
  count() {
    for (const [name, { count }] of Object.entries(this.switches)) {
      const found = this.countOf(name);
      count.textContent = found ? number(found) : "";
    }
  }

  countOf(name) {
    return this.log.querySelectorAll(name === "errors" ? FAILED : KINDS[name].selector).length;
  }

  told(count) {
    if (this.errorsOnly) return "errors only";
    return this.shows.system || !count ? "" : `${counted(count, "system message")} hidden`;
  }

  switchOf(name) {
    const box = el("input", { type: "checkbox", name });
    const count = el("span", { class: "filter-count" });
    const label = KINDS[name]?.label ?? "Errors alone";
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
      this.choose(next.dataset.preset);
      next.focus();
    });
    return group;
  }
}
