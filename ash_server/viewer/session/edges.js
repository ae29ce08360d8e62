import { el } from "../dom.js";
import { number } from "../numbers.js";

/** So near to what is not loaded it is fetched. */
const NEAR = 1500;

/** Where what is loaded ends: more comes by itself when somebody gets near, or all of it when they ask. */
export class Edges {
  /** `paint` makes a change of the page; `onEnd` is called when the newest event is loaded. */
  constructor(pages, { paint, onEnd, toEnd }) {
    Object.assign(this, { pages, paint, onEnd });
    this.progress = el("span", { class: "edge-progress", role: "status" });
    this.all = button("load-all", "Load all", () => this.loadAll());
    const more = (label, side) => button("load-more", label, () => this.load(side));
    const edge = (side, ...parts) => el("div", { class: `edge ${side}`, hidden: true }, ...parts);
    this.older = edge("older", more("Show older", "older"), this.all, this.progress);
    this.newer = edge("newer", more("Show newer", "newer"), button("load-end", "To the end", toEnd));
    const observer = new IntersectionObserver((seen) => this.saw(seen), { rootMargin: `${NEAR}px 0px` });
    [this.older, this.newer].forEach((edge) => observer.observe(edge));
  }

  /** After each painting. `count` is how many events there are in all, as far as that is known. */
  update(count = this.count) {
    this.count = count;
    this.older.hidden = !this.pages.hasOlder;
    this.newer.hidden = !this.pages.hasNewer;
    if (!this.isLoadingAll) this.all.textContent = count ? `Load all ${number(count)}` : "Load all";
  }

  saw(seen) {
    for (const { target, isIntersecting } of seen) {
      if (isIntersecting) this.fill(target === this.older ? "older" : "newer");
    }
  }

  /** As long as what is not loaded is near. */
  async fill(side) {
    while (this.has(side) && isNear(this[side]) && (await this.load(side)));
  }

  has(side) {
    return side === "older" ? this.pages.hasOlder : this.pages.hasNewer;
  }

  /** Loads one page; gives whether that went well. */
  async load(side) {
    if (this.isLoading || !this.has(side)) return false;
    this.isLoading = true;
    this[side].setAttribute("aria-busy", "true");
    try {
      await this.pages[side]((change) => this.paint(change));
      this.progress.textContent = "";
      if (side === "newer" && !this.pages.hasNewer) this.onEnd();
      return true;
    } catch (problem) {
      this.progress.textContent = problem.message;
      return false;
    } finally {
      this.isLoading = false;
      this[side].removeAttribute("aria-busy");
      this.update();
    }
  }

  /** All that is older; a second press stops it. */
  async loadAll() {
    this.isLoadingAll = !this.isLoadingAll;
    this.all.textContent = this.isLoadingAll ? "Stop" : "Load all";
    while (this.isLoadingAll && this.pages.hasOlder && (await this.load("older"))) {
      const loaded = this.pages.renderer.log.events.size;
      this.progress.textContent = `${number(loaded)} of ${number(this.count ?? this.pages.last)}`;
      await new Promise((done) => setTimeout(done));
    }
    this.isLoadingAll = false;
    this.update();
  }
}

function isNear(edge) {
  const { top, bottom } = edge.getBoundingClientRect();
  return bottom > -NEAR && top < innerHeight + NEAR;
}

function button(name, label, run) {
  const element = el("button", { class: name, type: "button" }, label);
  element.addEventListener("click", run);
  return element;
}
