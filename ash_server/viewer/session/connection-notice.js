import { UNREACHABLE } from "../lib/api.js";
import { button, el } from "../lib/dom.js";
import { retryWhenBack } from "../lib/server-return.js";

/** Shorter interruptions are not shown. */
const MIN_OUTAGE_MS = 1500;
const UNREACHABLE_TEXT = "The server cannot be reached. Loaded content can still be read.";

/** A line at the end of the log while the event stream is disconnected, or after a request did not reach the server. */
export class ConnectionNotice {
  /** @type {number | undefined} */
  lostAt;
  /** @type {number | undefined} */
  timer;

  /** @param {() => void} onRetry */
  constructor(onRetry) {
    this.text = el("span", { role: "status" });
    this.countdown = el("span");
    this.retry = button({ class: "retry" }, "Retry now", onRetry);
    this.element = el("p", { class: "connection", hidden: true }, this.text, this.countdown, " ", this.retry);
    for (const name of [UNREACHABLE, "offline"]) addEventListener(name, () => this.unreachable());
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
      this.show("lost", UNREACHABLE_TEXT, left ? ` Next try in ${left} s.` : " Trying again …");
    };
    if (!this.element.hidden) update();
    this.timer = setInterval(() => Date.now() - lostAt >= MIN_OUTAGE_MS && update(), 500);
  }

  /** Until the server answers again, unless the state of the stream is shown. */
  unreachable() {
    if (!this.element.hidden) return;
    this.show("away", UNREACHABLE_TEXT);
    retryWhenBack({ isUnreachable: true }, this.element, () => {
      if (this.element.dataset.state === "away") this.element.hidden = true;
    });
  }

  /** The stream will not be retried. */
  ended(reason) {
    clearInterval(this.timer);
    this.show("gone", reason);
  }

  show(state, text, countdown = "") {
    this.element.dataset.state = state;
    this.element.hidden = false;
    this.retry.hidden = state !== "lost";
    if (this.text.textContent !== text) this.text.textContent = text;
    this.countdown.textContent = countdown;
  }
}
