/** Expand or collapse all items of a session: each when it is near the screen, so the length makes no difference. */
import { iconButton } from "../lib/dom.js";
import { toggleFold } from "../render/turn-layout.js";
import { ITEM } from "./scroll-anchor.js";

const ROOT_MARGIN = "1000px 0px";
const SLICE_MS = 30;
const TURN = ":scope > .turn";
const PARTS = `details:is(${ITEM}, .subagent, .revoked), .fold`;
const LABELS = { true: "Collapse all", false: "Expand all" };

export class OpenAll {
  /** The last choice of the user. @type {boolean | undefined} */
  isOpen;
  /** The turns near the screen. @type {Set<Element>} */
  near = new Set();
  /** Turns and parts since the last choice. @type {WeakSet<Element>} */
  observed = new WeakSet();
  /** Parts near the screen, to open or close. @type {any[]} */
  waiting = [];
  /** @type {number | undefined} */
  frame;
  /** @type {HTMLElement[]} */
  buttons = [];

  /**
   * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
   * @param {{announce: (text: string) => void, pause: () => void, paint: (change: () => void) => void}} page
   */
  constructor(renderer, { announce, pause, paint }) {
    this.renderer = renderer;
    this.announce = announce;
    this.pause = pause;
    this.paint = paint;
    this.observer = new IntersectionObserver((entries) => this.onIntersection(entries), { rootMargin: ROOT_MARGIN });
  }

  button() {
    const button = iconButton("open-all", LABELS.false, () => this.toggle());
    this.buttons.push(button);
    return button;
  }

  toggle() {
    this.isOpen = !this.isOpen;
    this.observer.disconnect();
    this.observed = new WeakSet();
    this.near.clear();
    this.waiting = [];
    for (const button of this.buttons) {
      button.title = LABELS[String(this.isOpen)];
      button.setAttribute("aria-label", button.title);
      button.toggleAttribute("data-open", this.isOpen);
    }
    this.announce(this.isOpen ? "All expanded" : "All collapsed");
    this.pause();
    this.update();
  }

  /** Observe new turns, and new parts of those near the screen, after each painting. */
  update() {
    if (this.isOpen === undefined) return;
    this.observe(this.renderer.container.querySelectorAll(TURN));
    for (const turn of this.near) {
      if (turn.isConnected) this.observe(turn.querySelectorAll(PARTS));
      else this.near.delete(turn);
    }
  }

  observe(elements) {
    for (const element of elements) {
      if (this.observed.has(element)) continue;
      this.observed.add(element);
      this.observer.observe(element);
    }
  }

  onIntersection(entries) {
    for (const { target, isIntersecting } of entries) {
      if (target.parentNode === this.renderer.container) {
        if (isIntersecting) this.near.add(target);
        else this.near.delete(target);
      } else if (isIntersecting) {
        this.observer.unobserve(target);
        this.waiting.push(target);
      }
    }
    this.update();
    if (this.waiting.length) this.openSlice();
  }

  /** Open or close parts for a moment, and the rest in the next frames. */
  openSlice() {
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    this.frame = undefined;
    const end = performance.now() + SLICE_MS;
    this.paint(() => {
      for (let next; performance.now() < end && (next = this.waiting.shift()); ) this.open(next);
      this.renderer.layOut();
    });
    if (this.waiting.length) this.frame = requestAnimationFrame(() => this.openSlice());
  }

  open(part) {
    const { isOpen } = this;
    const view = this.renderer.byElement.get(part);
    if (view) this.renderer.setOpen(view, isOpen === true);
    else if (!part.matches(".fold")) part.open = isOpen;
    else if (part.getAttribute("aria-expanded") !== String(isOpen)) toggleFold(part, !isOpen);
  }
}
