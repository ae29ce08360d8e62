/** File searches and directory listings. */
import { el } from "../../lib/dom.js";
import { longText } from "../../lib/long-text.js";
import { formatNumber, pluralize } from "../../lib/number-format.js";
import { blocks, valueView } from "../content-blocks.js";
import { facts, filePath, note, output, settings } from "./body-parts.js";
import { parseMatches, structuredLines } from "./search-matches.js";
import { PATH_KEYS, pathTail } from "./file-paths.js";
import { splitText, structuredOf } from "./call-result.js";
import { FieldReader, fieldOf, isStringOrStrings, joinedTextField, textField } from "../../lib/json-fields.js";
import { countLines } from "./write.js";

const PATTERN = [
  "pattern", "query", "glob_pattern", "globPattern", "regex", "search_term", "file_pattern",
  "queries", "goal", "paths", "Query", "Pattern",
];
const FOLDER = [
  "path", "dir_path", "target_directory", "targetDirectory", "directory", "absolute_path", "DirectoryPath",
  "SearchDirectory", "SearchPath",
];
const NAME = ["filename", "file", "path"];
const TEXT = ["text", "content"];
const NO_MATCHES = /^(?:No (?:files|matches|results|content)\b|Found 0 )/i;
const MATCH_COUNT = /^Found (?:at least )?(\d+) (?:total )?(match|file|line|result)/i;
const MAX_FILES = 500;

/** @type {import("./registry.js").Tool} */
export const search = {
  gist(args) {
    const folder = textField(args, ...FOLDER, ...PATH_KEYS);
    const pattern = joinedTextField(args, PATTERN);
    if (pattern === undefined) return folder && pathTail(folder);
    return folder ? `${pattern} in ${pathTail(folder)}` : pattern;
  },

  outcome({ last, state }) {
    return state === "done" ? [countOf(last)] : [];
  },

  args(reader) {
    const pattern = reader.take(PATTERN, isStringOrStrings);
    const folder = reader.text(...FOLDER, ...PATH_KEYS);
    if (pattern === undefined && folder === undefined) return undefined;
    return [
      pattern !== undefined && el("pre", { class: "command", tabindex: 0 }, ...longText([pattern].flat().join("\n"))),
      folder && note("in ", folder),
      settings(reader),
    ];
  },

  result(result) {
    const { text, others } = splitText(result.value) ?? {};
    if (text) return [...matchesView(text), ...blocks(others)];
    const excerpts = excerptsIn(structuredOf(result));
    const lines = result.value ? undefined : structuredLines(structuredOf(result));
    return [...valueView(result.value), ...excerpts, ...(lines ? matchesView(lines.join("\n")) : [])];
  },
};

function matchesView(text) {
  const matches = parseMatches(text);
  if (!matches || matches.files.length > MAX_FILES) return [output(text)];
  return [
    matches.others.length > 0 && note(matches.others.join("\n")),
    el("ul", { class: "matches" }, ...matches.files.map(fileView)),
  ];
}

function fileView({ path, lines }) {
  const width = lines.reduce((max, line) => Math.max(max, line.number.length), 0);
  const texts = lines.map(({ number, text, isContext }) => {
    return `${number.padStart(width)}${isContext ? "-" : ":"} ${text}`;
  });
  return el("li", {}, filePath(path), texts.length > 0 && output(texts.join("\n")));
}

/** Excerpts of documents, as returned by searches of vector stores. */
function excerptsIn(structured) {
  const isExcerpt = (each) => textField(each, ...NAME) && textField(each, ...TEXT);
  const areExcerpts = Array.isArray(structured) && structured.length <= MAX_FILES && structured.every(isExcerpt);
  return areExcerpts ? structured.flatMap((each) => excerptView(new FieldReader(each))) : [];
}

function excerptView(reader) {
  const parts = [filePath(reader.text(...NAME)), output(reader.text(...TEXT))];
  const rest = reader.rest();
  return [...parts, rest && facts(rest)];
}

function countOf(result) {
  const names = result.value ? undefined : structuredLines(structuredOf(result));
  const text = splitText(result.value)?.text ?? names?.join("\n") ?? "";
  const matches = parseMatches(text);
  if (matches) return countText(matchingLines(matches).length, "match");
  if (NO_MATCHES.test(text)) return "nothing found";
  const [, count, noun] = text.match(MATCH_COUNT) ?? [];
  if (count !== undefined) return countText(Number(count), noun.toLowerCase());
  if (names) return `${formatNumber(names.length)} found`;
  const structured = structuredOf(result);
  if (Array.isArray(structured)) return pluralize(structured.length, "result");
  const files = fieldOf(structured, ["numFiles", "totalFiles"], Number.isInteger);
  if (files) return pluralize(files, "file");
  return text !== "" && pluralize(countLines(text), "line");
}

function matchingLines({ files }) {
  return files.flatMap(({ lines }) => lines).filter(({ isContext }) => !isContext);
}

function countText(count, noun) {
  return noun === "match" && count !== 1 ? `${formatNumber(count)} matches` : pluralize(count, noun);
}
