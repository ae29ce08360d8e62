/** Changes of files, as differences. */
import { hunkDiff, lineDiff, unified } from "../diff.js";
import { languageOf } from "../highlight.js";
import { number } from "../numbers.js";
import { filesOf } from "../patch.js";
import { shownOutput } from "./bash.js";
import { aside, code, facts, filePath, note } from "./parts.js";
import { tail } from "./paths.js";
import { changesAsked, changesTold, isPatch, isSeenIn, tallyOf } from "./patches.js";
import { told } from "./results.js";
import { at, isObject, Reader } from "./values.js";

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
    if (!asked.length) return undefined;
    const done = call.state === "done" ? changesTold(call.last) : [];
    const shown = done.length ? done : asked;
    const isAside = done.length > 0 && !asked.every((change) => isSeenIn(change, done));
    const reason = reader.text("instruction", "explanation", "description");
    const unnamed = done.length ? pathsOf(asked).filter((path) => !pathsOf(done).includes(path)) : [];
    return [
      reason && note(reason),
      ...unnamed.map((path) => filePath(path)),
      ...shown.flatMap(shownChange),
      isAside && aside("As asked", reader.whole),
    ];
  },

  result: shownOutput,
};

/** The files that changes are of, each once. */
export function pathsOf(changes) {
  const named = changes.flatMap(({ path, patch }) => [path, ...pathsIn(path === undefined ? patch : undefined)]);
  return [...new Set(named.filter(Boolean))];
}

function pathsIn(patch = "") {
  return [...patch.matchAll(/^\*\*\* (?:Add|Update|Delete) File: (.*)$/gm)].map(([, path]) => path.trim());
}

/** What the result counts, else what can be counted. */
function countsOf(call) {
  const asked = changesAsked(new Reader(call.args));
  const done = changesTold(call.last);
  const form = told(call.last);
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
export function shownChange({ path, verb, moved, hunks, patch, before, after, content, rest }) {
  const words = [verb && `${verb} file`, moved && `moved to ${moved}`].filter(Boolean);
  return [
    words.length > 0 && filePath(path, ...words),
    hunks && hunkDiff(hunks, { path }),
    ...(patch === undefined ? [] : shownPatch(patch, path)),
    before !== undefined && lineDiff(before, after, { path }),
    content !== undefined && !words.length && path && filePath(path),
    content !== undefined && code(content, languageIn(path)),
    [hunks, patch, before, content].every((each) => each === undefined) && !words.length && filePath(path ?? "a file"),
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
