const FIRST_RETRY = 2_000;
const LAST_RETRY = 60_000;

/**
 * What happens to sessions, as long as somebody looks: browsers open few connections to one server, and a
 * window in the background needs none. `on.state` is told "connecting", "live" or "away"; `on.caught_up` that
 * from now on all is told, which is when to read the list; `on.session` and `on.deleted` what came.
 */
export class LiveSessions {
  constructor(address, on) {
    this.address = address;
    this.on = on;
    this.retry = FIRST_RETRY;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", () => this.open());
  }

  open() {
    if (this.source || document.hidden) return;
    clearTimeout(this.timer);
    this.on.state("connecting");
    this.source = new EventSource(this.address);
    this.source.addEventListener("error", () => this.isLost());
    this.source.addEventListener("caught_up", () => this.isCaughtUp());
    for (const name of ["session", "deleted"]) {
      this.source.addEventListener(name, ({ data }) => this.on[name](JSON.parse(data)));
    }
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
  }

  isCaughtUp() {
    this.retry = FIRST_RETRY;
    this.on.state("live");
    this.on.caught_up();
  }

  /** The browser would try again each second, and complain each time. */
  isLost() {
    this.close();
    this.on.state("away");
    this.timer = setTimeout(() => this.open(), this.retry);
    this.retry = Math.min(this.retry * 2, LAST_RETRY);
  }
}
