import { button, el } from "../lib/dom.js";
import { number } from "../lib/number-format.js";

/** So near to what is not loaded it is fetched. */
const NEAR = 1500;

const SIDES = ["older", "newer"];

/** Where what is loaded ends: more comes by itself when somebody gets near, or all of it when they ask. */
export class Edges {
  /** `paint` makes a change of the page; `onEnd` is called when the newest event is loaded. */
  constructor(pages, { paint, onEnd, toEnd }) {
    Object.assign(this, { pages, paint, onEnd });
    this.progress = el("span", { role: "status" });
    this.all = button({ class: "load-all" }, "Load all", () => this.loadAll());
    const more = (label, side) => button({ class: "load-more" }, label, () => this.load(side));
    const edge = (side, ...parts) => el("div", { class: `edge ${side}`, hidden: true }, ...parts);
    this.older = edge("older", more("Show older", "older"), this.all, this.progress);
    this.newer = edge("newer", more("Show newer", "newer"), button({ class: "load-end" }, "To the end", toEnd));
    addEventListener("scroll", () => (this.frame ??= requestAnimationFrame(() => this.fill())), { passive: true });
  }

  /** After each painting. `count` is how many events there are in all, as far as that is known. */
  update(count = this.count) {
    this.count = count;
    this.older.hidden = !this.pages.hasOlder;
    this.newer.hidden = !this.pages.hasNewer;
    if (!this.isLoadingAll) this.all.textContent = count ? `Load all ${number(count)}` : "Load all";
  }

  /** Loads what somebody is near to, as long as they are. */
  fill() {
    this.frame = undefined;
    const side = SIDES.find((side) => this.has(side) && isNear(this[side]));
    if (side && !this.loading) this.load(side).then((isLoaded) => isLoaded && this.fill());
  }

  has(side) {
    return side === "older" ? this.pages.hasOlder : this.pages.hasNewer;
  }

  /** Loads a page, if none is being loaded; gives whether it came. */
  load(side) {
    return this.alone(side, async () => {
      await this.pages[side]((change) => this.paint(change));
      this.progress.textContent = "";
    });
  }

  /** All that is older; a second press stops it, with what has come. */
  async loadAll() {
    this.isLoadingAll = !this.isLoadingAll;
    this.all.textContent = this.isLoadingAll ? "Stop" : "Load all";
    if (!this.isLoadingAll) return;
    await this.loading;
    await this.alone("older", () => this.pages.everything((change) => this.paint(change), (count) => this.tell(count)));
    this.isLoadingAll = false;
    this.progress.textContent = "";
    this.update();
  }

  /** How far loading all has come; gives whether it is still wanted. */
  tell(loaded) {
    this.progress.textContent = `${number(loaded)} of ${number(this.count ?? this.pages.last)}`;
    return this.isLoadingAll;
  }

  alone(side, work) {
    this.loading ??= this.mindful(side, work).finally(() => (this.loading = undefined));
    return this.loading;
  }

  async mindful(side, work) {
    if (!this.has(side)) return false;
    this[side].setAttribute("aria-busy", "true");
    try {
      await work();
      if (side === "newer" && !this.pages.hasNewer) this.onEnd();
      return true;
    } catch (problem) {
      this.progress.textContent = problem.message;
      return false;
    } finally {
      this[side].removeAttribute("aria-busy");
      this.update();
    }
  }
}

function isNear(edge) {
  const { top, bottom } = edge.getBoundingClientRect();
  return bottom > -NEAR && top < innerHeight + NEAR;
}
