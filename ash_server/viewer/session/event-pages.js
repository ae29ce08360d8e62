import { getJson, withQuery } from "../lib/api.js";
import { parseJson } from "../lib/json-view.js";

const NEWEST = Number.MAX_SAFE_INTEGER;
const FIRST_PAGE = 500;
const PAGE = 1000;

/** The part of a session's log that is loaded: without a gap, from `first` to `last`. */
export class Pages {
  constructor(address, renderer) {
    this.address = address;
    this.renderer = renderer;
    this.isOpen = false;
    this.clear();
  }

  clear() {
    this.first = undefined;
    this.last = 0;
    this.hasOlder = false;
    this.hasNewer = false;
  }

  /**
   * Shows a page in place of what is shown: {before} or {after} a sequence, around {at} one or around a {message}; the
   * newest, if nothing else is said. Gives whether it did: another one may have been asked for meanwhile.
   */
  async open(query = { before: NEWEST }) {
    const asked = (this.asked = {});
    const page = await this.fetch({ ...query, limit: FIRST_PAGE });
    if (asked !== this.asked) return false;
    this.isOpen = true;
    this.clear();
    this.bound(page.events);
    this.hasOlder = page.prevBefore !== undefined;
    this.hasNewer = page.nextAfter !== undefined;
    this.renderer.replayEvents(page.events);
    return true;
  }

  /** Fetches what is ahead of what is loaded; `put` is called with what puts it there. */
  older(put) {
    return this.extend({ before: this.first }, put, ({ prevBefore }) => (this.hasOlder = prevBefore !== undefined));
  }

  /** The same behind it. */
  newer(put) {
    return this.extend({ after: this.last }, put, ({ nextAfter }) => (this.hasNewer = nextAfter !== undefined));
  }

  /** All that is ahead, put there at once: in pieces, what is there already would be laid out anew with each. */
  async everything(put, goesOn) {
    const { asked } = this;
    const events = [];
    let before = this.first;
    while (before !== undefined && goesOn(this.renderer.log.events.size + events.length)) {
      const page = await this.fetch({ before, limit: PAGE });
      if (asked !== this.asked) return;
      events.push(...page.events);
      before = page.prevBefore;
    }
    this.hasOlder = before !== undefined;
    put(() => this.add(events));
  }

  async extend(query, put, bound) {
    const { asked } = this;
    const page = await this.fetch({ ...query, limit: PAGE });
    if (asked !== this.asked) return;
    bound(page);
    put(() => this.add(page.events));
  }

  /** Shows more events; those of the stream follow what is loaded. */
  add(events) {
    this.bound(events);
    events.forEach((event) => this.renderer.handleNewEvent(event));
    this.renderer.flush();
  }

  bound(events) {
    if (!events.length) return;
    const reset = events.find(({ type }) => type === "reset");
    if (reset) this.hasOlder = false;
    const sequences = events.map(({ sequence }) => sequence);
    this.first = reset?.sequence ?? sequences.reduce((one, other) => Math.min(one, other), this.first ?? NEWEST);
    this.last = sequences.reduce((one, other) => Math.max(one, other), this.last);
  }

  fetch(query) {
    return getJson(withQuery(this.address, { ...query, collapse: true }), { read: parseJson });
  }
}
