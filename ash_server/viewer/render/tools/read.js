/** Files and images that are read. */
import { blocks, valueView } from "../content-blocks.js";
import { copyable } from "../../lib/clipboard.js";
import { button, el } from "../../lib/dom.js";
import { markHidden } from "../../lib/hidden-characters.js";
import { languageOf } from "../../lib/highlight.js";
import { pluralize } from "../../lib/number-format.js";
import { code, codeBox, filePath, note, output, settings } from "./body-parts.js";
import { PATH_KEYS, pathTail } from "./file-paths.js";
import { resultText, splitText, structuredOf } from "./call-result.js";
import { fieldOf, isDisplayableList, isObject, isString, textField } from "../../lib/json-fields.js";
import { countLines } from "./write.js";

const PATH_LISTS = ["paths", "files", "include", "file_paths"];
const IMAGE = /\.(?:png|jpe?g|gif|webp|bmp|svg|pdf)$/i;
const MAX_GROUP_LINES = 1_000;
const MAX_GROUP_LENGTH = 50_000;
const NUMBERED = /^[ \t]*(\d+)(→|\t|: |\| ?)(.*)$/;
const TAG = /^<(\/?[\w-]+)>(?:.*<\/\1>)?$/;

/** @type {import("./registry.js").Tool} */
export const read = {
  gist(args) {
    return pathsIn(args).map(pathTail).join(", ") || undefined;
  },

  outcome({ args, last, state }) {
    if (state !== "done" || pathsIn(args).some((path) => IMAGE.test(path))) return [];
    const file = fieldOf(structuredOf(last), ["file"], isObject) ?? structuredOf(last);
    const inText = () => countLines(splitLineNumbers(resultText(last?.value)).source);
    const count = fieldOf(file, ["numLines"], Number.isInteger) ?? inText();
    return [count > 0 && pluralize(count, "line")];
  },

  args(reader) {
    const path = reader.text(...PATH_KEYS);
    const paths = path === undefined ? reader.take(PATH_LISTS, isPathList) : [path];
    return paths && [...paths.map((each) => filePath(each)), settings(reader)];
  },

  result(result, { args, state }) {
    const { text, others } = splitText(result.value) ?? {};
    if (!text || state !== "done") return valueView(result.value);
    const [path] = pathsIn(args);
    return [...fileView(text, path && languageOf(path)), ...blocks(others)];
  },
};

function pathsIn(args) {
  const path = textField(args, ...PATH_KEYS);
  return path === undefined ? (fieldOf(args, PATH_LISTS, isPathList) ?? []) : [path];
}

function isPathList(value) {
  return isDisplayableList(value) && value.every(isString);
}

/** A file, with a gutter if its lines are numbered. */
function fileView(text, language) {
  const { before, numbers, source, after } = splitLineNumbers(text);
  if (!numbers.length) return [code(source, language)];
  const view = el("div", { class: "file-view" }, ...numberedLines(numbers, source.split("\n"), language));
  return [before && note(before), copyable(view, "code", () => source), after && output(after)];
}

/** Lines with their numbers; for a long file, the first lines and a button for the rest. */
function numberedLines(numbers, lines, language) {
  const [first, ...rest] = groupLines(numbers, lines);
  const shown = linesView(first, language);
  if (!rest.length) return shown;
  const more = button({ class: "text-rest" }, `Show all ${pluralize(lines.length, "line")}`, () => {
    shown[1].focus({ preventScroll: true });
    more.replaceWith(...rest.flatMap((group) => linesView(group, language, "text-piece")));
  });
  return [...shown, more];
}

function linesView({ numbers, lines }, language, name = "") {
  const gutter = el("pre", { class: name ? `gutter ${name}` : "gutter", "aria-hidden": "true" }, numbers.join("\n"));
  const isOneLine = lines.length === 1; // only a single line may be longer than a group
  const plain = isOneLine ? undefined : (text) => markHidden(text);
  return [gutter, codeBox(lines.join("\n"), language, name ? `source ${name}` : "source", plain)];
}

function groupLines(numbers, lines) {
  const groups = [];
  let size = 0;
  lines.forEach((line, index) => {
    const isFull = size + line.length > MAX_GROUP_LENGTH || groups.at(-1)?.lines.length === MAX_GROUP_LINES;
    if (!groups.length || isFull) {
      groups.push({ numbers: [], lines: [] });
      size = 0;
    }
    groups.at(-1).numbers.push(numbers[index]);
    groups.at(-1).lines.push(line);
    size += line.length;
  });
  return groups;
}

/** Split numbered lines into numbers and source, and the text before and after them. */
function splitLineNumbers(text) {
  const lines = text.split("\n");
  const matches = lines.map((line) => line.match(NUMBERED));
  const first = matches.findIndex(Boolean);
  const isStart = first >= 0 && lines.slice(0, first).every((line) => line === "" || TAG.test(line));
  if (!isStart) return { before: "", numbers: [], source: text, after: "" };
  const sign = matches[first][2];
  const end = matches.findIndex((match, index) => index > first && !isNext(match, matches[index - 1], sign));
  const last = end < 0 ? lines.length : end;
  return {
    before: lines.slice(0, first).join("\n"),
    numbers: matches.slice(first, last).map(([, number]) => number),
    source: matches.slice(first, last).map(([, , , line]) => line).join("\n"),
    after: lines.slice(last).join("\n").trim(),
  };
}

function isNext(match, before, sign) {
  return match !== null && match[2] === sign && Number(match[1]) > Number(before[1]);
}
