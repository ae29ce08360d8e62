import { copyButton } from "./clipboard.js";
import { button, el } from "./dom.js";
import { retryWhenBack } from "./server-return.js";

/**
 * A notice shown instead of content.
 *
 * @param {"empty" | "none" | "error"} kind
 * @param {string} title
 * @param {{detail?: string, children?: any[], action?: {label: string, run: () => any} | false}} [options]
 */
export function placeholder(kind, title, { detail, children = [], action } = {}) {
  return el(
    "section",
    { class: "state", "data-state": kind, role: kind === "error" && "alert" },
    el("h2", { class: "state-title" }, title),
    detail && el("p", { class: "state-detail" }, detail),
    ...children,
    action && button({ class: "action" }, action.label, action.run),
  );
}

/** A notice for a Problem (api.js), with a button to retry; it retries by itself when the server is back. */
export function errorPlaceholder(problem, retry) {
  const notice = placeholder("error", problem.title ?? "Something went wrong.", {
    detail: problem.detail ?? (problem.title ? undefined : problem.message),
    action: { label: "Try again", run: retry },
  });
  retryWhenBack(problem, notice, retry);
  return notice;
}

/** A shell command with a copy button. */
export function commandLine(text) {
  return el("div", { class: "command" }, el("code", {}, text), copyButton(text, `Copy: ${text}`));
}

/** Placeholder rows for a list that is loading. */
export function skeleton(rows = 8) {
  const row = () => el("li", { class: "skeleton-row" });
  return el("ul", { class: "skeleton", "aria-hidden": "true" }, ...Array.from({ length: rows }, row));
}
