import { el } from "../lib/dom.js";

const TOAST_MS = 4000;

/** Short messages: on the screen for a moment, or for screen readers only. */
export class Announcer {
  /** @type {number | undefined} */
  timer;

  constructor() {
    this.toast = el("p", { class: "toast", role: "status", hidden: true });
    this.hiddenStatus = el("p", { class: "visually-hidden", role: "status" });
  }

  show(text) {
    clearTimeout(this.timer);
    this.toast.textContent = text;
    this.toast.hidden = false;
    this.timer = setTimeout(() => (this.toast.hidden = true), TOAST_MS);
  }

  /** Announce to screen readers only. */
  announce(text) {
    this.hiddenStatus.textContent = text;
  }
}
