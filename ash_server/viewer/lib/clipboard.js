import { button, el } from "./dom.js";

const FEEDBACK_MS = 2000;

/**
 * A button that copies a text.
 *
 * @param {string | (() => string)} text a function is called on each click
 * @param {string} label
 */
export function copyButton(text, label) {
  const read = () => (typeof text === "function" ? text() : text);
  const run = async () => showFeedback(copy, await copyText(read()));
  const copy = button({ class: "copy", title: label, "aria-label": label }, "Copy", run);
  return copy;
}

/** Copy a text; true on success. Pages served over plain HTTP by another machine cannot use the clipboard API. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text) {
  const field = el("textarea", { class: "visually-hidden", readonly: true, tabindex: -1, "aria-hidden": "true" });
  const focused = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  return isCopied;
}

function showFeedback(button, isCopied) {
  button.dataset.copied = isCopied;
  button.textContent = isCopied ? "Copied" : "Not copied";
  setTimeout(() => {
    delete button.dataset.copied;
    button.textContent = "Copy";
  }, FEEDBACK_MS);
}
