import { visible } from "./ansi.js";
import { button, el } from "./dom.js";
import { counted, number } from "./number-format.js";
import { filesOf, rowsOfHunks } from "./patch-parser.js";
import { default as Diff } from "../vendor/diff-9.0.0/base.js";

const CONTEXT = 3;
const MOST_SHOWN = 2_000; // at once
const MOST_CHANGES = 1_000; // lines, for comparing line by line; the work grows with their square
const MOST_WORDS = 10_000; // of a whole diff, in changes within which words are compared
const MOST_CHANGED_WORDS = 300; // of one change
const SHARE_KEPT = 0.4; // of a line, for marking single words in it

const WORD = /[\p{L}\p{N}_]+|\s|[^\p{L}\p{N}_\s]/gu;
const SIGNS = { added: "+", removed: "−" };
const MARKS = { added: "ins", removed: "del" };

// A row is {kind: "kept" | "added" | "removed" | "note", text, old, fresh}; the last two number the lines.

/** How many lines are new and how many are gone: `{added, removed}`. */
export function counts(before, after) {
  return tally(compared(linesOf(before), linesOf(after)));
}

/** Two texts line by line, the words that differ marked within them. `path` gives it a heading. */
export function lineDiff(before, after, { path } = {}) {
  const rows = compared(linesOf(before), linesOf(after));
  const isSame = rows.every(({ kind }) => kind === "kept");
  const notes = [...(isSame ? ["No line differs."] : []), ...noteOnEnd(before, after)];
  return figure({ path, rows: [...rows, ...notes.map(note)] });
}

/** A unified diff, or a patch as `apply_patch` takes it. `path` is that of a hunk that names no file. */
export function unified(patch, { path } = {}) {
  return el("div", { class: "diffs" }, ...shown(filesOf(patch, path), figure, "more file"));
}

/** Hunks as objects `{oldStart, newStart, lines}`, whose lines begin with their sign. */
export function hunkDiff(hunks, { path } = {}) {
  return figure({ path, rows: rowsOfHunks(hunks) });
}

// Comparing lines

/** Compares lists, where the library compares texts. */
class Lists extends Diff {
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

const lists = new Lists();

function linesOf(text) {
  const lines = (text ?? "").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function noteOnEnd(before, after) {
  if (!before || !after || before.endsWith("\n") === after.endsWith("\n")) return [];
  return [`The last line ${after.endsWith("\n") ? "now ends" : "no longer ends"} with a line break.`];
}

/** With too many changes, all that is between the common ends is gone, and then new. */
function compared(old, fresh) {
  const shortest = Math.min(old.length, fresh.length);
  const head = alike(shortest, (place) => old[place] === fresh[place]);
  const tail = alike(shortest - head, (place) => old.at(-1 - place) === fresh.at(-1 - place));
  const gone = old.slice(head, old.length - tail);
  const come = fresh.slice(head, fresh.length - tail);
  const changes = lists.diff(...asNumbers(gone, come), { maxEditLength: MOST_CHANGES });
  return [
    ...rowsOf("kept", fresh.slice(0, head)),
    ...(changes ? rowsOfChanges(changes, gone, come) : whole(gone, come)),
    ...rowsOf("kept", fresh.slice(fresh.length - tail)),
  ];
}

function alike(most, isAlike) {
  let length = 0;
  while (length < most && isAlike(length)) length += 1;
  return length;
}

/** Equal lines as equal numbers, so that comparing two of them costs the same however long they are. */
function asNumbers(...texts) {
  const numbers = new Map();
  texts.flat().forEach((line) => numbers.has(line) || numbers.set(line, numbers.size));
  return texts.map((lines) => lines.map((line) => numbers.get(line)));
}

function rowsOfChanges(changes, old, fresh) {
  const [gone, come] = [old.values(), fresh.values()];
  const take = { removed: () => gone.next().value, added: () => come.next().value };
  take.kept = () => (take.removed(), take.added());
  return changes.flatMap(({ added, removed, count }) => {
    const kind = added ? "added" : removed ? "removed" : "kept";
    return rowsOf(kind, Array.from({ length: count }, take[kind]));
  });
}

const TOO_MANY = "Too many lines differ to compare them one by one: first what was there, then what is now.";

function whole(old, fresh) {
  return [note(TOO_MANY), ...rowsOf("removed", old), ...rowsOf("added", fresh)];
}

function rowsOf(kind, lines) {
  return lines.map((text) => ({ kind, text }));
}

function note(text) {
  return { kind: "note", text };
}

/** How many of these rows are new and how many are gone. */
export function tally(rows) {
  const count = (kind) => rows.reduce((sum, row) => sum + (row.kind === kind), 0);
  return { added: count("added"), removed: count("removed") };
}

// Comparing words

/** Gives the rows of each change `parts`, [text, isMarked], where their words were compared. */
function marked(rows) {
  let words = MOST_WORDS;
  for (let start = 0, end; start < rows.length; start = end) {
    end = start + Math.max(1, alike(rows.length - start, (place) => rows[start + place].kind in SIGNS));
    const change = rows.slice(start, end);
    const [old, fresh] = ["removed", "added"].map((kind) => change.filter((row) => row.kind === kind));
    if (old.length && fresh.length) words -= markWords(old, fresh, words);
  }
  return rows;
}

/** Returns how many words were looked at. */
function markWords(old, fresh, most) {
  const texts = [old, fresh].map((rows) => rows.map(({ text }) => text).join("\n"));
  if (texts[0].length + texts[1].length > most * 4) return 0;
  const words = texts.map((text) => text.match(WORD) ?? []);
  const changes = lists.diff(...words, { maxEditLength: MOST_CHANGED_WORDS });
  if (changes) {
    const joined = withoutCrumbs(changes);
    giveParts(old, joined.filter(({ added }) => !added));
    giveParts(fresh, joined.filter(({ removed }) => !removed));
  }
  return words[0].length + words[1].length;
}

/** What is equal by chance, a blank or a comma between two changes, counts as changed on both sides. */
function withoutCrumbs(changes) {
  return changes.flatMap((change, place) => {
    const isKept = !change.added && !change.removed;
    const isBetween = place > 0 && place < changes.length - 1;
    const isCrumb = isKept && isBetween && !/[\p{L}\p{N}_\n]/u.test(change.value.join(""));
    return isCrumb ? [{ ...change, removed: true }, { ...change, added: true }] : [change];
  });
}

function giveParts(rows, changes) {
  const parts = rows.map(() => []);
  let at = 0;
  for (const { value, added, removed } of changes) {
    value.join("").split("\n").forEach((text, line) => {
      if (line) at += 1;
      if (text) parts[at].push([text, Boolean(added || removed)]);
    });
  }
  rows.forEach((row, place) => {
    if (isWorthMarking(parts[place])) row.parts = parts[place];
  });
}

function isWorthMarking(parts) {
  const length = (some) => some.reduce((sum, [text]) => sum + text.replace(/\s/g, "").length, 0);
  const kept = length(parts.filter(([, isMarked]) => !isMarked));
  return parts.some(([, isMarked]) => isMarked) && kept >= SHARE_KEPT * length(parts);
}

// Showing

function figure({ path, rows: read }) {
  const rows = withoutReturns(read);
  const { added, removed } = tally(rows);
  const heading = [
    el("span", { class: "diff-path", dir: "auto" }, path),
    el("span", { class: "diff-counts" }, `+${number(added)} −${number(removed)}`),
  ];
  const label = path ? `Changes in ${path}` : "Changes";
  const lines = { class: "diff-lines", dir: "ltr", role: "region", tabindex: "0", "aria-label": label };
  return el(
    "figure",
    { class: "diff" },
    path && el("figcaption", { class: "diff-heading" }, ...heading),
    el("div", lines, ...shownRows(folded(marked(rows)))),
  );
}

/** Where all lines end with CR LF, the CR says nothing; else it is a difference, and is seen. */
function withoutReturns(rows) {
  if (!rows.every(({ kind, text }) => kind === "note" || text.endsWith("\r"))) return rows;
  return rows.map((row) => (row.kind === "note" ? row : { ...row, text: row.text.slice(0, -1) }));
}

/** What is far from any change becomes a gap: a list of rows in the place of them. */
function folded(rows) {
  const isNear = new Set();
  rows.forEach(({ kind }, place) => {
    if (kind in SIGNS) for (let near = place - CONTEXT; near <= place + CONTEXT; near++) isNear.add(near);
  });
  const isFar = (place) => rows[place].kind === "kept" && !isNear.has(place);
  const items = [];
  for (let start = 0, end; start < rows.length; start = end) {
    const far = alike(rows.length - start, (place) => isFar(start + place));
    end = start + Math.max(1, far);
    items.push(far > 1 ? rows.slice(start, end) : rows[start]);
  }
  return items;
}

function shownRows(items) {
  return shown(items, (item) => (Array.isArray(item) ? gap(item) : line(item)), "more line");
}

function shown(items, show, noun) {
  const nodes = items.slice(0, MOST_SHOWN).map(show);
  const rest = items.slice(MOST_SHOWN);
  if (!rest.length) return nodes;
  return [...nodes, expander(counted(rest.length, noun), () => shown(rest, show, noun))];
}

function gap(rows) {
  return expander(counted(rows.length, "unchanged line"), () => shownRows(rows));
}

function expander(label, make) {
  const more = button({ class: "diff-gap" }, `… ${label}`, () => {
    more.parentElement.focus({ preventScroll: true });
    more.replaceWith(...make());
  });
  return more;
}

function line({ kind, text, parts, old, fresh }) {
  const attributes = { class: "diff-sign", role: "img", "aria-label": kind };
  const sign = SIGNS[kind] && el("span", attributes, SIGNS[kind]);
  const words = (parts ?? [[text, false]]).map(([part, isMarked]) =>
    isMarked ? el(MARKS[kind], {}, visible(part)) : visible(part),
  );
  return el("div", { class: `diff-${kind}`, "data-old": old, "data-new": fresh }, sign, ...words);
}
