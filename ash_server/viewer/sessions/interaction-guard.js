/** True while the user interacts with a list, so that it must not be reordered: hovered, focused or scrolled. */
export class InteractionGuard {
  isHovered = false;

  /**
   * @param {HTMLElement} element
   * @param {() => void} onRelease called when an interaction ends
   */
  constructor(element, onRelease) {
    this.element = element;
    element.addEventListener("pointerenter", ({ pointerType }) => (this.isHovered = pointerType === "mouse"));
    element.addEventListener("pointerleave", () => {
      this.isHovered = false;
      onRelease();
    });
    element.addEventListener("focusout", () => queueMicrotask(onRelease));
    addEventListener("scroll", () => this.isScrolled || onRelease(), { passive: true });
  }

  get isScrolled() {
    return this.element.getBoundingClientRect().top < 0;
  }

  get isActive() {
    return this.isHovered || this.element.contains(document.activeElement) || this.isScrolled;
  }
}
