/** Give thumbnails their image when they are near the screen. */
import { thumbnailsOf } from "../render/tools/thumbnails.js";
import { ITEM } from "./scroll-anchor.js";

const ROOT_MARGIN = "300px 0px";

export class Thumbnails {
  /** Thumbnails that were near the screen. @type {WeakSet<Element>} */
  shown = new WeakSet();

  /** @param {import("../render/chat-renderer.js").ChatRenderer} renderer */
  constructor(renderer) {
    this.renderer = renderer;
    this.observer = new IntersectionObserver((entries) => this.onIntersection(entries), { rootMargin: ROOT_MARGIN });
    // A call is painted when it is opened.
    renderer.container.addEventListener("toggle", ({ target }) => this.observe(/** @type {Element} */ (target)), true);
  }

  /**
   * After each painting, which removes the image of a call that is painted again.
   *
   * @param {Set<Element>} painted the turns that were painted
   */
  update(painted) {
    painted.forEach((turn) => this.observe(turn));
  }

  /** @param {Element} part the part of the log that was painted */
  observe(part) {
    for (const box of part.querySelectorAll(".thumbnail:not([src])")) {
      if (this.shown.has(box)) this.fill(box);
      else this.observer.observe(box);
    }
  }

  onIntersection(entries) {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      this.observer.unobserve(target);
      this.shown.add(target);
      this.fill(target);
    }
  }

  fill(box) {
    const item = this.renderer.itemOf(box.closest(ITEM));
    if (!item) return;
    const index = [...box.parentElement.querySelectorAll(".thumbnail")].indexOf(box);
    const url = thumbnailsOf(item.results.map(({ payload }) => payload.result))[index]?.url();
    if (url) box.src = url;
  }
}
