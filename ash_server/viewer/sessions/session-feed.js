import { likePage } from "../lib/api.js";
import { checkSignedIn } from "../lib/sign-in.js";

const MIN_RETRY_MS = 2_000;
const MAX_RETRY_MS = 60_000;

/**
 * Subscribe to changes of sessions, by default while the page is visible, since browsers limit the connections to a server.
 *
 * `on.state` is called with "connecting", "live" or "away"; `on.caught_up` when all later changes will be delivered, so
 * that the list can be loaded; `on.session` and `on.deleted` with changes.
 */
export class SessionFeed {
  retryMs = MIN_RETRY_MS;
  /** @type {EventSource | undefined} */
  source;
  /** @type {number | undefined} */
  timer;
  isOver = false;

  /**
   * @param {string} address
   * @param {{state: (name: string) => void, caught_up: () => void, session: (session: any) => void,
   *   deleted: (session: any) => void}} on
   * @param {() => boolean} [staysOpen] true if the subscription continues while the page is hidden
   */
  constructor(address, on, staysOpen = () => false) {
    this.address = address;
    this.on = on;
    this.staysOpen = staysOpen;
    document.addEventListener("visibilitychange", () => (this.isHidden ? this.close() : this.open()));
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", () => this.open());
  }

  get isHidden() {
    return document.hidden && !this.staysOpen();
  }

  open() {
    if (this.source || this.isOver || this.isHidden) return;
    clearTimeout(this.timer);
    this.on.state("connecting");
    this.source = new EventSource(likePage(this.address));
    this.source.addEventListener("error", () => this.onLost());
    this.source.addEventListener("caught_up", () => this.onCaughtUp());
    this.source.addEventListener("session", ({ data }) => this.on.session(JSON.parse(data)));
    this.source.addEventListener("deleted", ({ data }) => this.on.deleted(JSON.parse(data)));
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
  }

  /** Close the subscription for good. */
  end() {
    this.isOver = true;
    this.close();
  }

  onCaughtUp() {
    this.retryMs = MIN_RETRY_MS;
    this.on.state("live");
    this.on.caught_up();
  }

  /** Retry with a growing delay; the browser would retry each second and log each failure. */
  onLost() {
    this.close();
    this.on.state("away");
    checkSignedIn();
    this.timer = setTimeout(() => this.open(), this.retryMs);
    this.retryMs = Math.min(this.retryMs * 2, MAX_RETRY_MS);
  }
}
