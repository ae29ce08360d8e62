import { el, iconButton } from "../lib/dom.js";

/** A panel over the right side of the page. Closing it returns the focus. */
export class SidePanel {
  /** @type {Element | null} */
  opener = null;
  /** @type {AbortController | undefined} */
  request;

  /**
   * @param {string} name a class, and the label
   * @param {string} label
   * @param {any[]} [buttons] before the one that closes the panel
   */
  constructor(name, label, buttons = []) {
    this.title = el("h2", { class: "side-panel-title", tabindex: -1 });
    this.facts = el("p", { class: "side-panel-facts" });
    this.body = el("div", { class: "side-panel-body" });
    this.element = el(
      "aside",
      { class: `side-panel ${name}`, "aria-label": label, hidden: true },
      el(
        "header",
        { class: "side-panel-header" },
        this.title,
        ...buttons,
        iconButton("close", "Close", () => this.close()),
      ),
      this.facts,
      this.body,
    );
  }

  get isOpen() {
    return !this.element.hidden;
  }

  /** Show the panel, before its content is loaded. */
  reveal() {
    this.opener = document.activeElement;
    this.element.hidden = false;
  }

  focus() {
    this.title.focus({ preventScroll: true });
  }

  close() {
    this.request?.abort();
    this.element.hidden = true;
    if (this.opener instanceof HTMLElement) this.opener.focus({ preventScroll: true });
  }

  /** The signal of a new request, which aborts the one before. */
  nextSignal() {
    this.request?.abort();
    this.request = new AbortController();
    return this.request.signal;
  }
}
