/** Read file changes from the arguments and results of edit tools, in all known forms. No DOM. */
import { countChanges, countRows } from "../../lib/diff-view.js";
import { parseHunks, parsePatch } from "../../lib/patch-parser.js";
import { PATH_KEYS } from "./file-paths.js";
import { structuredOf } from "./call-result.js";
import { FieldReader, fieldOf, isObject, isString, textField } from "../../lib/json-fields.js";

const BEFORE = [
  "old_string", "oldString", "old_str", "oldText", "old_text", "search", "old_content", "TargetContent",
];
const AFTER = [
  "new_string", "newString", "new_str", "newText", "new_text", "replace", "new_content", "ReplacementContent",
];
const PATCH = [
  "patch", "patchText", "patch_text", "patchContent", "input",
  "unified_diff", "diff", "diffString", "fileDiff",
];
const CONTENT = [
  "content", "contents", "streamContent", "file_text", "code_edit",
  "new_source", "insert_text", "new_str",
];
const VERBS = {
  add: "new",
  create: "new",
  create_file: "new",
  delete: "deleted",
  delete_file: "deleted",
  update: "",
  update_file: "",
};
const MAX_COUNTED_LENGTH = 200_000;

/**
 * A change of one file: `hunks`, a `patch`, the text `before` and `after`, the new `content`, or none of these. `rest`
 * are the other fields.
 * @typedef {{path?: string, verb?: string, moved?: string, hunks?: any[], patch?: string, before?: string,
 *   after?: string, content?: string, rest?: any}} Change
 */

/**
 * The changes that a result reports.
 *
 * @param {any} result
 * @param {Change[]} [requested]
 * @returns {Change[]}
 */
export function reportedChanges(result, requested = []) {
  const structured = structuredOf(result);
  const path = textField(structured, ...PATH_KEYS);
  const hunks = fieldOf(structured, ["structuredPatch"], areHunks);
  if (hunks) return [{ path, hunks }];
  const changes = fieldOf(structured, ["changes"], isObject);
  if (changes) return changesByPath(changes).filter(({ patch, content }) => patch ?? content);
  const patch = fieldOf(structured, PATCH, (each) => isString(each) && /^@@/m.test(each));
  if (patch !== undefined) return [{ path, patch }];
  const signedLines = requested.every(isWithoutContent) ? fieldOf(structured, PATCH, isSignedLines) : undefined;
  return signedLines === undefined ? [] : [{ path, patch: `@@\n${signedLines}` }];
}

/** True for a patch without headers, as Cursor reports it. */
function isSignedLines(value) {
  return isString(value) && value.split("\n").every((line) => /^(?:[-+ ]|$)/.test(line)) && /^[-+]/m.test(value);
}

/**
 * True for a change without hunks, patch and text.
 *
 * @param {Change} change
 */
export function isWithoutContent({ hunks, patch, before, content }) {
  return [hunks, patch, before, content].every((each) => each === undefined);
}

function areHunks(value) {
  return Array.isArray(value) && value.length > 0 && value.every(isHunk);
}

function isHunk(hunk) {
  const { oldStart, newStart, lines } = hunk ?? {};
  return [oldStart, newStart].every(Number.isInteger) && Array.isArray(lines) && lines.every(isString);
}

/** Take the changes that a call requests. @returns {Change[]} */
export function requestedChanges(reader) {
  const patch = reader.takeWhole((each) => isString(each) && each !== "") ?? patchInCommand(reader);
  if (patch !== undefined) return [{ patch }];
  const changes = reader.object("changes") ?? reader.list("changes");
  if (Array.isArray(changes)) return changes.map((each) => changeIn(each));
  if (changes) return changesByPath(changes);
  const path = reader.text(...PATH_KEYS);
  const nested = reader.object("multiStrReplace") ?? reader.object("strReplace", "applyPatch");
  const inner = nested && (fieldOf(nested, ["edits"], Array.isArray) ?? [nested]);
  const many = reader.list("edits", "ReplacementChunks") ?? inner ?? [];
  const own = ownChange(reader, path);
  const isOwn = path === undefined || many.length ? Object.keys(own).some((name) => name !== "path") : true;
  return [...(isOwn ? [own] : []), ...many.map((each) => changeIn(each, path))];
}

const HEREDOC = /^\s*(?:cd \S+ && )?apply_?patch <<[^]*?(\*\*\* Begin Patch\n[^]*\*\*\* End Patch)/;

/** True for a command that only passes a patch to `apply_patch`. */
export function isPatchCommand(value) {
  return isPatchCall(value) || HEREDOC.test(scriptIn(value));
}

function isPatchCall(value) {
  const isPair = Array.isArray(value) && value.length === 2 && value.every(isString);
  return isPair && /^(?:.*\/)?apply_?patch$/.test(value[0]);
}

function scriptIn(value) {
  const script = Array.isArray(value) ? value.at(-1) : value;
  return isString(script) ? script : "";
}

function patchInCommand(reader) {
  const command = fieldOf(reader.value, ["command", "cmd"], isPatchCommand);
  if (isPatchCall(command)) return reader.list("command", "cmd")[1];
  return scriptIn(command).match(HEREDOC)?.[1];
}

/** @returns {Change[]} */
function changesByPath(changes) {
  return Object.entries(changes).map(([path, value]) => changeIn(value, path));
}

function changeIn(value, path) {
  if (isString(value)) return { path, patch: value };
  const reader = new FieldReader(value);
  const change = ownChange(reader, reader.text(...PATH_KEYS) ?? path);
  return { ...change, rest: reader.rest() };
}

function ownChange(reader, path) {
  const kind = reader.take(["kind", "type"], (each) => isString(each) && Object.hasOwn(VERBS, each));
  const moved = reader.text("move_path", "movePath", "new_path");
  const change = { path, verb: VERBS[kind] || undefined, moved };
  const patch = reader.text(...PATCH);
  const before = patch === undefined ? reader.text(...BEFORE) : undefined;
  if (before !== undefined) return omitUndefined({ ...change, before, after: reader.text(...AFTER) ?? "" });
  return omitUndefined({ ...change, patch, content: patch === undefined ? reader.text(...CONTENT) : undefined });
}

/** @returns {Change} */
function omitUndefined(change) {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
}

/**
 * Count the added and removed lines; undefined if unknown or too expensive.
 *
 * @param {Change} change
 */
export function countChangedLines({ hunks, patch, before, after, verb, content }) {
  if (hunks) return countRows(parseHunks(hunks));
  if ((patch ?? before ?? content ?? "").length + (after ?? "").length > MAX_COUNTED_LENGTH) return undefined;
  if (before !== undefined) return countChanges(before, after);
  if (patch !== undefined && isPatch(patch)) return countRows(parsePatch(patch).flatMap(({ rows }) => rows));
  const whole = patch ?? content;
  if (whole === undefined) return undefined;
  return { new: countChanges("", whole), deleted: countChanges(whole, "") }[verb ?? ""];
}

/** True if a text is a patch. Providers also put whole files into fields named `patch`. */
export function isPatch(text) {
  return /^(?:@@|\*\*\* (?:Begin|Add|Update|Delete)|[-+]{3} |diff )/m.test(text);
}

/** True if all lines of a change are contained in other changes. */
export function isCoveredBy(change, changes) {
  const lines = new Set(changes.flatMap(linesOf));
  return change.patch === undefined && plainLinesOf(change).every((line) => lines.has(line));
}

/** @param {Change} change */
function linesOf({ hunks = [], patch = "", ...texts }) {
  const signed = [...hunks.flatMap(({ lines }) => lines), ...patch.split("\n")];
  return [...signed.map((line) => line.slice(1)), ...plainLinesOf(texts)];
}

/** @param {Change} change */
function plainLinesOf({ before, after, content }) {
  return [before, after, content].filter(isString).flatMap((text) => text.split("\n"));
}
