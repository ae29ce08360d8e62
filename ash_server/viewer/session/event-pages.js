import { getJson, withQuery } from "../lib/api.js";
import { parseJson } from "../lib/json-view.js";
import { BatchSize, inSlices, nextTask } from "../lib/time-slices.js";

const NEWEST = Number.MAX_SAFE_INTEGER;
/** Few, so that they are shown soon: as in `ash_server/api/pages/viewer_pages.py`, which preloads them. */
const FIRST_PAGE = 150;
const PAGE = 1000;
/** Elements are built in steps of few milliseconds. */
const EVENTS_PER_STEP = 20;
const TURNS_PER_STEP = 5;
/** The number of events that are added to the page at once, and the time for their layout. Each batch costs frames. */
const BATCH = { first: PAGE, min: 500, max: 10 * PAGE, goalMs: 100 };

/** Names for each side: the parameter of a query, its next value in a page, and properties of EventPages. */
const SIDES = {
  older: { parameter: "before", next: "prevBefore", bound: "first", hasMore: "hasOlder" },
  newer: { parameter: "after", next: "nextAfter", bound: "last", hasMore: "hasNewer" },
};

/** The loaded part of a session's log: without gaps, from `first` to `last`. */
export class EventPages {
  isOpen = false;
  /** @type {number | undefined} */
  first;
  last = 0;
  hasOlder = false;
  hasNewer = false;
  /** Changes when a page is requested and when it is shown: pages next to a replaced one are discarded. */
  generation = 0;

  /**
   * @param {string} address
   * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
   */
  constructor(address, renderer) {
    this.address = address;
    this.renderer = renderer;
  }

  /** The number of loaded events. */
  get count() {
    return this.renderer.log.events.size;
  }

  clear() {
    this.first = undefined;
    this.last = 0;
    this.hasOlder = false;
    this.hasNewer = false;
  }

  /**
   * Replace the loaded events by a page; false if another page was requested in the meantime.
   *
   * @param {{before?: number, after?: number, at?: number, message?: number}} [query] events before or after a
   *   sequence, around a sequence or around a message; the newest by default
   */
  async open(query = { before: NEWEST }) {
    const generation = ++this.generation;
    const page = await this.fetch({ ...query, limit: FIRST_PAGE });
    if (generation !== this.generation) return false;
    this.generation++;
    this.isOpen = true;
    this.clear();
    this.extendBounds(page.events);
    this.hasOlder = page.prevBefore !== undefined;
    this.hasNewer = page.nextAfter !== undefined;
    this.renderer.replayEvents(page.events);
    return true;
  }

  /**
   * Load the page before or after the loaded events. `apply` is called with the change.
   *
   * @param {"older" | "newer"} side
   */
  async extend(side, apply, limit = PAGE) {
    const { generation } = this;
    const { parameter, next, bound, hasMore } = SIDES[side];
    const page = await this.fetch({ [parameter]: this[bound], limit });
    if (generation !== this.generation) return;
    this[hasMore] = page[next] !== undefined;
    apply(() => this.add(page.events));
  }

  /**
   * Load all older or newer events, and show them in batches, which may contain several pages: each repeats a part of the
   * layout, and many events at once block the page. Elements are built while the next page is fetched. `onProgress` gets
   * the number of loaded events, and returns false to stop.
   *
   * @param {"older" | "newer"} side
   */
  async all(side, apply, onProgress) {
    const { generation } = this;
    const { parameter, next, bound, hasMore } = SIDES[side];
    const request = (cursor) => {
      const isWanted = this[hasMore] && onProgress(this.count);
      return isWanted ? this.fetch({ [parameter]: cursor, limit: PAGE }) : undefined;
    };
    const size = new BatchSize(BATCH);
    let built = 0;
    try {
      for (let pending = request(this[bound]); pending; ) {
        const page = await pending;
        if (generation !== this.generation) return;
        this[hasMore] = page[next] !== undefined;
        this.extendBounds(page.events);
        pending = request(page[next]);
        for (const events of batches(page.events, side, size)) {
          if (!(await this.prepare(events, generation))) return;
          built += events.length;
          if (built < size.value) continue;
          built = 0;
          size.measure(() => apply(() => this.renderer.flush()));
          await nextTask();
        }
      }
    } finally {
      apply(() => this.renderer.flush());
    }
  }

  /** Build elements in slices, so that no frame takes long; false if another page was requested in the meantime. */
  async prepare(events, generation) {
    let start = 0;
    const prepareEvents = () => {
      if (start >= events.length) return false;
      this.renderer.prepare(events.slice(start, (start += EVENTS_PER_STEP)));
      return true;
    };
    const isCurrent = () => generation === this.generation;
    await inSlices(() => isCurrent() && (prepareEvents() || this.renderer.prepareTurns(TURNS_PER_STEP)));
    return isCurrent();
  }

  /** Show more events: of a page, or of the stream. */
  add(events) {
    this.extendBounds(events);
    events.forEach((event) => this.renderer.handleNewEvent(event));
    this.renderer.flush();
  }

  extendBounds(events) {
    if (!events.length) return;
    const reset = events.find(({ type }) => type === "reset");
    if (reset) this.hasOlder = false;
    const sequences = events.map(({ sequence }) => sequence);
    this.first = reset?.sequence ?? sequences.reduce((one, other) => Math.min(one, other), this.first ?? NEWEST);
    this.last = sequences.reduce((one, other) => Math.max(one, other), this.last);
  }

  /** Fetch a page. A page without events is replaced by the next one with events, in its direction. */
  async fetch({ limit, ...query }) {
    let page = await this.get({ ...query, limit });
    while (!page.events.length) {
      const { nextAfter: after, prevBefore: before } = page;
      if (after !== undefined) page = { prevBefore: before, ...(await this.get({ after, limit })) };
      else if (before !== undefined) page = await this.get({ before, limit });
      else break;
    }
    return page;
  }

  get(query) {
    return getJson(withQuery(this.address, { ...query, collapse: true }), { read: parseJson });
  }
}

/** Parts of a page, from the loaded events on. The size may change between them. */
function* batches(events, side, size) {
  for (let rest = events; rest.length; ) {
    const count = Math.min(size.value, rest.length);
    const isNewer = side === "newer";
    yield isNewer ? rest.slice(0, count) : rest.slice(-count);
    rest = isNewer ? rest.slice(count) : rest.slice(0, -count);
  }
}
