import { button, el } from "./dom.js";

const TOLD_FOR = 2000;

/** A button that copies a text, or the text that a function gives at that time. */
export function copyButton(text, label) {
  const told = () => (typeof text === "function" ? text() : text);
  const run = async () => tell(copy, await copyText(told()));
  const copy = button({ class: "copy", title: label, "aria-label": label }, "Copy", run);
  return copy;
}

/** Whether it was copied: a page that came over plain HTTP from another machine may not use the clipboard. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

function copySelected(text) {
  const unseen = { class: "visually-hidden", readonly: true, tabindex: -1, "aria-hidden": "true" };
  const field = el("textarea", unseen);
  const focused = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return isCopied;
}

function tell(button, isCopied) {
  button.dataset.copied = isCopied;
  button.textContent = isCopied ? "Copied" : "Not copied";
  setTimeout(() => {
    delete button.dataset.copied;
    button.textContent = "Copy";
  }, TOLD_FOR);
}
