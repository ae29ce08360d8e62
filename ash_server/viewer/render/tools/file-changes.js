/** What edits change, in whichever form they tell it. No DOM. */
import { counts, tally } from "../../lib/diff-view.js";
import { filesOf, rowsOfHunks } from "../../lib/patch-parser.js";
import { PATH } from "./file-paths.js";
import { formOf } from "./call-result.js";
import { at, isObject, isText, Reader, textAt } from "../../lib/json-fields.js";

const BEFORE = ["old_string", "oldString", "old_str", "oldText", "old_text", "search", "old_content"];
const AFTER = ["new_string", "newString", "new_str", "newText", "new_text", "replace", "new_content"];
const PATCH = [
  ...["patch", "patchText", "patch_text", "patchContent", "input"],
  ...["unified_diff", "diff", "diffString", "fileDiff"],
];
const CONTENT = [
  ...["content", "contents", "streamContent", "file_text", "code_edit"],
  ...["new_source", "insert_text", "new_str"],
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
const LARGEST = 200_000;

/**
 * What happens to one file: `hunks` or a `patch`, what stood there `before` and stands there `after`, the
 * `content` that it has now, or only that something happens. `rest` is what else is told of it.
 * @typedef {{path?: string, verb?: string, moved?: string, hunks?: any[], patch?: string, before?: string,
 *   after?: string, content?: string, rest?: any}} Change
 */

/** What the result says that was changed. @returns {Change[]} */
export function changesTold(result, asked = []) {
  const form = formOf(result);
  const path = textAt(form, ...PATH);
  const hunks = at(form, ["structuredPatch"], areHunks);
  if (hunks) return [{ path, hunks }];
  const changes = at(form, ["changes"], isObject);
  if (changes) return changesByPath(changes).filter(({ patch, content }) => patch ?? content);
  const patch = at(form, PATCH, (each) => isText(each) && /^@@/m.test(each));
  if (patch !== undefined) return [{ path, patch }];
  const signed = asked.every(isBare) ? at(form, PATCH, isSigned) : undefined;
  return signed === undefined ? [] : [{ path, patch: `@@\n${signed}` }];
}

/** Lines with their signs alone, as Cursor has them. */
function isSigned(value) {
  return isText(value) && value.split("\n").every((line) => /^(?:[-+ ]|$)/.test(line)) && /^[-+]/m.test(value);
}

/** Whether it says nothing but that something happens. */
export function isBare({ hunks, patch, before, content }) {
  return [hunks, patch, before, content].every((each) => each === undefined);
}

function areHunks(value) {
  return Array.isArray(value) && value.length > 0 && value.every(isHunk);
}

function isHunk(hunk) {
  const { oldStart, newStart, lines } = hunk ?? {};
  return [oldStart, newStart].every(Number.isInteger) && Array.isArray(lines) && lines.every(isText);
}

/** What the call asks for. What it is read from is taken. @returns {Change[]} */
export function changesAsked(reader) {
  const patch = reader.all((each) => isText(each) && each !== "") ?? patchInCommand(reader);
  if (patch !== undefined) return [{ patch }];
  const changes = reader.object("changes") ?? reader.list("changes");
  if (Array.isArray(changes)) return changes.map((each) => changeIn(each));
  if (changes) return changesByPath(changes);
  const path = reader.text(...PATH);
  const nested = reader.object("multiStrReplace") ?? reader.object("strReplace", "applyPatch");
  const many = reader.list("edits") ?? (nested && (at(nested, ["edits"], Array.isArray) ?? [nested])) ?? [];
  const own = ownChange(reader, path);
  const isOwn = path === undefined || many.length ? Object.keys(own).some((name) => name !== "path") : true;
  return [...(isOwn ? [own] : []), ...many.map((each) => changeIn(each, path))];
}

const HEREDOC = /^\s*(?:cd \S+ && )?apply_?patch <<[^]*?(\*\*\* Begin Patch\n[^]*\*\*\* End Patch)/;

/** Whether a command does nothing but give a patch to `apply_patch`. */
export function isPatchCommand(value) {
  return isPatchCall(value) || HEREDOC.test(scriptIn(value));
}

function isPatchCall(value) {
  const isPair = Array.isArray(value) && value.length === 2 && value.every(isText);
  return isPair && /^(?:.*\/)?apply_?patch$/.test(value[0]);
}

function scriptIn(value) {
  const script = Array.isArray(value) ? value.at(-1) : value;
  return isText(script) ? script : "";
}

function patchInCommand(reader) {
  const command = at(reader.whole, ["command", "cmd"], isPatchCommand);
  if (isPatchCall(command)) return reader.list("command", "cmd")[1];
  return scriptIn(command).match(HEREDOC)?.[1];
}

function changesByPath(changes) {
  return Object.entries(changes).map(([path, value]) => changeIn(value, path));
}

function changeIn(value, path) {
  if (isText(value)) return { path, patch: value };
  const reader = new Reader(value);
  const change = ownChange(reader, reader.text(...PATH) ?? path);
  return { ...change, rest: reader.rest() };
}

function ownChange(reader, path) {
  const kind = reader.take(["kind", "type"], (each) => isText(each) && Object.hasOwn(VERBS, each));
  const moved = reader.text("move_path", "movePath", "new_path");
  const change = { path, verb: VERBS[kind] || undefined, moved };
  const patch = reader.text(...PATCH);
  const before = patch === undefined ? reader.text(...BEFORE) : undefined;
  if (before !== undefined) return without({ ...change, before, after: reader.text(...AFTER) ?? "" });
  return without({ ...change, patch, content: patch === undefined ? reader.text(...CONTENT) : undefined });
}

function without(change) {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
}

/** How many lines come and go; undefined where that cannot be said cheaply. */
export function tallyOf({ hunks, patch, before, after, verb, content }) {
  if (hunks) return tally(rowsOfHunks(hunks));
  if ((patch ?? before ?? content ?? "").length + (after ?? "").length > LARGEST) return undefined;
  if (before !== undefined) return counts(before, after);
  if (patch !== undefined && isPatch(patch)) return tally(filesOf(patch).flatMap(({ rows }) => rows));
  const whole = patch ?? content;
  if (whole === undefined) return undefined;
  return { new: counts("", whole), deleted: counts(whole, "") }[verb];
}

/** Whether it has the signs of a patch; what the providers call one may be a whole file. */
export function isPatch(text) {
  return /^(?:@@|\*\*\* (?:Begin|Add|Update|Delete)|[-+]{3} |diff )/m.test(text);
}

/** Whether all that one change asks for is seen in the other ones. */
export function isSeenIn(change, changes) {
  const lines = new Set(changes.flatMap(linesOf));
  return change.patch === undefined && plainLinesOf(change).every((line) => lines.has(line));
}

function linesOf({ hunks = [], patch = "", ...texts }) {
  const signed = [...hunks.flatMap(({ lines }) => lines), ...patch.split("\n")];
  return [...signed.map((line) => line.slice(1)), ...plainLinesOf(texts)];
}

function plainLinesOf({ before, after, content }) {
  return [before, after, content].filter(isText).flatMap((text) => text.split("\n"));
}
