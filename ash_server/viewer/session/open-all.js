/** Expand or collapse all items of a session, including those that are loaded later. */
import { iconButton } from "../lib/dom.js";
import { toggleFold } from "../render/turn-layout.js";
import { itemsInView } from "./scroll-anchor.js";

const SLICE_MS = 30;
const HOLDERS = "details:is(.subagent, .revoked)";
const LABELS = { true: "Collapse all", false: "Expand all" };

export class OpenAll {
  /** Items to open or close, the visible ones first. @type {any[]} */
  waiting = [];
  /** Folds and holders of items that were opened or closed: the user may change them since. */
  done = new WeakSet();
  /** @type {number | undefined} */
  frame;

  /**
   * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
   * @param {{announce: (text: string) => void, pause: () => void, paint: (change: () => void) => void}} page
   */
  constructor(renderer, { announce, pause, paint }) {
    this.renderer = renderer;
    this.announce = announce;
    this.pause = pause;
    this.paint = paint;
    /** @type {HTMLElement[]} */
    this.buttons = [];
  }

  button() {
    const button = iconButton("open-all", LABELS.false, () => this.toggle());
    this.buttons.push(button);
    return button;
  }

  toggle() {
    const isOpen = !this.renderer.allOpen;
    this.renderer.allOpen = isOpen;
    this.done = new WeakSet();
    const inView = new Set(itemsInView(this.renderer.container));
    const views = this.renderer.inOrder.filter(({ element }) => element instanceof HTMLDetailsElement);
    const isShown = ({ element }) => inView.has(element);
    this.waiting = [...views.filter(isShown), ...views.filter((view) => !isShown(view))];
    for (const button of this.buttons) {
      button.title = LABELS[String(isOpen)];
      button.setAttribute("aria-label", button.title);
      button.toggleAttribute("data-open", isOpen);
    }
    this.announce(isOpen ? "All expanded" : "All collapsed");
    this.pause();
    this.paint(() => {
      this.update();
      this.openSlice();
    });
  }

  /** Open or close items for a moment, and the rest in the next frames. */
  openSlice() {
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    this.frame = undefined;
    const end = performance.now() + SLICE_MS;
    for (let next; performance.now() < end && (next = this.waiting.shift()); ) {
      if (next.element?.isConnected) this.renderer.setOpen(next);
    }
    this.renderer.layOut();
    if (!this.waiting.length) return;
    this.frame = requestAnimationFrame(() => this.paint(() => this.openSlice()));
  }

  /** Open or close new folds and holders of items, after each painting. */
  update() {
    const { allOpen, container } = this.renderer;
    if (allOpen === undefined) return;
    for (const fold of container.querySelectorAll(".fold")) {
      if (!this.isNew(fold)) continue;
      if (fold.getAttribute("aria-expanded") !== String(allOpen)) toggleFold(fold, !allOpen);
    }
    /** @type {NodeListOf<HTMLDetailsElement>} */
    const holders = container.querySelectorAll(HOLDERS);
    for (const holder of holders) if (this.isNew(holder)) holder.open = allOpen;
  }

  isNew(element) {
    const isNew = !this.done.has(element);
    this.done.add(element);
    return isNew;
  }
}
