import { button, el } from "../lib/dom.js";

const LATE = 1500;

/** A quiet line at the end of the log, while the server does not tell what is new. */
export class Connection {
  constructor(onRetry) {
    this.text = el("span");
    this.retry = button({ class: "retry" }, "Retry now", onRetry);
    this.element = el("p", { class: "connection", hidden: true }, this.text, " ", this.retry);
  }

  good() {
    this.stop();
    this.element.hidden = true;
  }

  /** Until it tries again, at this time. Who is back at once was hardly away. */
  lost(until) {
    this.stop();
    this.since ??= Date.now();
    const tell = () => {
      const left = Math.max(0, Math.ceil((until - Date.now()) / 1000));
      this.show("lost", left ? `Disconnected, tries again in ${left} s.` : "Disconnected, tries again …");
    };
    if (!this.element.hidden) tell();
    this.timer = setInterval(() => Date.now() - this.since >= LATE && tell(), 500);
  }

  /** For good. */
  ended(told) {
    this.stop();
    this.show("gone", told);
  }

  show(state, told) {
    this.element.dataset.state = state;
    this.element.hidden = false;
    this.retry.hidden = state !== "lost";
    if (this.text.textContent !== told) this.text.textContent = told;
  }

  stop() {
    clearInterval(this.timer);
  }
}
