/**
 * The HTML tags `<kbd>`, `<sub>`, `<sup>`, `<br>`, `<details>` and `<summary>`, without attributes, as tokens. A tag
 * without its counterpart stays text, as do all other tags.
 */

const TAG_OR_CODE = /\\[^]|`+|<(\/?)(kbd|sub|sup)>/gi;
const OPENING_TAG = /<(kbd|sub|sup)>/iy;
const BREAK = /<br ?\/?>/iy;
const DETAILS = /<details>/iy;
const DETAILS_END = /<\/details>[ \t]*$/i;
const SUMMARY = /\s*<summary>/iy;
const SUMMARY_END = /<\/summary>/i;
const FENCE = /^(`{3,}|~{3,})/;
const MAX_SUMMARY_LENGTH = 2_000;
const MAX_INDENT = 3;

export function useHtmlTags(parser) {
  parser.inline.ruler.before("autolink", "html_tags", parsePair);
  parser.inline.ruler.before("autolink", "html_breaks", parseBreak);
  parser.block.ruler.before("heading", "html_details", parseDetails, { alt: ["paragraph", "reference", "blockquote"] });
}

/** True if a paragraph has the start of `<details>` without its end, which text that follows may contain. */
export function hasOpenDetails(paragraph) {
  return /^[ \t]*<details>/im.test(paragraph);
}

function parseBreak(state, silent) {
  const match = matchAt(BREAK, state.src, state.pos);
  if (!match) return false;
  if (!silent) state.push("hardbreak", "br", 0);
  state.pos += match[0].length;
  return true;
}

function parsePair(state, silent) {
  const match = matchAt(OPENING_TAG, state.src, state.pos);
  if (!match) return false;
  const end = closingTags(state).get(state.pos);
  if (end === undefined || end + match[0].length + 1 > state.posMax) return false;
  if (!silent) {
    const tag = match[1].toLowerCase();
    const { posMax } = state;
    state.push(`${tag}_open`, tag, 1);
    state.pos += match[0].length;
    state.posMax = end;
    state.md.inline.tokenize(state);
    state.posMax = posMax;
    state.push(`${tag}_close`, tag, -1);
  }
  state.pos = end + match[0].length + 1;
  return true;
}

/** @type {WeakMap<object, Map<number, number>>} */
const PAIRS = new WeakMap();

/** Map the positions of opening tags to the positions of their closing tags, in the text of an inline state. */
function closingTags(state) {
  const known = PAIRS.get(state) ?? pairTags(state.src);
  PAIRS.set(state, known);
  return known;
}

function pairTags(source) {
  const pairs = new Map();
  const ends = endsOfCode(source);
  /** @type {{name: string, at: number}[]} */
  const open = [];
  const counts = { kbd: 0, sub: 0, sup: 0 };
  const scanner = new RegExp(TAG_OR_CODE);
  for (let match; (match = scanner.exec(source)); ) {
    const { 0: text, 1: slash, 2: tag, index } = match;
    if (text[0] === "`") scanner.lastIndex = ends.get(index) ?? scanner.lastIndex;
    if (tag === undefined) continue;
    const name = tag.toLowerCase();
    if (!slash) {
      open.push({ name, at: index });
      counts[name] += 1;
    } else if (counts[name] > 0) {
      const start = open.findLastIndex((each) => each.name === name);
      pairs.set(open[start].at, index);
      for (const each of open.splice(start)) counts[each.name] -= 1;
    }
  }
  return pairs;
}

/** The end of the code span that begins at a run of backticks: the next run of the same length. */
function endsOfCode(source) {
  const ends = new Map();
  /** @type {Map<number, number>} the start of the last run by its length */
  const last = new Map();
  for (const { 0: run, index } of source.matchAll(/`+/g)) {
    if (last.has(run.length)) ends.set(last.get(run.length), index + run.length);
    last.set(run.length, index);
  }
  return ends;
}

function parseDetails(state, startLine, endLine, silent) {
  const start = state.bMarks[startLine] + state.tShift[startLine];
  if (state.sCount[startLine] - state.blkIndent > MAX_INDENT || !matchAt(DETAILS, state.src, start)) return false;
  const lastLine = closingLine(state, startLine, endLine);
  if (lastLine === undefined) return false;
  if (silent) return true;
  const end = contentStart(state, lastLine) + contentOf(state, lastLine).search(DETAILS_END);
  const opening = state.push("details_open", "details", 1);
  opening.map = [startLine, lastLine + 1];
  opening.block = true;
  const inner = pushSummary(state, start + "<details>".length, end);
  tokenizeWithin(state, startLine, lastLine, inner, end);
  state.push("details_close", "details", -1).block = true;
  state.line = lastLine + 1;
  return true;
}

/** Add the summary at a position, and return the position after it. */
function pushSummary(state, start, end) {
  const tag = matchAt(SUMMARY, state.src, start);
  const rest = tag ? state.src.slice(start + tag[0].length, Math.min(end, start + MAX_SUMMARY_LENGTH)) : "";
  const close = rest.match(SUMMARY_END);
  state.push("summary_open", "summary", 1).block = true;
  const inline = state.push("inline", "", 0);
  inline.content = close ? rest.slice(0, close.index).replace(/\s*\n[\s>]*/g, " ").trim() : "Details";
  inline.children = [];
  state.push("summary_close", "summary", -1).block = true;
  return close ? start + tag[0].length + close.index + close[0].length : start;
}

/** Parse the blocks between two positions, from the rest of the first line to the beginning of the last one. */
function tokenizeWithin(state, startLine, lastLine, start, end) {
  let line = startLine;
  while (line < lastLine && start > state.eMarks[line]) line += 1;
  const { bMarks, tShift, sCount, eMarks, lineMax, parentType } = state;
  const before = [bMarks[line], tShift[line], sCount[line], eMarks[lastLine]];
  eMarks[lastLine] = end;
  bMarks[line] = start;
  tShift[line] = state.src.slice(start, eMarks[line]).match(/^[ \t]*/)[0].length;
  sCount[line] = state.blkIndent;
  state.lineMax = lastLine + 1;
  state.parentType = "details";
  state.md.block.tokenize(state, line, lastLine + 1);
  state.parentType = parentType;
  state.lineMax = lineMax;
  [bMarks[line], tShift[line], sCount[line], eMarks[lastLine]] = before;
}

/** @type {WeakMap<object, Map<number, {from: number, to: number, indent: number, lines: Map<number, number>}>>} */
const LINES = new WeakMap();

/** The line that ends the `<details>` at the beginning of a line. Each line is read once per level of nesting. */
function closingLine(state, line, endLine) {
  const levels = LINES.get(state) ?? new Map();
  LINES.set(state, levels);
  const known = levels.get(state.level);
  if (known && known.indent === state.blkIndent && known.from <= line && line < known.to) return known.lines.get(line);
  const pairs = pairLines(state, line, endLine);
  levels.set(state.level, { from: line, indent: state.blkIndent, ...pairs });
  return pairs.lines.get(line);
}

function pairLines(state, start, endLine) {
  const lines = new Map();
  const open = [];
  let fence;
  let line = start;
  for (; line < endLine; line += 1) {
    const text = contentOf(state, line);
    if (line > start && text && state.sCount[line] < state.blkIndent) break;
    const [mark] = text.match(FENCE) ?? [];
    if (fence !== undefined) {
      if (mark?.startsWith(fence) && text.trimEnd() === mark) fence = undefined;
      continue;
    }
    fence = mark;
    if (text.slice(0, 9).toLowerCase() === "<details>") open.push(line);
    if (open.length && DETAILS_END.test(text)) lines.set(open.pop(), line);
  }
  return { to: line, lines };
}

function contentStart(state, line) {
  return state.bMarks[line] + state.tShift[line];
}

function contentOf(state, line) {
  return state.src.slice(contentStart(state, line), state.eMarks[line]);
}

function matchAt(pattern, text, index) {
  pattern.lastIndex = index;
  return pattern.exec(text);
}
