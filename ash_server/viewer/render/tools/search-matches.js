/** What a search found, read from the text or the form that it answers with. No DOM. */
import { at, isObject, isText, textAt } from "../../lib/json-fields.js";

const AT_LINE = /^((?:[A-Za-z]:)?[^\s:][^:]*):(\d{1,9}):(.*)$/;
const IN_FILE = [/^ {0,4}L(\d{1,9}):? ?(.*)$/, /^ {0,4}Line (\d{1,9}): ?(.*)$/];
const FILE = [/^File: (.+)$/, /^((?:\/|[A-Za-z]:[\\/]|\.{1,2}\/).+):$/];
const BETWEEN = /^-{0,3}$/;

/**
 * @typedef {{number: string, text: string, isContext: boolean}} Line
 * @typedef {{path: string, isHeaded: boolean, lines: Line[]}} Found
 */

/**
 * Lines by file; others belong to none. Undefined where most of the text is not of that form.
 * @returns {{files: Found[], others: string[]} | undefined}
 */
export function matchesIn(text) {
  const found = { files: [], others: [] };
  text.split("\n").forEach((line) => take(found, line));
  const count = found.files.reduce((sum, { lines }) => sum + lines.length, 0);
  return count > 0 && count >= found.others.length ? found : undefined;
}

function take({ files, others }, line) {
  const last = files.at(-1);
  const heading = matchOf(FILE, line);
  if (heading) return void files.push({ path: heading[1], isHeaded: true, lines: [] });
  const match = matchOf([AT_LINE], line) ?? within(line, last);
  const [, path = last?.path, number, text, isContext = false] = match;
  if (number === undefined) return BETWEEN.test(line) || void others.push(line);
  if (path !== last?.path) files.push({ path, isHeaded: false, lines: [] });
  files.at(-1).lines.push({ number, text, isContext });
}

/** A line under the heading of its file, or one beside a match. */
function within(line, last) {
  if (!last) return [];
  const [, number, text] = (last.isHeaded && matchOf(IN_FILE, line)) || [];
  if (number !== undefined) return ["", undefined, number, text];
  if (!line.startsWith(`${last.path}-`)) return [];
  const rest = line.slice(last.path.length + 1).match(/^(\d{1,9})-(.*)$/);
  return rest ? ["", undefined, rest[1], rest[2], true] : [];
}

function matchOf(patterns, line) {
  return patterns.map((pattern) => line.match(pattern)).find(Boolean);
}

/** The lines of a result that has no text, as the providers tell what was found in a form; else undefined. */
export function linesTold(form) {
  if (!isObject(form)) return undefined;
  const results = Object.values(at(form, ["workspaceResults"], isObject) ?? {});
  const listed = listing(at(form, ["directoryTreeRoot"], isObject), 0);
  const lines = [...results.flatMap(linesOfPart), ...namesIn(form), ...listed];
  return lines.length ? lines : undefined;
}

function linesOfPart(part) {
  const matches = listAt(at(part, ["content"], isObject), "matches").flatMap((file) => {
    const path = textAt(file, "file", "path") ?? "";
    return listAt(file, "matches").map((match) => lineOf(path, match));
  });
  return [...matches, ...namesIn(at(part, ["files"], isObject))];
}

function lineOf(path, match) {
  const number = at(match, ["lineNumber"], Number.isInteger) ?? 0;
  const text = textAt(match, "content", "line") ?? "";
  return [path, number, text].join(at(match, ["isContextLine"]) === true ? "-" : ":");
}

function namesIn(form) {
  return listAt(form, "filenames", "files").filter(isText);
}

function listAt(form, ...names) {
  return at(form, names, Array.isArray) ?? [];
}

const DEEPEST = 30;

function listing(folder, depth) {
  if (!folder || depth > DEEPEST) return [];
  const indent = "  ".repeat(depth);
  const files = listAt(folder, "childrenFiles").map((file) => `${indent}${textAt(file, "name") ?? "?"}`);
  const folders = listAt(folder, "childrenDirs").flatMap((each) => [
    `${indent}${textAt(each, "absPath", "name") ?? "?"}/`,
    ...listing(isObject(each) ? each : undefined, depth + 1),
  ]);
  return [...folders, ...files];
}
