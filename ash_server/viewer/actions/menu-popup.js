import { el, morph, setChildren } from "../lib/dom.js";

const MARGIN = 8;
const STEPS = { ArrowDown: 1, ArrowUp: -1 };

/**
 * An entry of a menu. `detail` is code below the label, `note` is text; `reason` disables the entry and says why.
 *
 * @typedef {{label: string, detail?: string, note?: string, reason?: string, run?: () => any}} MenuEntry
 */

/** A menu over the page, shared by several buttons. It is not in the opener's row, which may clip or move. */
export class MenuPopup {
  /** @type {HTMLElement | undefined} */
  opener;
  /** @type {MenuEntry[]} */
  entries = [];

  constructor() {
    this.element = el("div", { class: "action-menu", role: "menu", popover: "manual" });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("focusout", ({ relatedTarget }) => relatedTarget && this.closeUnless(relatedTarget));
    document.addEventListener("pointerdown", ({ target }) => this.closeUnless(target));
    addEventListener("scroll", () => this.place(), { passive: true });
    addEventListener("resize", () => this.place());
  }

  get isOpen() {
    return this.opener !== undefined;
  }

  /**
   * @param {HTMLElement} opener
   * @param {string} label
   * @param {MenuEntry[]} entries
   */
  open(opener, label, entries) {
    this.close();
    this.opener = opener;
    opener.setAttribute("aria-expanded", "true");
    this.element.setAttribute("aria-label", label);
    if (!this.element.isConnected) document.body.append(this.element);
    this.fill(entries);
    this.element.showPopover();
    this.place();
    this.items[0]?.focus();
  }

  /** Show other entries in the same items, so that a click or the focus on one is not lost. */
  fill(entries) {
    this.entries = entries;
    const { items } = this;
    const shown = entries.map((entry, index) => {
      const fresh = menuItem(entry);
      if (!items[index]) return this.listen(fresh);
      morph(items[index], fresh);
      return items[index];
    });
    setChildren(this.element, shown);
    this.place();
  }

  /** Close the menu; the focus returns to its button if it was in the menu. */
  close() {
    const { opener } = this;
    if (!opener) return;
    const hadFocus = this.element.contains(document.activeElement);
    this.opener = undefined;
    opener.setAttribute("aria-expanded", "false");
    this.element.hidePopover();
    if (hadFocus) opener.focus({ preventScroll: true });
  }

  /** @returns {HTMLElement[]} */
  get items() {
    return [...this.element.querySelectorAll("button")];
  }

  listen(item) {
    item.addEventListener("click", () => {
      const { reason, run } = this.entries[this.items.indexOf(item)];
      if (reason !== undefined || !run) return;
      this.close();
      run();
    });
    return item;
  }

  closeUnless(target) {
    if (!this.opener || this.element.contains(target) || this.opener.contains(target)) return;
    this.close();
  }

  onKey(event) {
    const { key, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey) return;
    event.stopPropagation();
    if (key === "Tab") return this.close();
    const { items } = this;
    const index = items.findIndex((item) => item === document.activeElement);
    const next = { Home: 0, End: items.length - 1 }[key] ?? (index + (STEPS[key] ?? 0) + items.length) % items.length;
    if (key === "Escape") this.close();
    else if (key in STEPS || key === "Home" || key === "End") items[next].focus();
    else if (!this.goToLetter(key, index)) return;
    event.preventDefault();
  }

  /** Focus the next item that begins with a letter; false if there is none. */
  goToLetter(key, index) {
    const { items } = this;
    const others = [...items.slice(index + 1), ...items.slice(0, index + 1)];
    const isWord = key.length === 1 && key !== " ";
    const item = isWord && others.find(({ textContent }) => textContent?.toLowerCase().startsWith(key.toLowerCase()));
    if (item) item.focus();
    return !!item;
  }

  /** Below the button, or above it if there is more space. */
  place() {
    if (!this.opener) return;
    const { top, bottom, right } = this.opener.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const isAbove = bottom + height + MARGIN > innerHeight && top > innerHeight - bottom;
    const left = Math.max(MARGIN, Math.min(right - width, innerWidth - width - MARGIN));
    this.element.style.setProperty("--menu-left", `${Math.round(left)}px`);
    this.element.style.setProperty("--menu-top", `${Math.round(isAbove ? Math.max(MARGIN, top - height - 4) : bottom + 4)}px`);
  }
}

/** @param {MenuEntry} entry */
function menuItem({ label, detail, note, reason }) {
  const line = (name, text) => text && el("span", { class: name }, el("bdi", {}, text));
  return el(
    "button",
    { type: "button", class: "menu-item", role: "menuitem", tabindex: -1, "aria-disabled": reason !== undefined && "true" },
    el("span", { class: "action-label" }, label),
    line("action-detail", detail),
    line("action-reason", reason ?? note),
  );
}
