import { el } from "../lib/dom.js";

const SHOWN_FOR = 4000;

/** Short messages: on the screen for a moment, and for those who listen alone. */
export class Voice {
  constructor() {
    this.toast = el("p", { class: "toast", role: "status", hidden: true });
    this.whisper = el("p", { class: "visually-hidden", role: "status" });
  }

  say(text) {
    clearTimeout(this.timer);
    this.toast.textContent = text;
    this.toast.hidden = false;
    this.timer = setTimeout(() => (this.toast.hidden = true), SHOWN_FOR);
  }

  /** Heard, and not seen. */
  tell(text) {
    this.whisper.textContent = text;
  }
}
