/** Parse the matches of a search from its text or structured result. No DOM. */
import { fieldOf, isObject, isString, textField } from "../../lib/json-fields.js";

const AT_LINE = /^((?:[A-Za-z]:)?[^\s:][^:]*):(\d{1,9}):(.*)$/;
const UNDER_HEADING = [/^ {0,4}L(\d{1,9}):? ?(.*)$/, /^ {0,4}Line (\d{1,9}): ?(.*)$/];
const HEADING = [/^File: (.+)$/, /^((?:\/|[A-Za-z]:[\\/]|\.{1,2}\/).+):$/];
const SEPARATOR = /^-{0,3}$/;

/**
 * @typedef {{number: string, text: string, isContext: boolean}} Line
 * @typedef {{path: string, hasHeading: boolean, lines: Line[]}} FileMatches
 * @typedef {{files: FileMatches[], others: string[]}} Matches
 */

/**
 * Parse lines by file; `others` are lines without a file. Undefined if most lines are not matches.
 *
 * @param {string} text
 * @returns {Matches | undefined}
 */
export function parseMatches(text) {
  /** @type {Matches} */
  const matches = { files: [], others: [] };
  text.split("\n").forEach((line) => addLine(matches, line));
  const count = matches.files.reduce((sum, { lines }) => sum + lines.length, 0);
  return count > 0 && count >= matches.others.length ? matches : undefined;
}

function addLine({ files, others }, line) {
  const last = files.at(-1);
  const heading = firstMatch(HEADING, line);
  if (heading) return void files.push({ path: heading[1], hasHeading: true, lines: [] });
  const match = firstMatch([AT_LINE], line) ?? matchInFile(line, last);
  const [, path = last?.path, number, text, isContext = false] = match;
  if (number === undefined) return SEPARATOR.test(line) || void others.push(line);
  if (path !== last?.path) files.push({ path, hasHeading: false, lines: [] });
  files.at(-1).lines.push({ number, text, isContext });
}

/** Match a line under the heading of its file, or a context line next to a match. */
function matchInFile(line, last) {
  if (!last) return [];
  const [, number, text] = (last.hasHeading && firstMatch(UNDER_HEADING, line)) || [];
  if (number !== undefined) return ["", undefined, number, text];
  if (!line.startsWith(`${last.path}-`)) return [];
  const rest = line.slice(last.path.length + 1).match(/^(\d{1,9})-(.*)$/);
  return rest ? ["", undefined, rest[1], rest[2], true] : [];
}

function firstMatch(patterns, line) {
  return patterns.map((pattern) => line.match(pattern)).find(Boolean);
}

/** The matches of a structured result as lines of text; undefined if there are none. */
export function structuredLines(structured) {
  if (!isObject(structured)) return undefined;
  const results = Object.values(fieldOf(structured, ["workspaceResults"], isObject) ?? {});
  const listed = listing(fieldOf(structured, ["directoryTreeRoot"], isObject), 0);
  const lines = [...results.flatMap(workspaceLines), ...namesIn(structured), ...listed];
  return lines.length ? lines : undefined;
}

function workspaceLines(part) {
  const matches = listField(fieldOf(part, ["content"], isObject), "matches").flatMap((file) => {
    const path = textField(file, "file", "path") ?? "";
    return listField(file, "matches").map((match) => lineOf(path, match));
  });
  return [...matches, ...namesIn(fieldOf(part, ["files"], isObject))];
}

function lineOf(path, match) {
  const number = fieldOf(match, ["lineNumber"], Number.isInteger) ?? 0;
  const text = textField(match, "content", "line") ?? "";
  return [path, number, text].join(fieldOf(match, ["isContextLine"]) === true ? "-" : ":");
}

function namesIn(structured) {
  return listField(structured, "filenames", "files").filter(isString);
}

function listField(value, ...names) {
  return fieldOf(value, names, Array.isArray) ?? [];
}

const MAX_DEPTH = 30;

function listing(folder, depth) {
  if (!folder || depth > MAX_DEPTH) return [];
  const indent = "  ".repeat(depth);
  const files = listField(folder, "childrenFiles").map((file) => `${indent}${textField(file, "name") ?? "?"}`);
  const folders = listField(folder, "childrenDirs").flatMap((each) => [
    `${indent}${textField(each, "absPath", "name") ?? "?"}/`,
    ...listing(isObject(each) ? each : undefined, depth + 1),
  ]);
  return [...folders, ...files];
}
