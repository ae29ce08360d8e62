/** Footnotes: references such as `[^1]`, and definitions at the beginning of lines, which are shown at the end. */

import { el } from "../dom.js";

const DEFINITION = /\[\^([^\]\s]{1,100})\]:/y;
const REFERENCE = /\[\^([^\]\s]{1,100})\]/y;
const INDENT = 4;

export function useFootnotes(parser) {
  parser.block.ruler.before("reference", "footnote_definition", parseDefinition, { alt: ["paragraph", "reference"] });
  parser.inline.ruler.before("link", "footnote_reference", parseReference);
  parser.core.ruler.after("inline", "footnotes", collectFootnotes);
}

/** A definition at the top level, with blocks that are indented by four blanks. */
function parseDefinition(state, startLine, endLine, silent) {
  const start = state.bMarks[startLine] + state.tShift[startLine];
  const isInside = state.level > 0 && !(silent && state.sCount[startLine] < state.blkIndent);
  if (isInside || state.sCount[startLine] >= INDENT) return false;
  DEFINITION.lastIndex = start;
  const match = DEFINITION.exec(state.src);
  const { footnotes = new Map() } = state.env;
  if (!match || footnotes.has(match[1])) return false;
  if (silent) return true;
  state.env.footnotes = footnotes;
  const opening = state.push("footnote_open", "li", 1);
  opening.meta = { references: 0 };
  opening.attrs = [["tabindex", "-1"]]; // the target of its marks
  footnotes.set(match[1], opening);
  tokenizeDefinition(state, startLine, endLine, start + match[0].length);
  opening.map = [startLine, state.line];
  state.push("footnote_close", "li", -1).meta = opening.meta;
  return true;
}

function tokenizeDefinition(state, line, endLine, start) {
  const { bMarks, tShift, sCount, parentType } = state;
  const before = [bMarks[line], tShift[line], sCount[line]];
  bMarks[line] = start;
  tShift[line] = state.src.slice(start, state.eMarks[line]).match(/^[ \t]*/)[0].length;
  sCount[line] = INDENT;
  state.blkIndent += INDENT;
  state.parentType = "footnote";
  state.md.block.tokenize(state, line, endLine, true);
  state.parentType = parentType;
  state.blkIndent -= INDENT;
  [bMarks[line], tShift[line], sCount[line]] = before;
}

function parseReference(state, silent) {
  REFERENCE.lastIndex = state.pos;
  const match = state.env.footnotes && REFERENCE.exec(state.src);
  const note = match && state.env.footnotes.get(match[1]);
  if (!note || state.pos + match[0].length > state.posMax) return false;
  if (!silent) {
    state.push("footnote_reference", "sup", 0).meta = note.meta;
    note.meta.references += 1;
  }
  state.pos += match[0].length;
  return true;
}

/**
 * Move the definitions to the end, numbered in the order of their first references; those without a reference follow.
 */
function collectFootnotes(state) {
  if (!state.env.footnotes) return;
  const body = [];
  const notes = new Map();
  let current = body;
  for (const token of state.tokens) {
    if (token.type === "footnote_open") notes.set(token.meta, (current = []));
    current.push(token);
    if (token.type === "footnote_close") current = body;
  }
  const order = new Set(notesReferredTo(body));
  for (const note of order) notesReferredTo(notes.get(note)).forEach((next) => order.add(next));
  for (const note of notes.keys()) order.add(note);
  [...order].forEach((note, index) => (note.number = index + 1));
  state.tokens = [...body, ...listTokens([...order].map((note) => notes.get(note)), state.Token)];
}

function notesReferredTo(tokens) {
  const references = tokens.flatMap(({ children }) => children ?? []).filter(({ type }) => type === "footnote_reference");
  return references.map(({ meta }) => meta);
}

function listTokens(notes, Token) {
  const open = new Token("footnotes_open", "ol", 1);
  open.attrs = [["class", "footnotes"]];
  return [open, ...notes.flatMap((note) => withBackLink(note, Token)), new Token("footnotes_close", "ol", -1)];
}

/** Add the link back to the text to the last paragraph of a note. */
function withBackLink(tokens, Token) {
  if (!tokens[0].meta.references) return tokens;
  const link = new Token("footnote_back", "a", 0);
  link.meta = tokens[0].meta;
  const place = tokens.at(-2).type === "paragraph_close" ? -2 : -1;
  return [...tokens.slice(0, place), link, ...tokens.slice(place)];
}

/** The mark of a note in the text: a link to it. The elements have no ids, so equal texts do not share any. */
export function referenceMark({ meta: { number } }) {
  const mark = footnoteLink(number, `Footnote ${number}`, String(number), (link) => noteOf(link, number));
  return el("sup", { class: "footnote-mark" }, mark);
}

/** The link from a note to its first mark in the text. */
export function backLink({ meta: { number } }) {
  return footnoteLink(number, `Back to footnote ${number} in the text`, "↩\ufe0e", (link) => {
    const text = listOf(link)?.parentElement;
    return text?.querySelector(`.footnote-mark > [data-footnote="${number}"]`);
  });
}

function footnoteLink(number, label, text, target) {
  const link = el("a", { href: `#footnote-${number}`, "aria-label": label, "data-footnote": number }, text);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const element = target(link);
    element?.scrollIntoView({ block: "nearest" });
    element?.focus({ preventScroll: true });
  });
  return link;
}

function noteOf(link, number) {
  return listOf(link)?.children[number - 1];
}

/** The list of notes of the text that contains an element. */
function listOf(element) {
  for (let at = element.parentElement; at; at = at.parentElement) {
    const list = at.querySelector(":scope > .footnotes");
    if (list) return list;
  }
  return undefined;
}
