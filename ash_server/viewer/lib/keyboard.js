import { button, el } from "./dom.js";

const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

/**
 * Listens to keys: rows of [keys, what they do, acts by `event.key`]. Nothing is done where one types in a field, holds
 * a modifier, or has a dialog open. An act that gives false leaves the key to the browser. Gives what "?" does: open a
 * list of them.
 */
export function listen(rows) {
  const dialog = help(rows);
  const open = () => {
    if (!dialog.isConnected) document.body.append(dialog);
    dialog.showModal();
  };
  const acts = Object.assign({ "?": open }, ...rows.map(([, , acts]) => acts));
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isField(event.target) || document.querySelector("dialog[open]")) return;
    const act = Object.hasOwn(acts, event.key) ? acts[event.key] : undefined;
    if (act && act(event) !== false) event.preventDefault();
  });
  return open;
}

/** Whether keys are text there. */
export function isField(element) {
  return element.matches?.(FIELDS) ?? false;
}

function help(rows) {
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

function helpRow([keys, what]) {
  const caps = keys.flatMap((key, place) => (place ? [" ", el("kbd", {}, key)] : [el("kbd", {}, key)]));
  return el("div", {}, el("dt", {}, ...caps), el("dd", {}, what));
}
