/** Searches in files, and lists of files. */
import { el } from "../dom.js";
import { counted, number } from "../numbers.js";
import { blocks } from "../blocks.js";
import { facts, filePath, note, output, setting } from "./parts.js";
import { linesTold, matchesIn } from "./matches.js";
import { PATH, tail } from "./paths.js";
import { shown, textual, told } from "./results.js";
import { at, isText, Reader, textAt } from "./values.js";
import { linesIn } from "./write.js";

const PATTERN = [
  "pattern", "query", "glob_pattern", "globPattern", "regex", "search_term", "file_pattern", "queries", "goal", "paths",
];
const FOLDER = ["path", "dir_path", "target_directory", "targetDirectory", "directory", "absolute_path"];
const NOTHING = /^(?:No (?:files|matches|results|content)\b|Found 0 )/i;
const FOUND = /^Found (?:at least )?(\d+) (?:total )?(match|file|line|result)/i;
const MOST_FILES = 500;

export const search = {
  gist(args) {
    const folder = textAt(args, ...FOLDER, ...PATH);
    const pattern = patternIn(args);
    return pattern === undefined ? folder && tail(folder) : [pattern, folder && `in ${tail(folder)}`].filter(Boolean).join(" ");
  },

  outcome({ last, state }) {
    return state === "done" ? [countOf(last)] : [];
  },

  args(reader) {
    const pattern = reader.take(PATTERN, isPattern);
    const folder = reader.text(...FOLDER, ...PATH);
    if (pattern === undefined && folder === undefined) return undefined;
    return [
      pattern !== undefined && el("pre", { class: "command", tabindex: 0 }, [pattern].flat().join("\n")),
      folder && note("in ", folder),
      setting(reader),
    ];
  },

  result(result) {
    const { text, beside } = textual(result.value) ?? {};
    if (text) return [...foundIn(text), ...blocks(beside)];
    const pieces = piecesIn(told(result));
    const lines = result.value ? undefined : linesTold(told(result));
    return [...shown(result.value), ...pieces, ...(lines ? foundIn(lines.join("\n")) : [])];
  },
};

function patternIn(args) {
  const pattern = at(args, PATTERN, isPattern);
  return pattern === undefined ? undefined : [pattern].flat().join(", ");
}

function isPattern(value) {
  return isText(value) || (Array.isArray(value) && value.length > 0 && value.every(isText));
}

function foundIn(text) {
  const found = matchesIn(text);
  if (!found || found.files.length > MOST_FILES) return [output(text)];
  return [
    found.others.length > 0 && note(found.others.join("\n")),
    el("ul", { class: "matches" }, ...found.files.map(matchesOf)),
  ];
}

function matchesOf({ path, lines }) {
  const width = Math.max(...lines.map((line) => line.number.length), 0);
  const text = lines.map((line) => `${line.number.padStart(width)}${line.isContext ? " " : ":"} ${line.text}`);
  return el("li", {}, filePath(path), lines.length > 0 && output(text.join("\n")));
}

/** Pieces of documents, as searches of vector stores find them. */
function piecesIn(form) {
  const list = Array.isArray(form) ? form : [];
  const isPiece = (each) => textAt(each, "filename", "file", "path") !== undefined && textAt(each, "text", "content") !== undefined;
  return list.length > 0 && list.every(isPiece) ? list.flatMap((each) => shownPiece(new Reader(each))) : [];
}

function shownPiece(reader) {
  const parts = [filePath(reader.text("filename", "file", "path")), output(reader.text("text", "content"))];
  const rest = reader.rest();
  return [...parts, rest && facts(rest)];
}

function countOf(result) {
  const names = result.value ? undefined : linesTold(told(result));
  const text = textual(result.value)?.text ?? names?.join("\n") ?? "";
  const found = matchesIn(text);
  if (found) return matches(found.files.flatMap(({ lines }) => lines).filter(({ isContext }) => !isContext).length);
  if (NOTHING.test(text)) return "nothing found";
  const [, count, noun] = text.match(FOUND) ?? [];
  if (count !== undefined) return noun.toLowerCase() === "match" ? matches(Number(count)) : counted(Number(count), noun.toLowerCase());
  if (names) return `${number(names.length)} found`;
  const form = told(result);
  if (Array.isArray(form)) return counted(form.length, "result");
  const files = at(form, ["numFiles", "totalFiles"], Number.isInteger);
  if (files) return counted(files, "file");
  return text !== "" && counted(linesIn(text), "line");
}

function matches(count) {
  return `${number(count)} ${count === 1 ? "match" : "matches"}`;
}
