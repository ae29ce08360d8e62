import { likePage } from "../lib/api.js";
import { button, el } from "../lib/dom.js";
import { showFindings } from "./findings.js";
import { ownKey } from "./own-key.js";

/**
 * Labels and suffixes of the formats. The API has some, at this place below the address of the session.
 *
 * @type {[label: string, suffix: string, place?: string][]}
 */
const FORMATS = [
  ["Markdown", ".md"],
  ["JSON", ".json"],
  ["JSONL, as it was stored", ".jsonl"],
  ["JSONL, the events", ".events.jsonl", "/export?format=events"],
  ["ATIF, for evaluation tools", ".trajectory.json", "/projections/atif"],
  ["OTLP, for OpenTelemetry", ".otlp.json", "/projections/otlp"],
  ["HTML, one page", ".html"],
];

/**
 * A menu of export formats, with or without secrets of known forms.
 *
 * @param {string} path the address of the page
 * @param {string} api the address of the session in the API
 */
export function exportMenu(path, api) {
  const id = api.split("/").at(-1) ?? "";
  const isRedactedPage = likePage(path) !== path;
  const redacts = el("input", { type: "checkbox", checked: isRedactedPage, disabled: isRedactedPage });
  const links = FORMATS.map(([label]) => el("a", { class: "menu-item" }, label));
  const update = () => {
    FORMATS.forEach(([, suffix, place], index) => {
      const address = likePage(place ? api + place : path + suffix);
      const isAdded = redacts.checked && !isRedactedPage;
      links[index].href = isAdded ? `${address}${address.includes("?") ? "&" : "?"}redact=1` : address;
      links[index].download = `${id}${redacts.checked ? ".redacted" : ""}${suffix}`;
    });
  };
  redacts.addEventListener("change", update);
  update();
  const body = el(
    "div",
    { class: "menu-body" },
    el("label", { class: "menu-item", title: "Replace tokens, keys and passwords of known forms" }, redacts, "Redacted"),
    button({ class: "menu-item" }, "Show the secrets…", () => showFindings({ id })),
    el("hr", { class: "menu-line" }),
    ...links,
  );
  const menu = el("details", { class: "menu forms" }, el("summary", {}, "Export"), body);
  menu.addEventListener("toggle", async () => {
    const key = await ownKey();
    if (!key?.redacts) return;
    redacts.checked = true;
    redacts.disabled = true;
    update();
  });
  return menu;
}
