/** What a search found, read from the text or the form that it answers with. No DOM. */
import { at, isObject, isText, textAt } from "./values.js";

const AT_LINE = /^((?:[A-Za-z]:)?[^\s:][^:]*):(\d{1,9}):(.*)$/;
const IN_FILE = [/^ {0,4}L(\d{1,9}):? ?(.*)$/, /^ {0,4}Line (\d{1,9}): ?(.*)$/];
const FILE = [/^File: (.+)$/, /^((?:\/|[A-Za-z]:[\\/]|\.{1,2}\/).+):$/];
const BETWEEN = /^-{0,3}$/;

/** @typedef {{path: string, isHeaded: boolean, lines: {number: string, text: string, isContext: boolean}[]}} Found */

/**
 * Lines by file, `{files, others}`: others belong to none. Undefined where most of the text is not of that form.
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
  const [, path = last?.path, number, text, isContext = false] = matchOf([AT_LINE], line) ?? within(line, last);
  if (number === undefined) return BETWEEN.test(line) || void others.push(line);
  if (path !== last?.path) files.push({ path, isHeaded: false, lines: [] });
  files.at(-1).lines.push({ number, text, isContext });
}

/** A line under the heading of its file, or one beside a match. */
function within(line, last) {
  if (!last) return [];
  const [, number, text] = (last.isHeaded && matchOf(IN_FILE, line)) || [];
  if (number !== undefined) return ["", undefined, number, text];
  const rest = line.startsWith(`${last.path}-`) ? line.slice(last.path.length + 1).match(/^(\d{1,9})-(.*)$/) : null;
  return rest ? ["", undefined, rest[1], rest[2], true] : [];
}

function matchOf(patterns, line) {
  return patterns.map((pattern) => line.match(pattern)).find(Boolean);
}

/** The lines of a result that has no text, as the providers tell what was found in a form; else undefined. */
export function linesTold(form) {
  if (!isObject(form)) return undefined;
  const results = Object.entries(at(form, ["workspaceResults"], isObject) ?? {}).flatMap(([, each]) => linesOfPart(each));
  const lines = [...results, ...namesIn(form), ...listing(at(form, ["directoryTreeRoot"], isObject), 0)];
  return lines.length ? lines : undefined;
}

function linesOfPart(part) {
  const files = at(at(part, ["content"], isObject), ["matches"], Array.isArray) ?? [];
  const matches = files.flatMap((file) =>
    (at(file, ["matches"], Array.isArray) ?? []).map((match) => lineOf(textAt(file, "file", "path") ?? "", match)),
  );
  return [...matches, ...namesIn(at(part, ["files"], isObject))];
}

function lineOf(path, match) {
  const sign = at(match, ["isContextLine"]) === true ? "-" : ":";
  return `${path}${sign}${at(match, ["lineNumber"], Number.isInteger) ?? 0}${sign}${textAt(match, "content", "line") ?? ""}`;
}

function namesIn(form) {
  return (at(form, ["filenames", "files"], Array.isArray) ?? []).filter(isText);
}

const DEEPEST = 30;

function listing(folder, depth) {
  if (!folder || depth > DEEPEST) return [];
  const indent = "  ".repeat(depth);
  const files = (at(folder, ["childrenFiles"], Array.isArray) ?? []).map((file) => `${indent}${textAt(file, "name") ?? "?"}`);
  const folders = (at(folder, ["childrenDirs"], Array.isArray) ?? []).flatMap((each) => [
    `${indent}${textAt(each, "absPath", "name") ?? "?"}/`,
    ...listing(isObject(each) ? each : undefined, depth + 1),
  ]);
  return [...folders, ...files];
}
