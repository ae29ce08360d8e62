import { el } from "./dom.js";

const FIELDS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

/**
 * Listens to keys: a table from `event.key` to what it does. Nothing is done where one types in a field,
 * holds a modifier, or has a dialog open. A function that gives false leaves the key to the browser.
 */
export function listenToKeys(table, target = document) {
  target.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isField(event.target) || document.querySelector("dialog[open]")) return;
    const act = Object.hasOwn(table, event.key) ? table[event.key] : undefined;
    if (act && act(event) !== false) event.preventDefault();
  });
}

/** Whether keys are text there. */
export function isField(element) {
  return element.matches?.(FIELDS) ?? false;
}

/** A dialog that lists keys: [["j", "k"], "next, previous"], … Give `open` to a button and to "?". */
export function keysHelp(rows) {
  const dialog = el(
    "dialog",
    { class: "help", "aria-labelledby": "help-title" },
    el("h2", { id: "help-title" }, "Keys"),
    el("dl", { class: "keys" }, ...rows.map(helpRow)),
    el("form", { method: "dialog" }, el("button", {}, "Close")),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  const open = () => {
    if (!dialog.isConnected) document.body.append(dialog);
    dialog.showModal();
  };
  return { dialog, open };
}

export function helpButton(open) {
  const told = { title: "Keys", "aria-label": "Keys" };
  const button = el("button", { class: "help-button icon-button", type: "button", ...told });
  button.addEventListener("click", open);
  return button;
}

function helpRow([keys, what]) {
  const caps = keys.flatMap((key, place) => (place ? [" ", el("kbd", {}, key)] : [el("kbd", {}, key)]));
  return el("div", {}, el("dt", {}, ...caps), el("dd", {}, what));
}
