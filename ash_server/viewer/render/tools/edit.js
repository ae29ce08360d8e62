/** Changes of files, as differences. */
import { hunkDiff, lineDiff, unified } from "../../lib/diff-view.js";
import { languageOf } from "../../lib/highlight.js";
import { number } from "../../lib/number-format.js";
import { filesOf } from "../../lib/patch-parser.js";
import { shownOutput } from "./bash.js";
import { aside, code, facts, filePath, note } from "./body-parts.js";
import { tail } from "./file-paths.js";
import { changesAsked, changesTold, isBare, isPatch, isSeenIn, tallyOf } from "./file-changes.js";
import { formOf } from "./call-result.js";
import { at, isObject, isSome, Reader } from "../../lib/json-fields.js";

const FAILED = new Set(["error", "denied", "interrupted"]);
const COUNTS = { added: ["linesAdded", "additions"], removed: ["linesRemoved", "deletions"] };

export const edit = {
  gist(args) {
    const paths = pathsOf(changesAsked(new Reader(args)));
    return paths.length ? paths.map(tail).join(", ") : undefined;
  },

  outcome(call) {
    return FAILED.has(call.state) ? [] : [countsOf(call)];
  },

  args(reader, call) {
    const asked = changesAsked(reader);
    if (!isSome(asked)) return undefined;
    const reason = reader.text("instruction", "explanation", "description");
    const done = call.state === "done" ? named(changesTold(call.last, asked), asked) : [];
    const shown = isSome(done) ? shownDone(done, asked, reader.whole) : asked.flatMap(shownChange);
    return [reason && note(reason), ...shown];
  },

  result: shownOutput,
};

/** One change that was made is that of the one file that was asked for. */
function named(done, asked) {
  const isOne = done.length === 1 && asked.length === 1;
  return isOne ? [{ ...done[0], path: asked[0].path ?? done[0].path }] : done;
}

/** What was done, and what of that which was asked for cannot be seen in it. */
function shownDone(done, asked, args) {
  const isNamed = (path) => pathsOf(done).some((each) => each === path || each.endsWith(`/${path}`));
  const unnamed = pathsOf(asked).filter((path) => !isNamed(path));
  const isSeen = asked.every((change) => isSeenIn(change, done));
  return [
    ...unnamed.map((path) => filePath(path)),
    ...done.flatMap(shownChange),
    !isSeen && aside("As asked", args),
  ];
}

/** The files that changes are of, each once. */
function pathsOf(changes) {
  const paths = changes.flatMap(({ path, patch }) => (path === undefined ? pathsIn(patch ?? "") : [path]));
  return [...new Set(paths.filter(Boolean))];
}

function pathsIn(patch) {
  return [...patch.matchAll(/^\*\*\* (?:Add|Update|Delete) File: (.*)$/gm)].map(([, path]) => path.trim());
}

/** What the result counts, else what can be counted. */
function countsOf(call) {
  const asked = changesAsked(new Reader(call.args));
  const done = changesTold(call.last, asked);
  const form = formOf(call.last);
  const counted = at(form, ["filediff"], isObject) ?? form;
  const own = Object.fromEntries(
    Object.entries(COUNTS).map(([name, keys]) => [name, at(counted, keys, Number.isInteger)]),
  );
  return plusMinus(own.added === undefined ? sum((done.length ? done : asked).map(tallyOf)) : own);
}

function sum(tallies) {
  if (!tallies.length || tallies.includes(undefined)) return undefined;
  const all = (name) => tallies.reduce((total, each) => total + each[name], 0);
  return { added: all("added"), removed: all("removed") };
}

/** "+12 −3", as two parts, so that each has its colour. */
export function plusMinus(tally) {
  if (!tally) return undefined;
  const parts = [["added", "+"], ["removed", "−"]].filter(([name]) => tally[name] > 0);
  return parts.map(([name, sign]) => ({ name, text: `${sign}${number(tally[name])}` }));
}

/** A change as it is looked at. */
export function shownChange(change) {
  const { path, verb, moved, hunks, patch, before, after, content, rest } = change;
  const words = [verb && `${verb} file`, moved && `moved to ${moved}`].filter(Boolean);
  return [
    words.length > 0 && filePath(path, ...words),
    hunks && hunkDiff(hunks, { path }),
    ...(patch === undefined ? [] : shownPatch(patch, path)),
    before !== undefined && lineDiff(before, after, { path }),
    content !== undefined && !words.length && path && filePath(path),
    content !== undefined && code(content, languageIn(path)),
    isBare(change) && !words.length && filePath(path ?? "a file"),
    rest !== undefined && (isObject(rest) ? facts(rest) : facts({ value: rest })),
  ];
}

/** The cells of a notebook are code, though the file is JSON. */
function languageIn(path) {
  return path && (path.endsWith(".ipynb") ? "python" : languageOf(path));
}

function shownPatch(patch, path) {
  const isNamed = path === undefined || filesOf(patch, path).some((file) => file.path === path);
  const shown = isPatch(patch) ? unified(patch, { path }) : code(patch, "diff");
  return isNamed && isPatch(patch) ? [shown] : [path && filePath(path), shown];
}
