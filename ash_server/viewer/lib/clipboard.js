import { button, el, hiddenValues, iconButton } from "./dom.js";
import { nameHidden } from "./hidden-characters.js";

const FEEDBACK_MS = 2000;

/** Characters that a terminal obeys. */
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f]/;

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

/**
 * A text with a button that copies it. The button reports the outcome with an event, `copied`, with a message.
 *
 * @param {Element} shown
 * @param {"code" | "command" | "output"} kind a command with hidden characters is not copied
 * @param {() => string} [read] returns the text, if the element does not show exactly this
 */
export function copyable(shown, kind, read) {
  const box = el("div", { class: "copyable" }, shown, iconButton("copy", `Copy the ${kind}`, copyShown));
  box.dataset.copies = kind;
  if (read) hiddenValues.set(box, read);
  return box;
}

async function copyShown({ currentTarget }) {
  const box = currentTarget.parentElement;
  const text = hiddenValues.get(box)?.() ?? box.firstElementChild.textContent;
  const message = await outcomeOfCopy(text.replace(/\n$/, ""), box.dataset.copies);
  currentTarget.toggleAttribute("data-copied", message.isCopied);
  setTimeout(() => currentTarget.removeAttribute("data-copied"), FEEDBACK_MS);
  box.dispatchEvent(new CustomEvent("copied", { bubbles: true, detail: message.text }));
}

async function outcomeOfCopy(text, kind) {
  if (kind === "command" && hasHidden(text)) {
    return { isCopied: false, text: "Not copied: the command has hidden characters" };
  }
  const isCopied = await copyText(text);
  return { isCopied, text: copyNotice(isCopied, text, NAMES[kind]) };
}

const NAMES = { code: "Code", command: "Command", output: "Output" };

/** True for a text that may be another one than it seems. */
function hasHidden(text) {
  return CONTROLS.test(text) || nameHidden(text) !== text;
}

/** The message after copying. */
export function copyNotice(isCopied, text, name) {
  if (!isCopied) return "The browser does not allow copying";
  return hasHidden(text) ? `${name} copied, with hidden characters` : `${name} copied`;
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
