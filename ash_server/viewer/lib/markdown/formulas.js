/** Formulas: MathML, or their source if they cannot be drawn, and until the library that reads TeX is loaded. */

import { el } from "../dom.js";
import { markHidden } from "../hidden-characters.js";

/** @typedef {typeof import("./mathml.js").drawFormula} Draw */

const SLICE_MS = 15;
const MAX_KNOWN = 500;
/** Placeholders for the marks of citations (render/citations.js). */
const MARKED = /[\u2e00-\u2e7f]/;
const LABELLED = { tabindex: "0", role: "group", "aria-label": "Formula" };

/** @type {(() => Promise<Draw>) | undefined} */
let load;
/** @type {Draw | undefined} */
let draw;
/** Elements that show their source. @type {HTMLElement[]} */
let waiting = [];
let isDrawing = false;
/** Drawn formulas by tag and source, so that a text that grows is not drawn again. @type {Map<string, ReturnType<Draw>>} */
const known = new Map();

/** Load the library with the first formula. @param {() => Promise<Draw>} loader */
export function loadFormulasWith(loader) {
  load = loader;
}

/** @param {Draw} drawing */
export function drawFormulasWith(drawing) {
  draw = drawing;
}

/**
 * An element that shows the source, and the formula as soon as there is time to draw it.
 *
 * @param {"span" | "div"} tag
 * @param {string} source with its delimiters
 */
export function formula(tag, source) {
  const element = el(tag, { class: "math", dir: "ltr" }, ...markHidden(source));
  if (known.has(tag + source)) show(element);
  else if (draw ?? load) {
    waiting.push(element);
    if (!isDrawing) drawWaiting();
  }
  return element;
}

/** Draw a slice of the waiting formulas at a time, so that no text blocks the page. */
async function drawWaiting() {
  isDrawing = true;
  draw = await (draw ?? load?.().catch(() => undefined));
  document.addEventListener("copy", copySources);
  if (!draw) [load, waiting] = [undefined, []]; // the page of an older version, or offline
  while (waiting.length) {
    const end = performance.now() + SLICE_MS;
    for (let next; performance.now() < end && (next = waiting.shift()); ) show(next);
    if (waiting.length) await new Promise((done) => setTimeout(done));
  }
  isDrawing = false;
}

/** Replace the source, unless it was changed: it has marks of hidden characters or of citations. */
function show(element) {
  const source = element.textContent;
  if (element.className !== "math" || element.firstElementChild || MARKED.test(source)) return;
  const drawn = drawnOf(element.localName, source);
  if (!drawn) return;
  for (const name in drawn.isWide ? LABELLED : {}) element.setAttribute(name, LABELLED[name]);
  element.classList.add("math-drawn", ...(drawn.isWide ? ["math-wide"] : []));
  const copied = el("span", { class: "math-source", "aria-hidden": "true" }, source);
  element.replaceChildren(copied, drawn.element.cloneNode(true));
}

/** Copy the sources of selected formulas, instead of their characters on lines of their own. */
function copySources(event) {
  const selection = getSelection();
  const isSelected = (element) => selection?.containsNode(element, true);
  if (![...document.querySelectorAll(".math-drawn")].some(isSelected)) return;
  document.documentElement.toggleAttribute("data-copies-formulas", true);
  event.clipboardData.setData("text/plain", String(selection));
  document.documentElement.toggleAttribute("data-copies-formulas", false);
  event.preventDefault();
}

function drawnOf(tag, source) {
  const key = tag + source;
  if (!known.has(key)) {
    const length = /^\$[^$]/.test(source) ? 1 : 2; // of the delimiters
    known.set(key, draw?.(source.slice(length, -length), tag === "div"));
    if (known.size > MAX_KNOWN) known.delete([...known.keys()][0]);
  }
  return known.get(key);
}
