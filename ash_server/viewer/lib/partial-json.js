/** JSON that is still being written. */
import { parseJson } from "./json-view.js";

const DEEPEST = 60;
const BLANKS = /[\s,:]*/y;
const WORD = /[-+.\w]+/y;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
const WORDS = { true: true, false: false, null: null };

/** What can be read of it so far: an unfinished text as far as it goes. What is no JSON is given back. */
export function partial(text) {
  if (!/^\s*[{[]/.test(text)) return text;
  return value({ text, at: 0, depth: 0 });
}

function value(source) {
  skip(source, BLANKS);
  const read = READERS[source.text[source.at]] ?? word;
  return read(source);
}

const READERS = { "{": object, "[": list, '"': string };

function object(source) {
  const pairs = [];
  inside(source, "}", () => {
    const name = value(source);
    const told = value(source);
    if (told !== undefined) pairs.push([String(name), told]);
  });
  return Object.fromEntries(pairs);
}

function list(source) {
  const values = [];
  inside(source, "]", () => {
    const told = value(source);
    if (told !== undefined) values.push(told);
  });
  return values;
}

/** Reads members until the closing character, the end, or where nothing goes on. */
function inside(source, closing, readMember) {
  source.at++;
  source.depth++;
  while (source.depth <= DEEPEST) {
    skip(source, BLANKS);
    const before = source.at;
    if (source.at >= source.text.length || source.text[source.at] === closing) break;
    readMember();
    if (source.at === before) break;
  }
  source.at++;
  source.depth--;
}

function string(source) {
  const begin = source.at + 1;
  let end = source.text.indexOf('"', begin);
  while (end > 0 && isEscaped(source.text, end)) end = source.text.indexOf('"', end + 1);
  if (end < 0) end = source.text.length;
  source.at = end + 1;
  return unescaped(source.text.slice(begin, end));
}

function isEscaped(text, at) {
  let slashes = 0;
  while (text[at - 1 - slashes] === "\\") slashes++;
  return slashes % 2 === 1;
}

function unescaped(text) {
  const whole = text.replace(/(?<!\\)((?:\\\\)*)\\(?:u[\da-fA-F]{0,3})?$/, "$1");
  try {
    return JSON.parse(`"${whole}"`);
  } catch {
    return whole;
  }
}

function word(source) {
  const told = skip(source, WORD);
  if (Object.hasOwn(WORDS, told)) return WORDS[told];
  return source.at < source.text.length && NUMBER.test(told) ? parseJson(told) : undefined;
}

function skip(source, pattern) {
  pattern.lastIndex = source.at;
  const [found] = pattern.exec(source.text) ?? [""];
  source.at += found.length;
  return found;
}
