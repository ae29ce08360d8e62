import { el } from "../lib/dom.js";

/** The page around the log. `bar` stands in it behind the title, `main` in the conversation, `rail` beside it. */
export function frame({ home, mark, bar, main, rail, others }) {
  const name = el("span", { class: "bar-title", "aria-hidden": "true", dir: "auto" });
  const top = el(
    "header",
    { class: "page-bar" },
    home && el("a", { class: "home-link", href: home }, "Sessions"),
    name,
    mark,
    ...bar,
  );
  const conversation = el("main", { class: "conversation", id: "conversation" }, ...main);
  document.body.append(
    el("a", { class: "skip-link", href: "#conversation" }, "To the conversation"),
    top,
    el("div", { class: "page-body" }, conversation, rail),
    ...others,
  );
  requestAnimationFrame(() => watch(top, conversation.querySelector("h1"))); // by then it is laid out anyway
  document.addEventListener("pointerdown", ({ target }) => closeMenus(target));
  return { name: (title) => (name.textContent = title) };
}

/** The bar tells what the page is called once its heading is behind it. */
function watch(bar, heading) {
  const rootMargin = `-${Math.ceil(bar.getBoundingClientRect().bottom)}px 0px 0px 0px`;
  const saw = ([{ isIntersecting }]) => bar.toggleAttribute("data-scrolled", !isIntersecting);
  new IntersectionObserver(saw, { rootMargin }).observe(heading);
}

/** Closes menus, but for one that holds this; gives whether any was open. */
export function closeMenus(but) {
  const open = [...document.querySelectorAll(".menu[open]")].filter((menu) => !menu.contains(but ?? null));
  for (const menu of open) {
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
  return open.length > 0;
}
