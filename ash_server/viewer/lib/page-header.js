import { el } from "./dom.js";
import { helpButton } from "./keyboard.js";
import { themeToggle } from "./theme.js";

/**
 * The header of the pages about all sessions.
 *
 * @param {"h1" | "p"} tag the element of the name
 * @param {[name: string, href: string][]} links to other pages
 * @param {() => void} openHelp
 */
export function pageHeader(tag, links, openHelp) {
  const anchors = links.map(([name, href]) => el("a", { href }, name));
  return el(
    "header",
    { class: "page-header" },
    el(tag, { class: "wordmark" }, el("a", { href: "/" }, "Ash")),
    el("nav", { class: "header-links", "aria-label": "Ash" }, ...anchors, signOutLink()),
    helpButton(openHelp),
    themeToggle(),
  );
}

function signOutLink() {
  return document.body.dataset.client === "browser" && el("a", { href: "/logout" }, "Sign out");
}
