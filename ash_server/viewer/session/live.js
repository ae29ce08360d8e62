import { el } from "../dom.js";

/** So long after an event something still seems to work. */
const WORKS_FOR = 15_000;

/** A turn that was left open so long ago is not being worked at any more. */
const GIVEN_UP = 10 * 60_000;

/** Whether somebody writes the session now: told by the log, in the bar, and in the title of the window. */
export class Live {
  constructor(renderer) {
    this.renderer = renderer;
    this.mark = el("span", { class: "live-mark", hidden: true }, "live");
    this.isConnected = false;
    this.heard = 0;
    this.title = document.title;
    setInterval(() => this.update(), WORKS_FOR);
  }

  /** Something came just now. */
  hear() {
    this.heard = Date.now();
  }

  /** Whether a turn is worked at. */
  get isOpen() {
    const { log, openTurn } = this.renderer;
    const told = log.events.get(log.last)?.timestamp ?? 0;
    return openTurn !== undefined && Date.now() - Math.max(this.heard, told) < GIVEN_UP;
  }

  connect(isConnected) {
    this.isConnected = isConnected;
    this.update();
  }

  name(title) {
    this.title = title;
    this.update();
  }

  update() {
    clearTimeout(this.timer);
    const isLive = this.isConnected && this.isOpen;
    const left = isLive ? this.heard + WORKS_FOR - Date.now() : 0;
    this.renderer.container.toggleAttribute("data-live", left > 0);
    if (left > 0) this.timer = setTimeout(() => this.update(), left);
    this.mark.hidden = !isLive;
    const title = isLive ? `● ${this.title}` : this.title;
    if (document.title !== title) document.title = title;
  }
}
