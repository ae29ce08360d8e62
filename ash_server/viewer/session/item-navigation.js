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

  /**
   * The next (1) or previous (-1) item of a kind.
   *
   * @param {number} steps
   * @param {string} kind
   * @param {(item: Element) => boolean} [accepts]
   * @param {Element | null} [start] the item to start from; by default the current one, which counts unless focused
   */
  neighbour(steps, kind, accepts = isVisible, start = undefined) {
    const current = start ?? this.current;
    const items = [...this.log.querySelectorAll(kind)].filter(accepts);
    if (!current) return items[0];
    const isAfter = (item) => current.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_FOLLOWING;
    const isBefore = (item) => current.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_PRECEDING;
    const isVisited = start || current === document.activeElement?.closest(ITEM);
    if (!isVisited && steps > 0 && items.includes(current)) return current;
    return steps > 0 ? items.find(isAfter) : items.findLast(isBefore);
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
