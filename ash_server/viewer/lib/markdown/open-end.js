/**
 * The end of a Markdown text that grows: the text node to which more of a paragraph, or of a fence, is appended. The
 * result must equal the rendering of the longer text, so text that may be markup is not appended.
 */
import { hasHidden, hasRightToLeft } from "../hidden-characters.js";

/** Text with characters that can start, end or change something else than text, or that are not text. */
const NOT_PROSE = /[[\]\\*_~<>|$&#^`\p{Cc}]|[^\S ]/u;
/** An address or a character reference, or the beginning of one; the parser has limits for long words. */
const SPECIAL_WORD = /@|:\S|&\S*;|\S{500}/;
const NOT_CODE = /[\r\0]/;
const FENCE = /^\n*(`{3,}|~{3,})[^`\n]*\n/;
const CUT_CHARACTER = /[\ud800-\udbff]$/;
const COMPARED_LENGTH = 64;

/**
 * The end of a text after its closed blocks, or undefined if nothing can be appended.
 *
 * @param {string} text
 * @param {Element} shown ends with the elements of the text
 */
export function openEnd(text, shown) {
  const node = lastText(shown);
  const tail = text.trimEnd().slice(-COMPARED_LENGTH);
  if (!node?.data || hasHidden(tail) || CUT_CHARACTER.test(tail)) return undefined;
  return node.parentElement?.matches("p, li") ? OpenLine.of(text, node) : OpenFence.of(text, node);
}

/** @returns {Text | undefined} */
function lastText(element) {
  let node = element.lastChild;
  while (node instanceof Element) node = (node.querySelector(":scope > pre.code > code") ?? node).lastChild;
  return node instanceof Text ? node : undefined;
}

/** True if a node shows the end of a text as it is. */
function shows(node, text) {
  return node.data.length > 0 && text.endsWith(node.data.slice(-COMPARED_LENGTH));
}

/** The last line of a paragraph. The parser removes blanks at its end. */
class OpenLine {
  constructor(node, line, hasLink) {
    this.node = node;
    this.blanks = line.slice(line.trimEnd().length);
    this.word = lastWord(line);
    this.hasLink = hasLink;
  }

  static of(text, node) {
    const line = text.slice(text.lastIndexOf("\n") + 1);
    // Without a letter, the line may become another block.
    const isPlain = /\p{L}/u.test(line) && !NOT_PROSE.test(line.trimEnd().slice(-1));
    return isPlain && shows(node, line.trimEnd()) ? new OpenLine(node, line, text.includes("](")) : undefined;
  }

  /** Append text; false if it must be rendered. */
  append(added) {
    const words = this.word + added;
    const isSpecial = NOT_PROSE.test(added) || SPECIAL_WORD.test(words) || hasHidden(added) || hasRightToLeft(added);
    if (isSpecial || (this.hasLink && added.includes(")"))) return false;
    const grown = this.blanks + added;
    const shown = grown.trimEnd();
    if (shown) this.node.appendData(shown);
    this.blanks = grown.slice(shown.length);
    this.word = lastWord(words);
    return true;
  }
}

function lastWord(line) {
  return line.slice(line.lastIndexOf(" ") + 1);
}

/** A fence without its end. The parser ignores a last line of blanks. */
class OpenFence {
  constructor(node, line, isEnd) {
    this.node = node;
    this.line = line;
    this.isEnd = isEnd;
  }

  static of(text, node) {
    const [opening, fence] = FENCE.exec(text) ?? [];
    if (opening === undefined) return undefined;
    const isEnd = new RegExp(`^ {0,3}\\${fence[0]}{${fence.length},}[ \\t]*$`, "m");
    const code = text.slice(opening.length);
    const line = lastLine(code);
    const shown = code.slice(0, code.length - blanksOf(line).length);
    return shows(node, shown) && !isEnd.test(code) ? new OpenFence(node, line, isEnd) : undefined;
  }

  /** Append text; false if it must be rendered. */
  append(added) {
    const lines = this.line + added;
    if (NOT_CODE.test(added) || this.isEnd.test(lines) || hasHidden(added)) return false;
    const grown = blanksOf(this.line) + added;
    this.line = lastLine(lines);
    this.node.appendData(grown.slice(0, grown.length - blanksOf(this.line).length));
    return true;
  }
}

function lastLine(text) {
  return text.slice(text.lastIndexOf("\n") + 1);
}

/** A line of blanks; empty for other lines. */
function blanksOf(line) {
  return /^[ \t]*$/.test(line) ? line : "";
}
