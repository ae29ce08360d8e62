import { copyable } from "./clipboard.js";
import { el } from "./dom.js";
import { hasRightToLeft, markHidden, startsRightToLeft } from "./hidden-characters.js";
import { longText } from "./long-text.js";
import { markAlerts } from "./markdown/alerts.js";
import { backLink, referenceMark, useFootnotes } from "./markdown/footnotes.js";
import { formula } from "./markdown/formulas.js";
import { hasOpenDetails, useHtmlTags } from "./markdown/html-tags.js";
import { useLinks, withLinks, wrapText } from "./markdown/links.js";
import { hasOpenMath, useMath } from "./markdown/math.js";
import { default as markdownIt } from "../vendor/markdown-it-15.0.3/markdown-it.esm.min.mjs";

// Text beyond these limits is shown as plain text, so that no text blocks the page.
const MAX_LENGTH = 150_000;
const MAX_MARKS = 10_000;
const MAX_DEPTH = 40;
const MARK = /[\n*_~`[\]()<>!|&\\:]/g;
const RUN_OF_MARKS = /([*_~`[\]()<>!])\1{100}/;

const OWN_DIRECTION = new Set(["p", "h3", "h4", "h5", "h6", "li", "th", "td", "summary"]);
/** Elements with bullets, a bar or columns on the side where their text begins. */
const SIDED = new Set(["ul", "ol", "blockquote", "div", "table", "details"]);
/** Headings of content are below the title of the page and the headings of days. */
const HEADINGS = { h1: "h3", h2: "h4", h3: "h5", h4: "h6", h5: "h6", h6: "h6" };

const parser = markdownIt({ html: false, linkify: true, typographer: false, maxNesting: MAX_DEPTH });
useLinks(parser);
useHtmlTags(parser);
useFootnotes(parser);
useMath(parser);
parser.core.ruler.before("inline", "alerts", markAlerts);
parser.core.ruler.push("shape", (state) => {
  const { tokens, Token } = state;
  tokens.forEach((token) => transformToken(token, state));
  tokens.forEach((token, index) => isItemStart(tokens, index) && markTask(token.children, Token));
});

/** The mark at the start of an item of a task list. */
const TASK_MARK = /^\[([ xX])\](?=\s)/;

/** Token types that do not become an element with the token's tag and attributes. */
const LEAVES = {
  text: ({ content }, { isRightToLeft }) => markHidden(content, isRightToLeft ? "right-to-left prose" : "prose"),
  softbreak: (_, { breaks }) => [breaks ? el("br") : "\n"],
  hardbreak: () => [el("br")],
  code_inline: ({ content }, options) => [el("code", { dir: options.isRightToLeft && "ltr" }, ...markHidden(content))],
  code_block: ({ content }) => [code(content)],
  fence: ({ content, info }) => [code(content, languageOf(info))],
  math_inline: ({ content }) => [formula("span", content)],
  math_block: ({ content }) => [formula("div", content)],
  footnote_reference: (token) => [referenceMark(token)],
  footnote_back: (token) => [" ", backLink(token)],
};

/**
 * Render Markdown as elements. HTML stays text except for six tags without attributes, images are not fetched, and only
 * web and mail addresses become links.
 *
 * @param {string} text
 * @param {{breaks?: boolean}} [options] `breaks` keeps line ends, as in prompts
 */
export function markdown(text, { breaks = false } = {}) {
  if (isTooLarge(text)) return plain(text);
  const fragment = document.createDocumentFragment();
  const canBeRightToLeft = hasRightToLeft(text);
  for (const tokens of topLevelBlocks(parser.parse(text, {}))) {
    const isRightToLeft = canBeRightToLeft && tokens.some(({ content }) => hasRightToLeft(content));
    if (depth(tokens) < MAX_DEPTH) build(fragment, tokens, { breaks, isRightToLeft });
    else fragment.append(plain(sourceOf(tokens, text))); // the parser drops deeper content
  }
  return fragment;
}

/** True if a text is shown as plain text because it is too large. */
export function isTooLarge(text) {
  return text.length > MAX_LENGTH || RUN_OF_MARKS.test(text) || (text.match(MARK)?.length ?? 0) > MAX_MARKS;
}

/** True if a text may define links or footnotes, which change other blocks. */
export function reachesAcrossBlocks(text) {
  return /(?:^|<details>|<\/summary>)[ \t>*+\-\d.)]*\[(?:[^\]\\]|\\[^]){1,999}\]:/im.test(text);
}

/**
 * The number of characters at the beginning of a text that text added later does not change: all top-level blocks but
 * the last one. Rendering both parts equals rendering the text, unless it `reachesAcrossBlocks` or `isTooLarge`.
 *
 * @param {string} text
 */
export function closedLength(text) {
  const tokens = [];
  parser.block.parse(text.replace(/\r\n?/g, "\n"), parser, {}, tokens);
  const blocks = topLevelBlocks(tokens);
  const isOpen = ([{ type }, inline]) =>
    type === "paragraph_open" && (hasOpenDetails(inline.content) || hasOpenMath(inline.content));
  const last = blocks.find(isOpen) ?? blocks.at(-1);
  return last === undefined ? 0 : lineStart(text, last[0].map[0]);
}

/** The tokens of each block at the top level. */
function topLevelBlocks(tokens) {
  const blocks = [];
  let level = 0;
  for (const token of tokens) {
    if (level === 0) blocks.push([]);
    blocks.at(-1).push(token);
    level += token.nesting;
  }
  return blocks;
}

/** The lines of a block; all lines for the list of footnotes, which is not a part of the text. */
function sourceOf([{ map }], text) {
  return map ? text.slice(lineStart(text, map[0]), lineStart(text, map[1])).replace(/[\r\n]+$/, "") : text;
}

/** The position where a line begins. */
function lineStart(text, line) {
  const ends = /\r\n?|\n/g;
  for (let count = 0; count < line; count += 1) if (!ends.exec(text)) return text.length;
  return ends.lastIndex;
}

/** Build elements from tokens. No text is parsed as HTML, which the page's policy forbids. */
function build(root, tokens, options) {
  const open = [root];
  for (const token of tokens) {
    if (token.hidden) continue;
    if (token.nesting < 0) finish(open.pop(), token, options);
    else if (token.type === "inline") build(open.at(-1), token.children, options);
    else {
      const nodes = LEAVES[token.type]?.(token, options) ?? [el(token.tag, Object.fromEntries(token.attrs ?? []))];
      for (const node of nodes) open.at(-1).append(node);
      if (token.nesting > 0) open.push(nodes[0]);
    }
  }
}

/**
 * Finish an element when it has its content. Setting `dir=auto` earlier, or on an outer element before the inner ones,
 * makes the browser resolve the direction repeatedly.
 */
function finish(element, { tag }, { isRightToLeft }) {
  if (OWN_DIRECTION.has(tag) && element.className !== "alert-title") element.setAttribute("dir", "auto");
  else if (isRightToLeft && SIDED.has(tag)) element.setAttribute("dir", sideOf(element));
  if (tag === "table") wrapTable(element);
}

/** The side where an element begins. Its parts have own directions, so `dir=auto` would not consider their letters. */
function sideOf(element) {
  const first = element.querySelector(":scope > :not(.alert-title)") ?? element;
  return startsRightToLeft(first.textContent) ? "rtl" : "ltr";
}

/** Put a table into a scrollable box. */
function wrapTable(table) {
  const dir = table.getAttribute("dir");
  const box = el("div", { class: "table", dir, role: "region", tabindex: "0", "aria-label": "Table" });
  table.replaceWith(box);
  box.append(table);
}

function depth(tokens) {
  let level = 0;
  return tokens.reduce((deepest, token) => {
    level += token.nesting;
    return Math.max(deepest, level, token.children ? depth(token.children) : 0);
  }, 0);
}

function plain(text) {
  const fragment = document.createDocumentFragment();
  fragment.append(el("pre", { class: "plain", dir: "auto", tabindex: "0" }, ...longText(text)));
  return fragment;
}

function transformToken(token, state) {
  if (token.type === "inline") token.children = withLinks(token.children, state);
  if (token.tag in HEADINGS) token.tag = HEADINGS[token.tag];
  const align = token.attrGet("style")?.match(/^text-align:(\w+)$/);
  if (align) token.attrs = [["class", `align-${align[1]}`]]; // the policy forbids styles
}

/** True for the text at the start of a list item. */
function isItemStart(tokens, index) {
  const [item, paragraph] = [tokens[index - 2], tokens[index - 1]].map((token) => token?.type);
  return tokens[index].type === "inline" && item === "list_item_open" && paragraph === "paragraph_open";
}

/** Wrap the mark of a task, which stays text: it is shown as a box. */
function markTask(children, Token) {
  const [first] = children;
  const match = first?.type === "text" && first.content.match(TASK_MARK);
  if (!match) return;
  first.content = first.content.slice(match[0].length);
  const name = match[1] === " " ? "task-mark" : "task-mark task-done";
  const attributes = [["class", name], ["dir", "ltr"]]; // so that its x is not the first letter of the item
  children.unshift(...wrapText("span", attributes, match[0], Token));
}

function languageOf(info) {
  return info.match(/^\s*\{?\.?([\w+#.-]{1,32})/)?.[1].toLowerCase();
}

function code(text, language) {
  const inner = el("code", { class: language && `language-${language}` }, ...markHidden(text));
  const box = el("pre", { class: "code", dir: "ltr", tabindex: "0", "data-language": language }, inner);
  return copyable(box, "code");
}
