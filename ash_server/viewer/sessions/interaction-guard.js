/**
 * Whether an order must not change now: the pointer is over it, the focus is in it, or it is scrolled.
 * `onRelease` is called when that is over.
 */
export class Hold {
  constructor(element, onRelease) {
    this.element = element;
    element.addEventListener("pointerenter", ({ pointerType }) => (this.isPointed = pointerType === "mouse"));
    element.addEventListener("pointerleave", () => {
      this.isPointed = false;
      onRelease();
    });
    element.addEventListener("focusout", () => queueMicrotask(onRelease));
    addEventListener("scroll", () => this.isScrolled || onRelease(), { passive: true });
  }

  get isScrolled() {
    return this.element.getBoundingClientRect().top < 0;
  }

  get isHeld() {
    return this.isPointed || this.element.contains(document.activeElement) || this.isScrolled;
  }
}
