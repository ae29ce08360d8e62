/** Searches in files, and lists of files. */
import { el } from "../../lib/dom.js";
import { counted, number } from "../../lib/number-format.js";
import { blocks } from "../content-blocks.js";
import { facts, filePath, note, output, setting } from "./body-parts.js";
import { linesTold, matchesIn } from "./search-matches.js";
import { PATH, tail } from "./file-paths.js";
import { formOf, shown, textual } from "./call-result.js";
import { at, isTexts, Reader, textAt, textsAt } from "../../lib/json-fields.js";
import { linesIn } from "./write.js";

const PATTERN = [
  ...["pattern", "query", "glob_pattern", "globPattern", "regex", "search_term", "file_pattern"],
  ...["queries", "goal", "paths"],
];
const FOLDER = ["path", "dir_path", "target_directory", "targetDirectory", "directory", "absolute_path"];
const NAME = ["filename", "file", "path"];
const TEXT = ["text", "content"];
const NOTHING = /^(?:No (?:files|matches|results|content)\b|Found 0 )/i;
const FOUND = /^Found (?:at least )?(\d+) (?:total )?(match|file|line|result)/i;
const MOST_FILES = 500;

export const search = {
  gist(args) {
    const folder = textAt(args, ...FOLDER, ...PATH);
    const pattern = textsAt(args, PATTERN);
    if (pattern === undefined) return folder && tail(folder);
    return folder ? `${pattern} in ${tail(folder)}` : pattern;
  },

  outcome({ last, state }) {
    return state === "done" ? [countOf(last)] : [];
  },

  args(reader) {
    const pattern = reader.take(PATTERN, isTexts);
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
    const pieces = piecesIn(formOf(result));
    const lines = result.value ? undefined : linesTold(formOf(result));
    return [...shown(result.value), ...pieces, ...(lines ? foundIn(lines.join("\n")) : [])];
  },
};

function foundIn(text) {
  const found = matchesIn(text);
  if (!found || found.files.length > MOST_FILES) return [output(text)];
  return [
    found.others.length > 0 && note(found.others.join("\n")),
    el("ul", { class: "matches" }, ...found.files.map(fileOf)),
  ];
}

function fileOf({ path, lines }) {
  const width = lines.reduce((most, line) => Math.max(most, line.number.length), 0);
  const texts = lines.map(({ number, text, isContext }) => {
    return `${number.padStart(width)}${isContext ? "-" : ":"} ${text}`;
  });
  return el("li", {}, filePath(path), texts.length > 0 && output(texts.join("\n")));
}

/** Pieces of documents, as searches of vector stores find them. */
function piecesIn(form) {
  const isPiece = (each) => textAt(each, ...NAME) && textAt(each, ...TEXT);
  const isAll = Array.isArray(form) && form.length <= MOST_FILES && form.every(isPiece);
  return isAll ? form.flatMap((each) => shownPiece(new Reader(each))) : [];
}

function shownPiece(reader) {
  const parts = [filePath(reader.text(...NAME)), output(reader.text(...TEXT))];
  const rest = reader.rest();
  return [...parts, rest && facts(rest)];
}

function countOf(result) {
  const names = result.value ? undefined : linesTold(formOf(result));
  const text = textual(result.value)?.text ?? names?.join("\n") ?? "";
  const found = matchesIn(text);
  if (found) return several(matchesOf(found).length, "match");
  if (NOTHING.test(text)) return "nothing found";
  const [, count, noun] = text.match(FOUND) ?? [];
  if (count !== undefined) return several(Number(count), noun.toLowerCase());
  if (names) return `${number(names.length)} found`;
  const form = formOf(result);
  if (Array.isArray(form)) return counted(form.length, "result");
  const files = at(form, ["numFiles", "totalFiles"], Number.isInteger);
  if (files) return counted(files, "file");
  return text !== "" && counted(linesIn(text), "line");
}

function matchesOf({ files }) {
  return files.flatMap(({ lines }) => lines).filter(({ isContext }) => !isContext);
}

function several(count, noun) {
  return noun === "match" && count !== 1 ? `${number(count)} matches` : counted(count, noun);
}
