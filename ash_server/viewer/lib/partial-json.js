/** A parser for JSON that is still being streamed. */
import { parseJson } from "./json-view.js";

const MAX_DEPTH = 60;
const BLANKS = /[\s,:]*/y;
const WORD = /[-+.\w]+/y;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
const WORDS = { true: true, false: false, null: null };

/**
 * Parse an object or list as far as it has been written; an unfinished string ends where the text ends. Any other text
 * is returned unchanged.
 *
 * @param {string} text
 * @returns {any}
 */
export function parsePartialJson(text) {
  if (!/^\s*[{[]/.test(text)) return text;
  return parseValue({ text, offset: 0, depth: 0 });
}

function parseValue(source) {
  skip(source, BLANKS);
  const parse = PARSERS[source.text[source.offset]] ?? parseWord;
  return parse(source);
}

const PARSERS = { "{": parseObject, "[": parseList, '"': parseString };

function parseObject(source) {
  const pairs = [];
  parseMembers(source, "}", () => {
    const name = parseValue(source);
    const value = parseValue(source);
    if (value !== undefined) pairs.push([String(name), value]);
  });
  return Object.fromEntries(pairs);
}

function parseList(source) {
  const values = [];
  parseMembers(source, "]", () => {
    const value = parseValue(source);
    if (value !== undefined) values.push(value);
  });
  return values;
}

/** Parse members until the closing character, the end of the text, or a member that consumes nothing. */
function parseMembers(source, closing, parseMember) {
  source.offset++;
  source.depth++;
  while (source.depth <= MAX_DEPTH) {
    skip(source, BLANKS);
    const before = source.offset;
    if (source.offset >= source.text.length || source.text[source.offset] === closing) break;
    parseMember();
    if (source.offset === before) break;
  }
  source.offset++;
  source.depth--;
}

function parseString(source) {
  const begin = source.offset + 1;
  let end = source.text.indexOf('"', begin);
  while (end > 0 && isEscaped(source.text, end)) end = source.text.indexOf('"', end + 1);
  if (end < 0) end = source.text.length;
  source.offset = end + 1;
  return unescape(source.text.slice(begin, end));
}

function isEscaped(text, offset) {
  let slashes = 0;
  while (text[offset - 1 - slashes] === "\\") slashes++;
  return slashes % 2 === 1;
}

/** Decode escapes; an incomplete one at the end is dropped. */
function unescape(text) {
  const complete = text.replace(/(?<!\\)((?:\\\\)*)\\(?:u[\da-fA-F]{0,3})?$/, "$1");
  try {
    return JSON.parse(`"${complete}"`);
  } catch {
    return complete;
  }
}

/** A literal or a number. A number at the end of the text may have more digits and is omitted. */
function parseWord(source) {
  const word = skip(source, WORD);
  if (Object.hasOwn(WORDS, word)) return WORDS[word];
  return source.offset < source.text.length && NUMBER.test(word) ? parseJson(word) : undefined;
}

function skip(source, pattern) {
  pattern.lastIndex = source.offset;
  const [match] = pattern.exec(source.text) ?? [""];
  source.offset += match.length;
  return match;
}
