import { showControlCharacters, showHiddenCharacters } from "./ansi.js";
import { button, el } from "./dom.js";
import { markHidden } from "./hidden-characters.js";
import { formatNumber, pluralize } from "./number-format.js";

const MAX_TREE_SIZE = 2_000_000; // approximate characters; larger values get a preview and a download
const PREVIEW_LENGTH = 4_000;
const MAX_ENTRIES = 200; // per level, shown at once
const MAX_STRING_LENGTH = 4_000; // shown at once
const MAX_OPEN_ENTRIES = 40; // in a tree that is initially open
const MAX_GIST_KEYS = 6;
const MAX_PARSED_LENGTH = 200_000; // of strings that are parsed as JSON

// Only texts that match may contain numbers that a double cannot represent; others take the fast path.
const MAYBE_INEXACT = /\d{16}|(?:^|[[:,])\s*-?[\d.]+[eE]\+?\d{3}/;
const BRACKETS = new Set(["{}", "[]"]);
const INTEGER = /^-?\d+$/;

/** A number that a double cannot represent. It keeps its source text. */
export class ExactNumber {
  /** @param {string} text */
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
    return /** @type {any} */ (JSON).rawJSON(this.text); // ES2026, not yet in TypeScript's library
  }
}

/**
 * JSON.parse, but integers beyond 2^53 and numbers beyond 10^308 become ExactNumber.
 *
 * @param {string} text
 * @returns {any}
 */
export function parseJson(text) {
  return MAYBE_INEXACT.test(text) ? JSON.parse(text, reviveExactNumber) : JSON.parse(text);
}

/**
 * A tree of native `<details>`, each level filled when it is opened. Small trees are open; very large values are shown
 * as a preview with a download.
 */
export function jsonView(value) {
  const { size, entries } = measureValue(value);
  const initial = { isOpen: true, isAllOpen: entries <= MAX_OPEN_ENTRIES };
  const nodes = size > MAX_TREE_SIZE ? preview(value) : [entry(undefined, value, initial)];
  return el("div", { class: "json", dir: "ltr" }, ...nodes);
}

/** A reviver for JSON.parse. Older browsers pass no context with the source text: their numbers stay doubles. */
function reviveExactNumber(_, value, context) {
  if (typeof value !== "number" || !context) return value;
  const isSame = INTEGER.test(context.source) ? Number.isSafeInteger(value) : Number.isFinite(value);
  return isSame ? value : new ExactNumber(context.source);
}

/** Measure without recursion, and stop at the size limit. */
function measureValue(value) {
  let [size, entries] = [0, 0];
  const pending = [value];
  while (pending.length && size <= MAX_TREE_SIZE) {
    const next = pending.pop();
    entries += 1;
    size += typeof next === "string" ? next.length : 4;
    if (!isNode(next)) continue;
    for (const [key, inner] of Object.entries(next)) {
      size += key.length;
      pending.push(inner);
    }
  }
  return { size, entries };
}

function isNode(value) {
  return typeof value === "object" && value !== null && !(value instanceof ExactNumber);
}

function entry(key, value, { isOpen = false, isAllOpen = false } = {}) {
  const label = el("span", { class: "json-key", dir: "auto" }, ...shownText(key ?? ""));
  const name = key === undefined ? [] : [label, ": "];
  const inner = isNode(value) ? Object.entries(value) : [];
  if (!inner.length) return el("div", { class: "json-leaf" }, ...name, ...leaf(value));
  const summary = el("summary", {}, ...name, el("span", { class: "json-gist" }, gist(value, inner)));
  const fill = () => level(inner, ([name, child]) => entry(name, child, { isOpen: isAllOpen, isAllOpen }));
  return lazyDetails("json-node", summary, isOpen, fill);
}

function gist(value, inner) {
  if (Array.isArray(value)) return pluralize(inner.length, "item");
  const keys = inner.slice(0, MAX_GIST_KEYS).map(([key]) => showHiddenCharacters(key.slice(0, 40)));
  return `{${keys.join(", ")}${inner.length > MAX_GIST_KEYS ? ", …" : ""}}`;
}

function lazyDetails(name, summary, isOpen, fill) {
  const details = el("details", { class: name, open: isOpen }, summary);
  if (isOpen) details.append(...fill());
  else details.addEventListener("toggle", () => details.append(...fill()), { once: true });
  return details;
}

function level(entries, show) {
  const rest = entries.slice(MAX_ENTRIES);
  const nodes = entries.slice(0, MAX_ENTRIES).map(show);
  return rest.length ? [...nodes, expander(`… ${formatNumber(rest.length)} more`, () => level(rest, show))] : nodes;
}

function expander(label, make) {
  const more = button({ class: "json-more" }, label, () => {
    more.closest("details, .json")?.querySelector("summary")?.focus({ preventScroll: true });
    more.replaceWith(...make());
  });
  return more;
}

function leaf(value) {
  if (typeof value !== "string") return [el("span", { class: `json-${kindOf(value)}` }, literal(value))];
  const parsed = parseNested(value);
  const shown = el("span", { class: "json-string", dir: "auto" }, ...quotedString(value));
  if (!parsed) return [shown];
  return [shown, lazyDetails("json-parsed", el("summary", {}, "parsed"), false, () => [jsonView(parsed)])];
}

function quotedString(value) {
  if (value.length <= MAX_STRING_LENGTH) return ['"', ...shownText(value), '"'];
  const rest = () => [...shownText(value.slice(PREVIEW_LENGTH)), '"'];
  const all = expander(`… all ${formatNumber(value.length)} characters`, rest);
  return ['"', ...shownText(value.slice(0, PREVIEW_LENGTH)), all];
}

function shownText(text) {
  return markHidden(showControlCharacters(text));
}

function kindOf(value) {
  if (value === null) return "null";
  return value instanceof ExactNumber ? "number" : typeof value;
}

function literal(value) {
  return value instanceof ExactNumber ? value.text : (JSON.stringify(value) ?? String(value));
}

/** The object or list that a string contains as JSON, else null. */
function parseNested(text) {
  const trimmed = text.trim();
  if (text.length > MAX_PARSED_LENGTH || !BRACKETS.has(`${trimmed[0]}${trimmed.at(-1)}`)) return null;
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return null; // not JSON, or too deep
    throw error;
  }
}

function preview(value) {
  const text = JSON.stringify(value, null, 1);
  const label = `Save all ${formatNumber(text.length)} characters`;
  const start = [...shownText(text.slice(0, PREVIEW_LENGTH)), " …"];
  const all = button({ class: "json-save" }, label, () => save(text));
  return [el("pre", { class: "plain", dir: "auto", tabindex: "0" }, ...start), all];
}

function save(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: address, download: "value.json" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
