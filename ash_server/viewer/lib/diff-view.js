import { showControlCharacters } from "./ansi.js";
import { button, el } from "./dom.js";
import { markHidden } from "./hidden-characters.js";
import { highlightLines, languageOf } from "./highlight.js";
import { formatNumber, pluralize } from "./number-format.js";
import { parseHunks, parsePatch } from "./patch-parser.js";
import { default as Diff } from "../vendor/diff-9.0.0/base.js";

const CONTEXT = 3;
const MAX_SHOWN = 2_000; // rows or files, at once
const MAX_CHANGED_LINES = 1_000; // compared line by line; the work grows with their square
const MAX_WORDS = 10_000; // per diff, in changes that are compared word by word
const MAX_CHANGED_WORDS = 300; // per change
const MIN_KEPT_SHARE = 0.4; // of a line with marked changed words
const MAX_COLOURED_LENGTH = 50_000; // of all files of a patch, on each side

const WORD = /[\p{L}\p{N}_]+|\s|[^\p{L}\p{N}_\s]/gu;
const SIGNS = { added: "+", removed: "−" };
const MARKS = { added: "ins", removed: "del" };

/**
 * `old` and `fresh` are line numbers; `parts` are set where words were compared, `colours` where code is highlighted.
 *
 * @typedef {{kind: "kept" | "added" | "removed" | "note", text: string, old?: number, fresh?: number,
 *   parts?: [text: string, isMarked: boolean][], colours?: [text: string, classes: string][]}} Row
 */

/** Count the added and removed lines: `{added, removed}`. */
export function countChanges(before, after) {
  return countRows(diffLines(splitLines(before), splitLines(after)));
}

/**
 * A line diff of two texts, with changed words marked.
 *
 * @param {string | undefined} before
 * @param {string | undefined} after
 * @param {{path?: string, language?: string | null}} [options] `path` is the heading; `language` is the language of the
 *   file if its name does not say it
 */
export function lineDiff(before, after, { path, language } = {}) {
  const rows = diffLines(splitLines(before), splitLines(after));
  const isSame = rows.every(({ kind }) => kind === "kept");
  const notes = [...(isSame ? ["No line differs."] : []), ...noteOnEnd(before, after)];
  return figure({ path, language, rows: [...rows, ...notes.map(note)] });
}

/**
 * A unified diff, or a patch in the format of `apply_patch`.
 *
 * @param {string} patch
 * @param {{path?: string}} [options] `path` is used for a hunk that names no file
 */
export function unifiedDiff(patch, { path } = {}) {
  const budget = { left: MAX_COLOURED_LENGTH };
  const show = (file) => figure(file, budget);
  return el("div", { class: "diffs" }, ...showSome(parsePatch(patch, path), show, "more file"));
}

/**
 * A diff of hunks with lines that begin with their sign.
 *
 * @param {{oldStart: number, newStart: number, lines: string[]}[]} hunks
 * @param {{path?: string}} [options]
 */
export function hunkDiff(hunks, { path } = {}) {
  return figure({ path, rows: parseHunks(hunks) });
}

// Comparing lines

/** Compares lists; the library compares texts. */
class ListDiff extends Diff {
  tokenize(list) {
    return list;
  }

  removeEmpty(list) {
    return list;
  }

  join(list) {
    return list;
  }
}

const lists = new ListDiff();

function splitLines(text) {
  const lines = (text ?? "").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function noteOnEnd(before, after) {
  if (!before || !after || before.endsWith("\n") === after.endsWith("\n")) return [];
  return [`The last line ${after.endsWith("\n") ? "now ends" : "no longer ends"} with a line break.`];
}

/**
 * Compare lines. With too many changes, everything between the common ends counts as removed and added.
 *
 * @returns {Row[]}
 */
function diffLines(old, fresh) {
  const shortest = Math.min(old.length, fresh.length);
  const head = countWhile(shortest, (index) => old[index] === fresh[index]);
  const tail = countWhile(shortest - head, (index) => old.at(-1 - index) === fresh.at(-1 - index));
  const oldLines = old.slice(head, old.length - tail);
  const freshLines = fresh.slice(head, fresh.length - tail);
  const [oldIds, freshIds] = lineIds(oldLines, freshLines);
  const changes = lists.diff(oldIds, freshIds, { maxEditLength: MAX_CHANGED_LINES });
  return [
    ...toRows("kept", fresh.slice(0, head)),
    ...(changes ? changeRows(changes, oldLines, freshLines) : replacementRows(oldLines, freshLines)),
    ...toRows("kept", fresh.slice(fresh.length - tail)),
  ];
}

function countWhile(max, isTrueAt) {
  let count = 0;
  while (count < max && isTrueAt(count)) count += 1;
  return count;
}

/** Number the lines, equal ones equally, so that comparing two lines does not depend on their length. */
function lineIds(...texts) {
  const numbers = new Map();
  texts.flat().forEach((line) => numbers.has(line) || numbers.set(line, numbers.size));
  return texts.map((lines) => lines.map((line) => numbers.get(line)));
}

function changeRows(changes, old, fresh) {
  const [oldLines, freshLines] = [old.values(), fresh.values()];
  const next = {
    removed: () => oldLines.next().value,
    added: () => freshLines.next().value,
    kept: () => (oldLines.next(), freshLines.next().value),
  };
  return changes.flatMap(({ added, removed, count }) => {
    const kind = added ? "added" : removed ? "removed" : "kept";
    return toRows(kind, Array.from({ length: count }, next[kind]));
  });
}

const TOO_MANY = "Too many lines differ to compare them one by one: the old text is followed by the new one.";

function replacementRows(old, fresh) {
  return [note(TOO_MANY), ...toRows("removed", old), ...toRows("added", fresh)];
}

function toRows(kind, lines) {
  return lines.map((text) => ({ kind, text }));
}

/** @returns {Row} */
function note(text) {
  return { kind: "note", text };
}

/** Count the added and removed rows. */
export function countRows(rows) {
  const count = (kind) => rows.reduce((sum, row) => sum + (row.kind === kind), 0);
  return { added: count("added"), removed: count("removed") };
}

// Comparing words

/** Set `parts` on the rows of changes with comparable words. */
function markChangedWords(rows) {
  let words = MAX_WORDS;
  for (let start = 0, end; start < rows.length; start = end) {
    end = start + Math.max(1, countWhile(rows.length - start, (index) => rows[start + index].kind in SIGNS));
    const change = rows.slice(start, end);
    const [old, fresh] = ["removed", "added"].map((kind) => change.filter((row) => row.kind === kind));
    if (old.length && fresh.length) words -= compareWords(old, fresh, words);
  }
  return rows;
}

/** Compare the words of a change; returns the number of words compared. */
function compareWords(old, fresh, max) {
  const [oldText, freshText] = [old, fresh].map((rows) => rows.map(({ text }) => text).join("\n"));
  if (oldText.length + freshText.length > max * 4) return 0;
  const [oldWords, freshWords] = [oldText, freshText].map((text) => text.match(WORD) ?? []);
  const changes = lists.diff(oldWords, freshWords, { maxEditLength: MAX_CHANGED_WORDS });
  if (changes) {
    const joined = absorbSeparators(changes);
    setParts(old, joined.filter(({ added }) => !added));
    setParts(fresh, joined.filter(({ removed }) => !removed));
  }
  return oldWords.length + freshWords.length;
}

/** Count equal blanks and punctuation between two changes as changed on both sides. */
function absorbSeparators(changes) {
  return changes.flatMap((change, index) => {
    const isKept = !change.added && !change.removed;
    const isBetween = index > 0 && index < changes.length - 1;
    const isSeparator = isKept && isBetween && !/[\p{L}\p{N}_\n]/u.test(change.value.join(""));
    return isSeparator ? [{ ...change, removed: true }, { ...change, added: true }] : [change];
  });
}

function setParts(rows, changes) {
  const parts = rows.map(() => []);
  let rowIndex = 0;
  for (const { value, added, removed } of changes) {
    value.join("").split("\n").forEach((text, line) => {
      if (line) rowIndex += 1;
      if (text) parts[rowIndex].push([text, Boolean(added || removed)]);
    });
  }
  rows.forEach((row, index) => {
    if (isWorthMarking(parts[index])) row.parts = parts[index];
  });
}

function isWorthMarking(parts) {
  const length = (some) => some.reduce((sum, [text]) => sum + text.replace(/\s/g, "").length, 0);
  const kept = length(parts.filter(([, isMarked]) => !isMarked));
  return parts.some(([, isMarked]) => isMarked) && kept >= MIN_KEPT_SHARE * length(parts);
}

// Showing

/**
 * @param {{path?: string, language?: string | null, rows: Row[]}} file
 * @param {{left: number}} [budget]
 */
function figure({ path, language, rows: parsedRows }, budget = { left: MAX_COLOURED_LENGTH }) {
  const rows = stripCarriageReturns(parsedRows);
  colourRows(rows, language ?? (path ? languageOf(path) : null), budget);
  const { added, removed } = countRows(rows);
  const heading = [
    el("span", { class: "diff-path", dir: "auto" }, ...markHidden(path ?? "")),
    el("span", { class: "diff-counts" }, `+${formatNumber(added)} −${formatNumber(removed)}`),
  ];
  const label = path ? `Changes in ${path}` : "Changes";
  const lines = { class: "diff-lines", dir: "ltr", role: "region", tabindex: "0", "aria-label": label };
  return el(
    "figure",
    { class: "diff" },
    path && el("figcaption", { class: "diff-heading" }, ...heading),
    el("div", lines, ...showRows(foldUnchanged(markChangedWords(rows)))),
  );
}

/** Set `colours` on the rows: both sides of each hunk are highlighted as a whole, since texts may have several lines. */
function colourRows(rows, language, budget) {
  if (!language) return;
  for (const hunk of hunksOf(rows)) {
    budget.left -= hunk.reduce((sum, { text }) => sum + text.length, 0);
    if (budget.left < 0) return;
    for (const side of ["removed", "added"]) {
      const lines = hunk.filter(({ kind }) => kind === "kept" || kind === side);
      const coloured = highlightLines(lines.map(({ text }) => text), language);
      if (coloured) lines.forEach((row, index) => (row.colours = coloured[index]));
    }
  }
}

/** The rows between notes, which separate hunks. */
function hunksOf(rows) {
  /** @type {Row[][]} */
  const hunks = [[]];
  for (const row of rows) {
    if (row.kind === "note") hunks.push([]);
    else hunks.at(-1)?.push(row);
  }
  return hunks;
}

/** Strip the CRs if all lines end with CR LF; otherwise they are a difference and are shown. */
function stripCarriageReturns(rows) {
  if (!rows.every(({ kind, text }) => kind === "note" || text.endsWith("\r"))) return rows;
  return rows.map((row) => (row.kind === "note" ? row : { ...row, text: row.text.slice(0, -1) }));
}

/** Replace runs of rows far from any change by a list of these rows, which is shown as a gap. */
function foldUnchanged(rows) {
  const near = new Set();
  rows.forEach(({ kind }, index) => {
    if (kind in SIGNS) for (let each = index - CONTEXT; each <= index + CONTEXT; each++) near.add(each);
  });
  const isFar = (index) => rows[index].kind === "kept" && !near.has(index);
  const items = [];
  for (let start = 0, end; start < rows.length; start = end) {
    const count = countWhile(rows.length - start, (index) => isFar(start + index));
    end = start + Math.max(1, count);
    items.push(count > 1 ? rows.slice(start, end) : rows[start]);
  }
  return items;
}

function showRows(items) {
  return showSome(items, (item) => (Array.isArray(item) ? gap(item) : line(item)), "more line");
}

/** Show the first items, and a button for the rest. */
function showSome(items, show, noun) {
  const nodes = items.slice(0, MAX_SHOWN).map(show);
  const rest = items.slice(MAX_SHOWN);
  if (!rest.length) return nodes;
  return [...nodes, expander(pluralize(rest.length, noun), () => showSome(rest, show, noun))];
}

function gap(rows) {
  return expander(pluralize(rows.length, "unchanged line"), () => showRows(rows));
}

function expander(label, build) {
  const more = button({ class: "diff-gap" }, `… ${label}`, () => {
    more.parentElement?.focus({ preventScroll: true });
    more.replaceWith(...build());
  });
  return more;
}

/** @param {Row} row */
function line({ kind, text, parts, colours, old, fresh }) {
  const attributes = { class: "diff-sign", role: "img", "aria-label": kind };
  const sign = SIGNS[kind] && el("span", attributes, SIGNS[kind]);
  let rest = colours ?? [[text, ""]];
  const words = (parts ?? [[text, false]]).flatMap(([part, isMarked]) => {
    const [inside, after] = splitTexts(rest, part.length);
    rest = after;
    const nodes = inside.flatMap(showText);
    return isMarked ? [el(MARKS[kind], {}, ...nodes)] : nodes;
  });
  return el("div", { class: `diff-${kind}`, "data-old": old, "data-new": fresh }, sign, ...words);
}

function showText([text, classes]) {
  const shown = markHidden(showControlCharacters(text));
  return classes ? [el("span", { class: classes }, ...shown)] : shown;
}

/** Split texts with classes after a number of characters. */
function splitTexts(texts, length) {
  /** @type {[text: string, classes: string][][]} */
  const [before, after] = [[], []];
  let left = length;
  for (const [text, classes] of texts) {
    if (left > 0) before.push([text.slice(0, left), classes]);
    if (text.length > left) after.push([text.slice(Math.max(0, left)), classes]);
    left -= text.length;
  }
  return [before, after];
}
