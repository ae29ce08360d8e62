import { button, el } from "./dom.js";

const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

/**
 * One or more keys, their description, and actions by `event.key`. An action that returns false leaves the key to the
 * browser.
 *
 * @typedef {[keys: string[], description: string, actions?: Record<string, (event: KeyboardEvent) => any>]} Shortcut
 */

/**
 * Handle keyboard shortcuts, except in text fields, with modifiers and while a dialog is open. Returns the function
 * that opens the list of shortcuts, as "?" does.
 *
 * @param {Shortcut[]} rows
 */
export function listenForKeys(rows) {
  const dialog = helpDialog(rows);
  const open = () => {
    if (!dialog.isConnected) document.body.append(dialog);
    dialog.showModal();
  };
  const allActions = Object.assign({ "?": open }, ...rows.map(([, , actions]) => actions));
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTextField(event.target) || document.querySelector("dialog[open]")) return;
    const action = Object.hasOwn(allActions, event.key) ? allActions[event.key] : undefined;
    if (action && action(event) !== false) event.preventDefault();
  });
  return open;
}

/** True if keys typed in this element are text. */
export function isTextField(element) {
  return element?.matches?.(FIELDS) ?? false;
}

function helpDialog(rows) {
  const dialog = el(
    "dialog",
    { class: "help", "aria-labelledby": "help-title" },
    el("h2", { id: "help-title" }, "Keys"),
    el("dl", { class: "keys" }, ...rows.map(helpRow)),
    el("form", { method: "dialog" }, el("button", {}, "Close")),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return dialog;
}

export function helpButton(open) {
  return button({ class: "help-button icon-button", title: "Keys", "aria-label": "Keys" }, null, open);
}

function helpRow([keys, description]) {
  const caps = keys.flatMap((key, index) => (index ? [" ", el("kbd", {}, key)] : [el("kbd", {}, key)]));
  return el("div", {}, el("dt", {}, ...caps), el("dd", {}, description));
}
