/** Files and pictures that are read. */
import { blocks } from "../content-blocks.js";
import { el } from "../../lib/dom.js";
import { languageOf } from "../../lib/highlight.js";
import { counted } from "../../lib/number-format.js";
import { code, filePath, note, output, setting } from "./body-parts.js";
import { PATH, tail } from "./file-paths.js";
import { formOf, shown, textOf, textual } from "./call-result.js";
import { at, isObject, isSome, isText, textAt } from "../../lib/json-fields.js";
import { linesIn } from "./write.js";

const MANY = ["paths", "files", "include", "file_paths"];
const PICTURE = /\.(?:png|jpe?g|gif|webp|bmp|svg|pdf)$/i;
const NUMBERED = /^[ \t]*(\d+)(→|\t|: |\| ?)(.*)$/;
const TAG = /^<(\/?[\w-]+)>(?:.*<\/\1>)?$/;

export const read = {
  gist(args) {
    return pathsIn(args).map(tail).join(", ") || undefined;
  },

  outcome({ args, last, state }) {
    if (state !== "done" || pathsIn(args).some((path) => PICTURE.test(path))) return [];
    const file = at(formOf(last), ["file"], isObject) ?? formOf(last);
    const count = at(file, ["numLines"], Number.isInteger) ?? linesIn(numbered(textOf(last.value)).source);
    return [count > 0 && counted(count, "line")];
  },

  args(reader) {
    const path = reader.text(...PATH);
    const paths = path === undefined ? reader.take(MANY, isPaths) : [path];
    return paths && [...paths.map((each) => filePath(each)), setting(reader)];
  },

  result(result, { args, state }) {
    const { text, beside } = textual(result.value) ?? {};
    if (!text || state !== "done") return shown(result.value);
    const [path] = pathsIn(args);
    return [...fileView(text, path && languageOf(path)), ...blocks(beside)];
  },
};

function pathsIn(args) {
  const path = textAt(args, ...PATH);
  return path === undefined ? (at(args, MANY, isPaths) ?? []) : [path];
}

function isPaths(value) {
  return isSome(value) && value.every(isText);
}

/** A file with the numbers of its lines beside it, where they are told. */
function fileView(text, language) {
  const { before, numbers, source, after } = numbered(text);
  if (!numbers.length) return [code(source, language)];
  const gutter = el("pre", { class: "gutter", "aria-hidden": "true" }, numbers.join("\n"));
  return [
    before && note(before),
    el("div", { class: "file-view" }, gutter, code(source, language)),
    after && output(after),
  ];
}

/** The lines that have numbers, without them, and what stands around these lines. */
function numbered(text) {
  const lines = text.split("\n");
  const matches = lines.map((line) => line.match(NUMBERED));
  const first = matches.findIndex(Boolean);
  const isStart = first >= 0 && lines.slice(0, first).every((line) => line === "" || TAG.test(line));
  if (!isStart) return { before: "", numbers: [], source: text, after: "" };
  const sign = matches[first][2];
  const end = matches.findIndex((match, place) => place > first && !isNext(match, matches[place - 1], sign));
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
