import { formatNumber, pluralize } from "../lib/number-format.js";
import { clockText } from "../lib/time-format.js";
import { NEAR_END, distanceToEnd, isVisible, keepScrollPosition, restoreAnchor, scrollToEnd } from "./scroll-anchor.js";

const OPENING_MS = 100;
/** After the user scrolls up, the page does not follow its end again for this time, even if it is near. */
const LEAVING_MS = 300;
const UPWARD_KEYS = new Set(["ArrowUp", "PageUp", "Home"]);

/**
 * Follow the end of the log while the page is scrolled to the end; otherwise keep the scroll position, count new items
 * in a button, and draw a line before the first new item.
 */
export class AutoScroll {
  isFollowing = false;
  /** The last event and the time when the end was left. @type {{seq: number, time: number} | undefined} */
  readMark;
  /** @type {Element | undefined} */
  firstUnread;
  /** When the user last scrolled up. */
  leftAt = -LEAVING_MS;
  /** The scroll position and the height of the page after the last change. */
  top = 0;
  height = 0;
  /** The last vertical position of the finger on the screen. */
  touchedY = 0;

  /**
   * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
   * @param {HTMLElement} pill the button that shows the number of new items
   * @param {() => boolean} hasEnd true if the newest event is loaded
   */
  constructor(renderer, pill, hasEnd) {
    this.renderer = renderer;
    this.pill = pill;
    this.hasEnd = hasEnd;
    this.recordScroll();
    const log = renderer.container;
    addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.listenForInput();
    log.addEventListener("click", ({ target }) => {
      if (/** @type {Element} */ (target).closest("summary, .fold")) this.pause();
    });
    document.addEventListener("visibilitychange", () => document.hidden && this.markAllRead());
    new ResizeObserver(() => this.onResize()).observe(document.documentElement);
  }

  /** Listen for the input itself: a page that grows fast is at its end again before an upward scroll event arrives. */
  listenForInput() {
    const passive = { passive: true };
    addEventListener("wheel", ({ deltaY, ctrlKey }) => deltaY < 0 && !ctrlKey && this.leave(), passive);
    addEventListener("keydown", ({ key }) => UPWARD_KEYS.has(key) && this.leave());
    addEventListener("touchstart", ({ touches }) => (this.touchedY = touches[0].clientY), passive);
    addEventListener("touchmove", ({ touches }) => this.onTouchMove(touches[0].clientY), passive);
  }

  onTouchMove(y) {
    if (y > this.touchedY) this.leave();
    this.touchedY = y;
  }

  /** Stop following because the user scrolls up. */
  leave() {
    if (scrollY === 0) return;
    this.leftAt = performance.now();
    if (!this.isFollowing) return;
    this.release();
    this.update();
  }

  /**
   * Apply a change to the page.
   *
   * @param {() => void} change
   * @param {import("./scroll-anchor.js").Edge} [edge] as in `keepScrollPosition`
   */
  paint(change, edge) {
    if (this.isFollowing) change();
    else keepScrollPosition(this.renderer.container, change, edge);
    this.update();
  }

  follow() {
    this.isFollowing = true;
    scrollToEnd();
    this.update();
  }

  /** Stop following while an item is opened, so that the item does not move. */
  pause() {
    this.release();
    setTimeout(() => this.onScroll(), OPENING_MS);
  }

  /** Stop following. */
  release() {
    if (this.isFollowing || (!this.readMark && this.hasEnd())) this.markAllRead();
    this.isFollowing = false;
  }

  /** Count later events as new, once the newest one is loaded. */
  onEnd() {
    if (!this.isFollowing && !this.readMark) this.markAllRead();
  }

  onResize() {
    if (this.isFollowing) scrollToEnd();
    else restoreAnchor();
    this.recordScroll();
  }

  recordScroll() {
    this.top = scrollY;
    this.height = document.documentElement.scrollHeight;
  }

  /**
   * Only scrolling up on a page of the same height stops following: the end also moves away when the page grows, and
   * the browser scrolls up when the page shrinks.
   */
  onScroll() {
    const isUpwards = scrollY < this.top && document.documentElement.scrollHeight === this.height;
    const wasFollowing = this.isFollowing;
    this.recordScroll();
    const isLeaving = performance.now() - this.leftAt < LEAVING_MS;
    if (!isLeaving && distanceToEnd() <= NEAR_END && this.hasEnd()) this.isFollowing = true;
    else if (isUpwards) this.release();
    if (this.isFollowing !== wasFollowing) this.update();
  }

  /** Count only events after the current last one as new. */
  markAllRead() {
    this.readMark = { seq: this.renderer.log.lastSeq, time: Date.now() };
    this.firstUnread = undefined;
  }

  /** The visible items after the read mark, in order. */
  newItems() {
    const { resetSeq, lastSeq } = this.renderer.log;
    if (this.readMark && this.readMark.seq < resetSeq) this.readMark = undefined; // the session was rebuilt
    const { readMark } = this;
    if (!readMark || lastSeq <= readMark.seq) return [];
    const isNew = ({ item, element }) => item.seq > readMark.seq && isVisible(element);
    return this.renderer.inOrder.filter(isNew);
  }

  update() {
    const items = this.newItems();
    this.markFirstUnread(items[0]?.element);
    const count = this.isFollowing ? 0 : items.length;
    this.pill.hidden = count === 0;
    if (this.pill.hidden) return;
    this.pill.textContent = `↓ ${formatNumber(count)} new`;
    this.pill.setAttribute("aria-label", `To the end: ${pluralize(count, "new item")}`);
  }

  markFirstUnread(element) {
    if (this.firstUnread !== element) this.firstUnread?.removeAttribute("data-unread");
    this.firstUnread = element;
    if (this.readMark) element?.setAttribute("data-unread", `New since ${clockText(this.readMark.time)}`);
  }
}
