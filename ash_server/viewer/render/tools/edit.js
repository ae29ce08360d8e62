/** File changes as diffs. */
import { hunkDiff, lineDiff, unifiedDiff } from "../../lib/diff-view.js";
import { languageOf } from "../../lib/highlight.js";
import { formatNumber } from "../../lib/number-format.js";
import { parsePatch } from "../../lib/patch-parser.js";
import { commandOutput } from "./bash.js";
import { aside, code, facts, filePath, note } from "./body-parts.js";
import { pathTail } from "./file-paths.js";
import { countChangedLines, isCoveredBy, isPatch, isWithoutContent, reportedChanges, requestedChanges } from "./file-changes.js";
import { structuredOf } from "./call-result.js";
import { FieldReader, fieldOf, isDisplayableList, isObject } from "../../lib/json-fields.js";

const FAILED = new Set(["error", "denied", "interrupted"]);
const COUNTS = { added: ["linesAdded", "additions"], removed: ["linesRemoved", "deletions"] };

/** @type {import("./registry.js").Tool} */
export const edit = {
  gist(args) {
    const paths = pathsOf(requestedChanges(new FieldReader(args)));
    return paths.length ? paths.map(pathTail).join(", ") : undefined;
  },

  outcome(call) {
    return FAILED.has(call.state) ? [] : [countsOf(call)];
  },

  args(reader, call) {
    const requested = requestedChanges(reader);
    if (!isDisplayableList(requested)) return undefined;
    const reason = reader.text("instruction", "explanation", "description", "Instruction");
    const done = call.state === "done" ? withRequestedPath(reportedChanges(call.last, requested), requested) : [];
    const changes = isDisplayableList(done) ? doneView(done, requested, reader.value) : requested.flatMap(changeView);
    return [reason && note(reason), ...changes];
  },

  result: commandOutput,
};

/** If one change was requested and one reported, use the requested path. */
function withRequestedPath(done, requested) {
  const isSingle = done.length === 1 && requested.length === 1;
  return isSingle ? [{ ...done[0], path: requested[0].path ?? done[0].path }] : done;
}

/** The reported changes, and the requested ones that they do not cover. */
function doneView(done, requested, args) {
  const isReported = (path) => pathsOf(done).some((each) => each === path || each.endsWith(`/${path}`));
  const unreported = pathsOf(requested).filter((path) => !isReported(path));
  const isCovered = requested.every((change) => isCoveredBy(change, done));
  return [
    ...unreported.map((path) => filePath(path)),
    ...done.flatMap(changeView),
    !isCovered && aside("The change as the agent requested it", args),
  ];
}

/** The distinct paths of changes. */
function pathsOf(changes) {
  const paths = changes.flatMap(({ path, patch }) => (path === undefined ? pathsIn(patch ?? "") : [path]));
  return [...new Set(paths.filter(Boolean))];
}

function pathsIn(patch) {
  return [...patch.matchAll(/^\*\*\* (?:Add|Update|Delete) File: (.*)$/gm)].map(([, path]) => path.trim());
}

/** The line counts of the result, else counts of the changes. */
function countsOf(call) {
  const requested = requestedChanges(new FieldReader(call.args));
  const done = reportedChanges(call.last, requested);
  const structured = structuredOf(call.last);
  const counts = fieldOf(structured, ["filediff"], isObject) ?? structured;
  const reported = Object.fromEntries(
    Object.entries(COUNTS).map(([name, keys]) => [name, fieldOf(counts, keys, Number.isInteger)]),
  );
  if (reported.added !== undefined) return lineCounts(reported);
  return lineCounts(sum((done.length ? done : requested).map(countChangedLines)));
}

function sum(tallies) {
  if (!tallies.length || tallies.includes(undefined)) return undefined;
  const all = (name) => tallies.reduce((total, each) => total + each[name], 0);
  return { added: all("added"), removed: all("removed") };
}

/** "+12 −3" as two parts, since each has its colour. */
export function lineCounts(tally) {
  if (!tally) return undefined;
  const parts = [["added", "+"], ["removed", "−"]].filter(([name]) => tally[name] > 0);
  return parts.map(([name, sign]) => ({ name, text: `${sign}${formatNumber(tally[name])}` }));
}

/**
 * Render a change.
 *
 * @param {import("./file-changes.js").Change} change
 */
export function changeView(change) {
  const { path, verb, moved, hunks, patch, before, after, content, rest } = change;
  const words = [verb && `${verb} file`, moved && `moved to ${moved}`].filter(Boolean);
  return [
    words.length > 0 && filePath(path, ...words),
    hunks && hunkDiff(hunks, { path }),
    ...(patch === undefined ? [] : patchView(patch, path)),
    before !== undefined && lineDiff(before, after, { path, language: languageIn(path) }),
    content !== undefined && !words.length && path && filePath(path),
    content !== undefined && code(content, languageIn(path)),
    isWithoutContent(change) && !words.length && filePath(path ?? "a file"),
    rest !== undefined && (isObject(rest) ? facts(rest) : facts({ value: rest })),
  ];
}

/** The language of a file; notebook cells are Python. */
function languageIn(path) {
  return path && (path.endsWith(".ipynb") ? "python" : languageOf(path));
}

function patchView(patch, path) {
  const isNamed = path === undefined || parsePatch(patch, path).some((file) => file.path === path);
  const shown = isPatch(patch) ? unifiedDiff(patch, { path }) : code(patch, "diff");
  return isNamed && isPatch(patch) ? [shown] : [path && filePath(path), shown];
}
