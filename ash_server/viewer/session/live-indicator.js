import { el } from "../lib/dom.js";

/** So long after an event something still seems to work. */
const WORKS_FOR = 15_000;

/** A turn that was left open so long ago is not being worked at any more. */
const GIVEN_UP = 10 * 60_000;

/** Whether somebody writes the session now: told to the log, in the bar, and in the title of the window. */
export class Live {
  /** `paint` makes a change of the page; `hasEnd` tells whether the end of the log is on it. */
  constructor(renderer, { paint, hasEnd }) {
    Object.assign(this, { renderer, paint, hasEnd });
    this.mark = el("span", { class: "live-mark", hidden: true }, "live");
    this.isConnected = false;
    this.heard = 0;
    this.lastAt = 0;
    this.title = document.title;
    setInterval(() => this.update(), WORKS_FOR);
  }

  /** Something came just now. */
  hear() {
    this.heard = Date.now();
  }

  /** Whether a turn is worked at. */
  get isOpen() {
    return this.renderer.openTurn !== undefined && this.hasEnd() && this.since < GIVEN_UP;
  }

  /**
   * How long ago something happened last. What was derived from a record that names no time has the time at which that
   * was stored: `lastAt`, which the records name, knows better.
   */
  get since() {
    const { events, last } = this.renderer.log;
    const { timestamp = Date.now(), messageSequence } = events.get(last) ?? {};
    const told = messageSequence === undefined ? timestamp : Math.min(timestamp, this.lastAt);
    return Date.now() - Math.max(this.heard, told);
  }

  connect(isConnected) {
    this.isConnected = isConnected;
    this.update();
  }

  /** What the session is called, and when its records say that it was written last. */
  describe(title, lastAt) {
    this.title = title;
    this.lastAt = Date.parse(lastAt) || 0;
    this.update();
  }

  update() {
    clearTimeout(this.timer);
    const { isOpen } = this;
    if (this.renderer.isLive !== isOpen) this.paint(() => this.renderer.setLive(isOpen));
    const isLive = this.isConnected && isOpen;
    const left = isLive ? this.heard + WORKS_FOR - Date.now() : 0;
    this.renderer.container.toggleAttribute("data-live", left > 0);
    if (left > 0) this.timer = setTimeout(() => this.update(), left);
    this.mark.hidden = !isLive;
    const title = isLive ? `● ${this.title}` : this.title;
    if (document.title !== title) document.title = title;
  }
}
