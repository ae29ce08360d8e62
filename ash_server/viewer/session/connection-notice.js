import { button, el } from "../lib/dom.js";

/** Shorter interruptions are not shown. */
const MIN_OUTAGE_MS = 1500;

/** A line at the end of the log while the event stream is disconnected. */
export class ConnectionNotice {
  /** @type {number | undefined} */
  lostAt;
  /** @type {number | undefined} */
  timer;

  /** @param {() => void} onRetry */
  constructor(onRetry) {
    this.text = el("span");
    this.retry = button({ class: "retry" }, "Retry now", onRetry);
    this.element = el("p", { class: "connection", hidden: true }, this.text, " ", this.retry);
  }

  connected() {
    clearInterval(this.timer);
    this.lostAt = undefined;
    this.element.hidden = true;
  }

  /** @param {number} retryAt milliseconds since 1970 */
  disconnected(retryAt) {
    clearInterval(this.timer);
    const lostAt = (this.lostAt ??= Date.now());
    const update = () => {
      const left = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
      this.show("lost", left ? `Disconnected, tries again in ${left} s.` : "Disconnected, tries again …");
    };
    if (!this.element.hidden) update();
    this.timer = setInterval(() => Date.now() - lostAt >= MIN_OUTAGE_MS && update(), 500);
  }

  /** The stream will not be retried. */
  ended(reason) {
    clearInterval(this.timer);
    this.show("gone", reason);
  }

  show(state, text) {
    this.element.dataset.state = state;
    this.element.hidden = false;
    this.retry.hidden = state !== "lost";
    if (this.text.textContent !== text) this.text.textContent = text;
  }
}
