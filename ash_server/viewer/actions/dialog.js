import { button, el } from "../lib/dom.js";

/**
 * Open a dialog, which is removed when it is closed. The focus returns to where it was.
 *
 * @param {string} title
 * @param {...any} children
 */
export function openDialog(title, ...children) {
  const heading = el("h2", { id: "action-title", tabindex: -1 }, title);
  const dialog = el("dialog", { class: "action-dialog", "aria-labelledby": "action-title" }, heading, ...children);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A button that closes its dialog. */
export function closeButton(label = "Close") {
  return button({}, label, ({ currentTarget }) => {
    /** @type {HTMLElement} */ (currentTarget).closest("dialog")?.close();
  });
}

/** A place for the message of a failure in a dialog. */
export function alertLine() {
  return el("p", { class: "action-error", role: "alert" });
}

export function note(text) {
  return el("p", { class: "action-note" }, text);
}

/**
 * A dialog with one text to save. `save` returns the message of a failure; the dialog then stays, with the text.
 *
 * @param {string} title
 * @param {HTMLInputElement | HTMLTextAreaElement} field
 * @param {string} hint
 * @param {(text: string) => Promise<string | undefined>} save
 */
export function editText(title, field, hint, save) {
  const alert = alertLine();
  const submit = el("button", { type: "submit", class: "primary" }, "Save");
  const isRedacted = field.value.includes("[redacted: ");
  const warning = isRedacted && note("Parts of the stored text are hidden. Saving replaces them by what is shown.");
  const buttons = el("div", { class: "action-buttons" }, closeButton("Cancel"), submit);
  const label = el("label", {}, el("span", {}, hint), field);
  const form = el("form", {}, label, warning, alert, buttons);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    const failure = await save(field.value);
    submit.disabled = false;
    alert.textContent = failure ?? "";
    if (failure === undefined) dialog.close();
  });
  const dialog = openDialog(title, form);
  field.focus();
  return dialog;
}
