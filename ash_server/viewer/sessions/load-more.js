import { isAbandoned } from "../lib/api.js";
import { button } from "../lib/dom.js";

const AHEAD = "800px";

/** A button for the next page, which comes by itself where `isAutomatic` and the button is near. */
export class More {
  constructor(label, load, { isAutomatic = false } = {}) {
    this.label = label;
    this.load = load;
    this.element = button({ class: "more", hidden: true }, label, () => this.run());
    if (isAutomatic) this.sight = new IntersectionObserver((seen) => this.see(seen), { rootMargin: AHEAD });
  }

  /** Is there more? Asked again after each page: the button may still be in sight. */
  show(hasMore, label = this.label) {
    this.label = label;
    this.element.textContent = label;
    this.element.hidden = !hasMore;
    this.sight?.disconnect();
    if (hasMore) this.sight?.observe(this.element);
  }

  see(seen) {
    if (seen.some(({ isIntersecting }) => isIntersecting)) this.run();
  }

  async run() {
    if (this.isBusy) return;
    this.tell(true, this.label);
    try {
      await this.load();
      this.tell(false, this.label);
    } catch (error) {
      this.tell(false, isAbandoned(error) ? this.label : `${error.message} Try again`);
    }
  }

  tell(isBusy, label) {
    this.isBusy = isBusy;
    this.element.setAttribute("aria-disabled", isBusy);
    this.element.textContent = label;
  }
}
