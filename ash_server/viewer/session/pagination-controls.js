import { messageOf } from "../lib/api.js";
import { button, el } from "../lib/dom.js";
import { formatNumber } from "../lib/number-format.js";
import { retryWhenBack } from "../lib/server-return.js";

/** A page is loaded automatically when its edge is this near to the screen, in pixels. */
const PRELOAD_DISTANCE = 1500;

/** A short first page is extended to this number of events, for the list of prompts and the search of the browser. */
const MIN_EVENTS = 500;
/** Time for the first page to be painted. */
const EXTEND_DELAY_MS = 300;

const SIDES = /** @type {const} */ (["older", "newer"]);

/** Older events may extend the first loaded item at its top, newer ones the last item at its end. */
const STEADY_EDGES = /** @type {const} */ ({ older: "bottom", newer: "top" });

/** @typedef {"older" | "newer"} Side */
/** @typedef {(change: () => void, edge?: import("./scroll-anchor.js").Edge) => void} Paint */

/** Buttons at both ends of the loaded events. Pages load automatically near the screen, or all at once on request. */
export class PaginationControls {
  isLoadingAll = false;
  /** The number of events of the session. @type {number | undefined} */
  count;
  /** @type {Promise<boolean> | undefined} */
  loading;
  /** @type {number | undefined} */
  frame;
  /** @type {number | undefined} */
  timer;

  /**
   * @param {import("./event-pages.js").EventPages} pages
   * @param {{paint: Paint, onEnd: () => void, toEnd: () => void}} options `paint` applies a change to the page; `onEnd`
   *   is called when the newest event is loaded
   */
  constructor(pages, { paint, onEnd, toEnd }) {
    this.pages = pages;
    this.paint = paint;
    this.onEnd = onEnd;
    const perSide = (make) => ({ older: make("older"), newer: make("newer") });
    this.progress = perSide(() => el("span", { role: "status" }));
    this.all = perSide((side) => button({ class: "load-all" }, "Load all", () => this.loadAll(side)));
    const edge = (side, ...more) => {
      const next = button({ class: "load-more" }, `Show ${side}`, () => this.load(side));
      const parts = [next, this.all[side], ...more, this.progress[side]];
      return el("div", { class: `edge ${side}`, hidden: true }, ...parts);
    };
    this.older = edge("older");
    this.newer = edge("newer", button({ class: "load-end" }, "To the end", toEnd));
    addEventListener("scroll", () => (this.frame ??= requestAnimationFrame(() => this.fill())), { passive: true });
  }

  /** Update the buttons, after each painting. `count` is the number of events of the session, if known. */
  update(count = this.count) {
    this.count = count;
    this.older.hidden = !this.pages.hasOlder;
    this.newer.hidden = !this.pages.hasNewer;
    if (this.isLoadingAll) return;
    for (const side of SIDES) this.all[side].textContent = count ? `Load all ${formatNumber(count)}` : "Load all";
  }

  /** Load more than the first page, after it was opened. */
  onOpen() {
    requestAnimationFrame(() => this.fill());
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.extendFirstPage(), EXTEND_DELAY_MS);
  }

  async extendFirstPage() {
    await this.loading; // it may be next to a page that was replaced
    const missing = MIN_EVENTS - this.pages.count;
    const side = SIDES.find((side) => this.has(side));
    if (missing > 0 && side) this.load(side, missing);
  }

  /** Load pages while an edge is near the screen. */
  fill() {
    this.frame = undefined;
    const side = SIDES.find((side) => this.has(side) && isNearScreen(this[side]));
    if (side && !this.loading) this.load(side).then((isLoaded) => isLoaded && this.fill());
  }

  has(side) {
    return side === "older" ? this.pages.hasOlder : this.pages.hasNewer;
  }

  /**
   * Load a page, unless one is loading; true on success.
   *
   * @param {Side} side
   * @param {number} [limit] the number of events
   */
  load(side, limit) {
    return this.exclusively(side, async () => {
      await this.pages.extend(side, (change) => this.paint(change, STEADY_EDGES[side]), limit);
      this.progress[side].textContent = "";
    });
  }

  /**
   * Load all events of a side. A second press stops it and keeps those already loaded.
   *
   * @param {Side} side
   */
  async loadAll(side) {
    this.isLoadingAll = !this.isLoadingAll;
    this.all[side].textContent = this.isLoadingAll ? "Stop" : "Load all";
    if (!this.isLoadingAll) return;
    await this.loading;
    const onProgress = (loaded) => this.showProgress(side, loaded);
    const apply = (change) => this.paint(change, STEADY_EDGES[side]);
    await this.exclusively(side, () => this.pages.all(side, apply, onProgress));
    this.isLoadingAll = false;
    this.progress[side].textContent = "";
    this.update();
  }

  /** Show the number of loaded events; false if loading was stopped. */
  showProgress(side, loaded) {
    this.progress[side].textContent = `${formatNumber(loaded)} of ${formatNumber(this.count ?? this.pages.last)}`;
    return this.isLoadingAll;
  }

  /**
   * Run a load, or join the one that is running.
   *
   * @param {Side} side
   * @param {() => Promise<void>} work
   */
  exclusively(side, work) {
    this.loading ??= this.run(side, work).finally(() => (this.loading = undefined));
    return this.loading;
  }

  async run(side, work) {
    if (!this.has(side)) return false;
    this[side].setAttribute("aria-busy", "true");
    try {
      await work();
      if (side === "newer" && !this.pages.hasNewer) this.onEnd();
      return true;
    } catch (problem) {
      this.progress[side].textContent = messageOf(problem);
      retryWhenBack(problem, this.progress[side], () => this.load(side));
      return false;
    } finally {
      this[side].removeAttribute("aria-busy");
      this.update();
    }
  }
}

function isNearScreen(edge) {
  const { top, bottom } = edge.getBoundingClientRect();
  return bottom > -PRELOAD_DISTANCE && top < innerHeight + PRELOAD_DISTANCE;
}
