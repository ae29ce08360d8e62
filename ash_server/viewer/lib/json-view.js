import { visible } from "./ansi.js";
import { button, el } from "./dom.js";
import { counted, number } from "./number-format.js";

const LARGEST = 2_000_000; // characters, about; what is larger is not made a tree
const PREVIEW = 4_000;
const MOST_ENTRIES = 200; // of one level, shown at once
const LONGEST_STRING = 4_000; // shown at once
const FEW = 40; // entries of a tree that is open from the start
const GIST = 6; // keys that stand for an object
const LONGEST_PARSED = 200_000;

// Few texts have numbers that need the slow way of reading.
const MAYBE_INEXACT = /\d{16}|(?:^|[[:,])\s*-?[\d.]+[eE]\+?\d{3}/;
const BRACKETS = new Set(["{}", "[]"]);
const INTEGER = /^-?\d+$/;

/** A number that would not be the same as a number of JavaScript. It is written, and counts, as it stands. */
export class ExactNumber {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }

  valueOf() {
    return Number(this.text);
  }

  toJSON() {
    return JSON.rawJSON(this.text);
  }
}

/** JSON.parse, but whole numbers beyond 2^53 and numbers beyond 10^308 stay exact: as ExactNumber. */
export function parseJson(text) {
  return MAYBE_INEXACT.test(text) ? JSON.parse(text, exact) : JSON.parse(text);
}

/**
 * A tree of native `<details>`, each level filled when it is opened; a small one is open. What is very large
 * is shown by its beginning, and can be saved.
 */
export function jsonView(value) {
  const { size, entries } = measured(value);
  const opened = { isOpen: true, isAllOpen: entries <= FEW };
  const nodes = size > LARGEST ? beginning(value) : [entry(undefined, value, opened)];
  return el("div", { class: "json", dir: "ltr" }, ...nodes);
}

function exact(_, value, context) {
  if (typeof value !== "number" || !context) return value; // without the context there is no way to tell
  const isSame = INTEGER.test(context.source) ? Number.isSafeInteger(value) : Number.isFinite(value);
  return isSame ? value : new ExactNumber(context.source);
}

/** Goes no deeper into the stack for what is nested deeper, and no further than what is large. */
function measured(value) {
  let [size, entries] = [0, 0];
  const left = [value];
  while (left.length && size <= LARGEST) {
    const next = left.pop();
    entries += 1;
    size += typeof next === "string" ? next.length : 4;
    if (!isNode(next)) continue;
    for (const [key, inner] of Object.entries(next)) {
      size += key.length;
      left.push(inner);
    }
  }
  return { size, entries };
}

function isNode(value) {
  return typeof value === "object" && value !== null && !(value instanceof ExactNumber);
}

function entry(key, value, { isOpen = false, isAllOpen = false } = {}) {
  const name = key === undefined ? [] : [el("span", { class: "json-key", dir: "auto" }, visible(key)), ": "];
  const inner = isNode(value) ? Object.entries(value) : [];
  if (!inner.length) return el("div", { class: "json-leaf" }, ...name, ...leaf(value));
  const summary = el("summary", {}, ...name, el("span", { class: "json-gist" }, gist(value, inner)));
  const fill = () => level(inner, (each) => entry(...each, { isOpen: isAllOpen, isAllOpen }));
  return folded("json-node", summary, isOpen, fill);
}

function gist(value, inner) {
  if (Array.isArray(value)) return counted(inner.length, "item");
  const keys = inner.slice(0, GIST).map(([key]) => visible(key.slice(0, 40)));
  return `{${keys.join(", ")}${inner.length > GIST ? ", …" : ""}}`;
}

function folded(name, summary, isOpen, fill) {
  const details = el("details", { class: name, open: isOpen }, summary);
  if (isOpen) details.append(...fill());
  else details.addEventListener("toggle", () => details.append(...fill()), { once: true });
  return details;
}

function level(entries, show) {
  const rest = entries.slice(MOST_ENTRIES);
  const nodes = entries.slice(0, MOST_ENTRIES).map(show);
  return rest.length ? [...nodes, expander(`… ${number(rest.length)} more`, () => level(rest, show))] : nodes;
}

function expander(label, make) {
  const more = button({ class: "json-more" }, label, () => {
    more.closest("details, .json").querySelector("summary")?.focus({ preventScroll: true });
    more.replaceWith(...make());
  });
  return more;
}

function leaf(value) {
  if (typeof value !== "string") return [el("span", { class: `json-${kindOf(value)}` }, written(value))];
  const parsed = parsedNode(value);
  const shown = el("span", { class: "json-string", dir: "auto" }, ...string(value));
  if (!parsed) return [shown];
  return [shown, folded("json-parsed", el("summary", {}, "parsed"), false, () => [jsonView(parsed)])];
}

function string(value) {
  if (value.length <= LONGEST_STRING) return [`"${visible(value)}"`];
  const rest = () => [`${visible(value.slice(PREVIEW))}"`];
  const all = expander(`… all ${number(value.length)} characters`, rest);
  return [`"${visible(value.slice(0, PREVIEW))}`, all];
}

function kindOf(value) {
  if (value === null) return "null";
  return value instanceof ExactNumber ? "number" : typeof value;
}

function written(value) {
  return value instanceof ExactNumber ? value.text : (JSON.stringify(value) ?? String(value));
}

/** What the string would be if it is itself an object or a list in JSON, else null. */
function parsedNode(text) {
  const trimmed = text.trim();
  if (text.length > LONGEST_PARSED || !BRACKETS.has(`${trimmed[0]}${trimmed.at(-1)}`)) return null;
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return null; // no JSON, or too deep
    throw error;
  }
}

function beginning(value) {
  const text = JSON.stringify(value, null, 1);
  const label = `Save all ${number(text.length)} characters`;
  const start = `${visible(text.slice(0, PREVIEW))} …`;
  const all = button({ class: "json-save" }, label, () => save(text));
  return [el("pre", { class: "plain", dir: "auto", tabindex: "0" }, start), all];
}

function save(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: address, download: "value.json" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
