import { el } from "../lib/dom.js";

/**
 * Build the page around the log.
 *
 * @param {{home?: string, marks?: Element[], bar: any[], main: any[], rail: Element, others: any[]}} parts `marks` and
 *   `bar` follow the title in the top bar, `main` is the conversation, `rail` is next to it
 */
export function pageFrame({ home, marks = [], bar, main, rail, others }) {
  const title = el("span", { class: "bar-title", "aria-hidden": "true", dir: "auto" });
  const top = el(
    "header",
    { class: "page-bar" },
    home && el("a", { class: "home-link", href: home }, "Sessions"),
    title,
    ...marks,
    ...bar,
  );
  const conversation = el("main", { class: "conversation", id: "conversation" }, ...main);
  document.body.append(
    el("a", { class: "skip-link", href: "#conversation" }, "To the conversation"),
    top,
    el("div", { class: "page-body" }, conversation, rail),
    ...others,
  );
  requestAnimationFrame(() => watchHeading(top, conversation.querySelector("h1"))); // avoids a forced layout
  document.addEventListener("pointerdown", ({ target }) => closeMenus(/** @type {Node} */ (target)));
  return { setTitle: (text) => (title.textContent = text) };
}

/** Show the title in the bar when the heading is scrolled behind it. */
function watchHeading(bar, heading) {
  const rootMargin = `-${Math.ceil(bar.getBoundingClientRect().bottom)}px 0px 0px 0px`;
  const onIntersection = (entries) => bar.toggleAttribute("data-scrolled", !entries[0].isIntersecting);
  new IntersectionObserver(onIntersection, { rootMargin }).observe(heading);
}

/**
 * Close open menus; true if any was open.
 *
 * @param {Node} [except] a menu that contains this node stays open
 */
export function closeMenus(except) {
  /** @type {NodeListOf<HTMLDetailsElement>} */
  const menus = document.querySelectorAll(".menu[open]");
  const closing = [...menus].filter((menu) => !menu.contains(except ?? null));
  for (const menu of closing) {
    if (menu.contains(document.activeElement)) menu.querySelector("summary")?.focus();
    menu.open = false;
  }
  return closing.length > 0;
}
