import { isAborted, messageOf } from "../lib/api.js";
import { button } from "../lib/dom.js";
import { retryWhenBack } from "../lib/server-return.js";

const PRELOAD_MARGIN = "800px";

/** A button that loads the next page. */
export class LoadMore {
  isBusy = false;
  /** @type {IntersectionObserver | undefined} */
  observer;

  /**
   * @param {string} label
   * @param {() => Promise<any>} load
   * @param {{isAutomatic?: boolean}} [options] `isAutomatic` also loads when the button is near the screen
   */
  constructor(label, load, { isAutomatic = false } = {}) {
    this.label = label;
    this.load = load;
    this.element = button({ class: "more", hidden: true }, label, () => this.run());
    if (!isAutomatic) return;
    const runIfNear = (entries) => entries.some(({ isIntersecting }) => isIntersecting) && this.run();
    this.observer = new IntersectionObserver(runIfNear, { rootMargin: PRELOAD_MARGIN });
  }

  /** Show or hide the button, after each page. Observing it again detects that it is still near the screen. */
  show(hasMore, label = this.label) {
    this.label = label;
    this.element.textContent = label;
    this.element.hidden = !hasMore;
    this.observer?.disconnect();
    if (hasMore) this.observer?.observe(this.element);
  }

  async run() {
    if (this.isBusy) return;
    this.setState(true, this.label);
    try {
      await this.load();
      this.setState(false, this.label);
    } catch (error) {
      this.setState(false, isAborted(error) ? this.label : `${messageOf(error)} Try again`);
      retryWhenBack(error, this.element, () => this.run());
    }
  }

  setState(isBusy, label) {
    this.isBusy = isBusy;
    this.element.setAttribute("aria-disabled", String(isBusy));
    this.element.textContent = label;
  }
}
