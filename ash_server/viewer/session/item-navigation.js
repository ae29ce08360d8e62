/** Keyboard navigation from item to item and from prompt to prompt. */
import { ITEM, contentTop, isVisible, itemsInView, scrollToItem } from "./scroll-anchor.js";

export const PROMPT = ".user-message[data-event-id]:not([data-synthetic])";

const MARGIN = 12;

export class ItemNavigation {
  /** The item that last had the focus. @type {Element | null} */
  last = null;

  /** @param {HTMLElement} log */
  constructor(log) {
    this.log = log;
    log.addEventListener("focusin", ({ target }) => (this.last = /** @type {Element} */ (target).closest(ITEM)));
  }

  /** The current item: the focused one, the last focused one if it is in view, or the first in view. */
  get current() {
    const focused = document.activeElement?.closest(`.chat-log ${ITEM}`);
    if (focused) return focused;
    const visible = itemsInView(this.log);
    if (this.last && visible.includes(this.last)) return this.last;
    return visible.find((item) => item.getBoundingClientRect().top >= contentTop()) ?? visible[0];
  }

  /** Go to the next (1) or previous (-1) item of a kind; false if there is none. */
  go(steps, kind = ITEM) {
    const next = this.neighbour(steps, kind);
    if (next) this.show(next);
    return next !== undefined;
  }

  neighbour(steps, kind) {
    const { current } = this;
    const items = [...this.log.querySelectorAll(kind)];
    if (!current) return items.find(isVisible);
    const isAfter = (item) => current.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_FOLLOWING;
    const isBefore = (item) => current.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_PRECEDING;
    if (current !== document.activeElement?.closest(ITEM) && current.matches(kind) && steps > 0) return current;
    return steps > 0
      ? items.find((item) => item !== current && isAfter(item) && isVisible(item))
      : items.findLast((item) => item !== current && isBefore(item) && isVisible(item));
  }

  /** Focus an item and scroll to it if needed. */
  show(item) {
    focusItem(item);
    const { top, bottom } = item.getBoundingClientRect();
    if (top < contentTop() || bottom > innerHeight) scrollToItem(item, MARGIN);
  }
}

/** Focus an item; for a card, its summary line. */
export function focusItem(item) {
  const summary = item.matches("details") ? item.querySelector(":scope > summary") : undefined;
  if (!summary) item.tabIndex = -1;
  (summary ?? item).focus({ preventScroll: true });
}
