import { likePage } from "./api.js";
import { el } from "./dom.js";
import { helpButton } from "./keyboard.js";
import { themeToggle } from "./theme.js";

/** @type {[name: string, path: string][]} */
const PAGES = [["Sessions", "/"], ["Live", "/live"], ["Usage", "/usage"]];

/**
 * The header of the pages about all sessions, with links to the other ones.
 *
 * @param {"h1" | "p"} tag the element of the name
 * @param {() => void} openHelp
 */
export function pageHeader(tag, openHelp) {
  const others = PAGES.filter(([, path]) => path !== location.pathname);
  const anchors = others.map(([name, path]) => el("a", { href: likePage(path) }, name));
  return el(
    "header",
    { class: "page-header" },
    el(tag, { class: "wordmark" }, el("a", { href: "/" }, "Ash")),
    el("nav", { class: "header-links", "aria-label": "Ash" }, ...anchors, el("a", { href: "/docs" }, "API"), signOutLink()),
    helpButton(openHelp),
    themeToggle(),
  );
}

function signOutLink() {
  return document.body.dataset.client === "browser" && el("a", { href: "/logout" }, "Sign out");
}
