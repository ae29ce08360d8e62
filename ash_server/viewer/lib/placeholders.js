import { copyButton } from "./clipboard.js";
import { button, el } from "./dom.js";

/** What stands where the contents would: `kind` is empty, none or error. `action` is {label, run}. */
export function state(kind, title, { detail, children = [], action } = {}) {
  return el(
    "section",
    { class: "state", "data-state": kind, role: kind === "error" && "alert" },
    el("h2", { class: "state-title" }, title),
    detail && el("p", { class: "state-detail" }, detail),
    ...children,
    action && button({ class: "action" }, action.label, action.run),
  );
}

/** A Problem (api.js), and the way to try again. */
export function errorState(problem, retry) {
  return state("error", problem.title ?? "Something went wrong.", {
    detail: problem.detail ?? (problem.title ? undefined : problem.message),
    action: { label: "Try again", run: retry },
  });
}

/** A line for a terminal, to copy. */
export function command(text) {
  return el("div", { class: "command" }, el("code", {}, text), copyButton(text, `Copy: ${text}`));
}

/** What will be a list, while it is fetched. */
export function skeleton(rows = 8) {
  const row = () => el("li", { class: "skeleton-row" });
  return el("ul", { class: "skeleton", "aria-hidden": "true" }, ...Array.from({ length: rows }, row));
}
