import { counted, number } from "../lib/number-format.js";
import { clockText } from "../lib/time-format.js";
import { NEAR, distanceToEnd, holdOn, isShown, keepInView, toEnd } from "./scroll-anchor.js";

const OPENED = 100;

/**
 * Keeps the end in view for who is at the end, and everybody else's place for them: below it a pill counts what is new,
 * and a rule stands ahead of the first of it.
 */
export class Follow {
  /** `hasEnd` tells whether the end of the log is on the page. */
  constructor(renderer, pill, hasEnd) {
    Object.assign(this, { renderer, pill, hasEnd });
    this.sticks = false;
    this.top = scrollY;
    const log = renderer.container;
    addEventListener("scroll", () => this.scrolled(), { passive: true });
    log.addEventListener("click", ({ target }) => target.closest("summary, .fold") && this.pause());
    document.addEventListener("visibilitychange", () => document.hidden && this.remember());
    new ResizeObserver(() => (this.sticks ? toEnd() : holdOn())).observe(log);
  }

  /** Changes the page. */
  paint(change) {
    if (this.sticks) change();
    else keepInView(this.renderer.container, change);
    this.tell();
  }

  stick() {
    this.sticks = true;
    toEnd();
    this.tell();
  }

  /** Somebody opens something: that stays where it is, and then the end is where it is. */
  pause() {
    this.release();
    setTimeout(() => this.scrolled(), OPENED);
  }

  /** From now on the page stays where it is. */
  release() {
    if (this.sticks || (!this.mark && this.hasEnd())) this.remember();
    this.sticks = false;
  }

  /** Only who scrolls up leaves the end: that it moves away from them is no wish of theirs. */
  scrolled() {
    const goesUp = scrollY < this.top;
    const { sticks } = this;
    this.top = scrollY;
    if (distanceToEnd() <= NEAR && this.hasEnd()) this.sticks = true;
    else if (goesUp) this.release();
    if (this.sticks !== sticks) this.tell();
  }

  /** What there is now is known; what comes is new. */
  remember() {
    this.mark = { seq: this.renderer.log.last, time: Date.now() };
    this.unread = undefined;
  }

  /** What is new, in order. */
  news() {
    const { floor, last } = this.renderer.log;
    if (this.mark?.seq < floor) this.mark = undefined; // the log was derived anew
    if (!this.mark || last <= this.mark.seq) return [];
    const isNew = ({ item, element }) => item.seq > this.mark.seq && isShown(element);
    return this.renderer.inOrder.filter(isNew);
  }

  tell() {
    const news = this.news();
    this.rule(news[0]?.element);
    const count = this.sticks ? 0 : news.length;
    this.pill.hidden = count === 0;
    this.pill.textContent = `↓ ${number(count)} new`;
    this.pill.setAttribute("aria-label", `To the end: ${counted(count, "new item")}`);
  }

  rule(element) {
    if (this.unread !== element) this.unread?.removeAttribute("data-unread");
    this.unread = element;
    element?.setAttribute("data-unread", `New since ${clockText(this.mark.time)}`);
  }
}
