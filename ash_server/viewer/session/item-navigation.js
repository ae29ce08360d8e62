/** Moving through the log by keys: from item to item, and from prompt to prompt. */
import { ITEM, bringTo, edge, inView, isShown } from "./scroll-anchor.js";

export const PROMPT = ".user-message[data-event-id]:not([data-synthetic])";

const MARGIN = 12;

export class Walk {
  constructor(log) {
    this.log = log;
    log.addEventListener("focusin", ({ target }) => (this.last = target.closest(ITEM)));
  }

  /** The item that keys are about: the one with the focus, or the one that had it, or else the first in view. */
  get current() {
    const focused = document.activeElement?.closest(`.chat-log ${ITEM}`);
    if (focused) return focused;
    const seen = inView(this.log);
    if (seen.includes(this.last)) return this.last;
    return seen.find((item) => item.getBoundingClientRect().top >= edge()) ?? seen[0];
  }

  /** Goes so many items of this kind on; gives whether there were so many. */
  go(steps, kind = ITEM) {
    const next = this.neighbour(steps, kind);
    if (next) this.show(next);
    return next !== undefined;
  }

  neighbour(steps, kind) {
    const { current } = this;
    const items = [...this.log.querySelectorAll(kind)];
    if (!current) return items.find(isShown);
    const isBehind = (item) => current.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_FOLLOWING;
    const isAhead = (item) => current.compareDocumentPosition(item) & Node.DOCUMENT_POSITION_PRECEDING;
    if (current !== document.activeElement?.closest(ITEM) && current.matches(kind) && steps > 0) return current;
    return steps > 0
      ? items.find((item) => item !== current && isBehind(item) && isShown(item))
      : items.findLast((item) => item !== current && isAhead(item) && isShown(item));
  }

  /** Brings an item into view, if it is not, and gives it the focus. */
  show(item) {
    focus(item);
    const { top, bottom } = item.getBoundingClientRect();
    if (top < edge() || bottom > innerHeight) bringTo(item, MARGIN);
  }
}

/** Of a card the line that opens it takes the focus. */
export function focus(item) {
  const summary = item.matches("details") ? item.querySelector(":scope > summary") : undefined;
  if (!summary) item.tabIndex = -1;
  (summary ?? item).focus({ preventScroll: true });
}
