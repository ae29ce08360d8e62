/** Mathematics in TeX: `\(…\)` and `$…$` in a line, `\[…\]` and `$$…$$` as blocks. Everything else stays text. */

const MAX_LENGTH = 2_000;
const MAX_LINES = 50;
const MAX_INDENT = 3;
/** As in pandoc, no blanks inside of the dollars; and no word around them, as in `$HOME/$USER` and `$5–$6`. */
const DOLLARS = /\$(?![\s$])[^$\n`]{0,500}(?<![\s\\])\$(?![\w$])/y;
/** Amounts, and variables of shells and templates. */
const NO_FORMULA = /^\$(?:\d[\d.,]*(?:[kKmMbB]\b)?[\s,;–-]|[A-Z_]{3}|\{|\(\()|"/;
const DOUBLE_DOLLARS = /\$\$(?![\s$])[^$\n`]{0,500}(?<![\s\\])\$\$(?![\w$])/y;
const PARENTHESES = /\\\([^\n`]{1,500}?\\\)/y;
/** A single letter or an operator: escaped brackets without one are not mathematics. */
const FORMULA = /^..\s*\w\s*..$|[\^_={}+*/<>|-]|\\[a-zA-Z]/;
const BLOCKS = { "$$": "$$", "\\[": "\\]" };

export function useMath(parser) {
  parser.inline.ruler.before("escape", "math", parseInline);
  parser.block.ruler.before("heading", "math_block", parseBlock, { alt: ["paragraph", "reference", "blockquote"] });
}

/** True if a paragraph has the start of a block of mathematics without its end, which text that follows may contain. */
export function hasOpenMath(paragraph) {
  return /^[ \t]*(?:\$\$|\\\[)/m.test(paragraph);
}

function parseInline(state, silent) {
  const mark = state.src[state.pos];
  if (mark !== "$" && mark !== "\\") return false;
  if (/[\w$\\]/.test(state.src[state.pos - 1] ?? "")) return false;
  const source = [DOUBLE_DOLLARS, DOLLARS, PARENTHESES].map((form) => sourceAt(form, state)).find(Boolean);
  if (source === undefined || state.pos + source.length > state.posMax) return false;
  if (!silent) state.push("math_inline", "", 0).content = source;
  state.pos += source.length;
  return true;
}

function isFormula(source) {
  return !source.startsWith("\\") || FORMULA.test(source);
}

function sourceAt(form, { src, pos }) {
  form.lastIndex = pos;
  const [source] = form.exec(src) ?? [];
  return source === undefined || NO_FORMULA.test(source) || !isFormula(source) ? undefined : source;
}

/** Lines from one that begins with `$$` or `\[` to one that ends with its counterpart, without blank lines. */
function parseBlock(state, startLine, endLine, silent) {
  if (state.sCount[startLine] - state.blkIndent > MAX_INDENT) return false;
  const start = state.bMarks[startLine] + state.tShift[startLine];
  const close = BLOCKS[state.src.slice(start, start + 2)];
  if (close === undefined) return false;
  const line = closingLine(state, startLine, endLine, close);
  if (line === undefined) return false;
  const source = state.getLines(startLine, line + 1, state.blkIndent, false).trim();
  if (!isFormula(source)) return false;
  if (silent) return true;
  const token = state.push("math_block", "", 0);
  token.content = source;
  token.map = [startLine, line + 1];
  token.block = true;
  state.line = line + 1;
  return true;
}

function closingLine(state, startLine, endLine, close) {
  const start = state.bMarks[startLine] + state.tShift[startLine];
  const lastLine = Math.min(endLine, startLine + MAX_LINES);
  for (let line = startLine; line < lastLine && state.eMarks[line] - start < MAX_LENGTH; line += 1) {
    const text = state.src.slice(line === startLine ? start + 2 : state.bMarks[line], state.eMarks[line]).trimEnd();
    if (line > startLine && (text.trim() === "" || state.sCount[line] < state.blkIndent)) return undefined;
    const end = text.indexOf(close);
    if (end >= 0) return end === text.length - close.length && (end > 0 || line > startLine) ? line : undefined;
  }
  return undefined;
}
