import { copyable } from "./clipboard.js";
import { el } from "./dom.js";
import { longText } from "./long-text.js";
import { default as markdownIt } from "../vendor/markdown-it-15.0.3/markdown-it.esm.min.mjs";

// Text beyond these limits is shown as plain text, so that no text blocks the page.
const MAX_LENGTH = 150_000;
const MAX_MARKS = 10_000;
const MAX_DEPTH = 40;
const MARK = /[\n*_~`[\]()<>!|&\\:]/g;
const RUN_OF_MARKS = /([*_~`[\]()<>!|])\1{100}/;
const MAX_LINKIFIED_WORD = 1_000; // a text with a longer word is not searched for bare links

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const MAX_ADDRESS_LENGTH = 200;
const OWN_DIRECTION = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "th", "td"]);

const parser = markdownIt({ html: false, typographer: false, maxNesting: MAX_DEPTH });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false }).add("ftp:", null).add("//", null);
// The parser accepts every address unchanged; rewriteLink decides which of them become links.
parser.validateLink = () => true;
parser.normalizeLink = (address) => address;
parser.normalizeLinkText = (address) => address;
parser.core.ruler.push("shape", ({ tokens, Token }) => {
  tokens.forEach((token) => transformToken(token, Token));
  tokens.forEach((token, index) => isItemStart(tokens, index) && markTask(token.children, Token));
});

/** The mark at the start of an item of a task list. */
const TASK_MARK = /^\[([ xX])\](?=\s)/;

/** Token types that do not become an element with the token's tag and attributes. */
const LEAVES = {
  text: ({ content }) => content,
  softbreak: (_, { breaks }) => (breaks ? el("br") : "\n"),
  hardbreak: () => el("br"),
  code_inline: ({ content }) => el("code", {}, content),
  code_block: ({ content }) => code(content),
  fence: ({ content, info }) => code(content, languageOf(info)),
};

/**
 * Render Markdown as elements. HTML stays text, images are not fetched, and only web and mail addresses become links.
 *
 * @param {string} text
 * @param {{breaks?: boolean}} [options] `breaks` keeps line ends, as in prompts
 */
export function markdown(text, { breaks = false } = {}) {
  if (isTooLarge(text)) return plain(text);
  parser.options.linkify = !text.split(/\s/).some((word) => word.length > MAX_LINKIFIED_WORD);
  const tokens = parser.parse(text, {});
  if (depth(tokens) >= MAX_DEPTH) return plain(text); // the parser drops deeper content
  const fragment = document.createDocumentFragment();
  build(fragment, tokens, { breaks });
  return fragment;
}

/** Build elements from tokens. No text is parsed as HTML, which the page's policy forbids. */
function build(root, tokens, options) {
  const open = [root];
  for (const token of tokens) {
    if (token.hidden) continue;
    if (token.nesting < 0) finish(open.pop(), token);
    else if (token.type === "inline") build(open.at(-1), token.children, options);
    else {
      const node = LEAVES[token.type]?.(token, options) ?? el(token.tag, Object.fromEntries(token.attrs ?? []));
      open.at(-1).append(node);
      if (token.nesting > 0) open.push(node);
    }
  }
}

/**
 * Finish an element when it has its content. Setting `dir=auto` earlier, or on an outer element before the inner ones,
 * makes the browser resolve the direction repeatedly.
 */
function finish(element, { tag }) {
  if (OWN_DIRECTION.has(tag)) element.setAttribute("dir", "auto");
  if (tag === "table") wrapTable(element);
}

/** Put a table into a scrollable box. */
function wrapTable(table) {
  const box = el("div", { class: "table", role: "region", tabindex: "0", "aria-label": "Table" });
  table.replaceWith(box);
  box.append(table);
}

function isTooLarge(text) {
  return text.length > MAX_LENGTH || RUN_OF_MARKS.test(text) || (text.match(MARK)?.length ?? 0) > MAX_MARKS;
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

function transformToken(token, Token) {
  if (token.type === "inline") token.children = withLinks(token.children, Token);
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
  children.unshift(...wrapText("span", [["class", name]], match[0], Token));
}

function withLinks(tokens, Token) {
  const output = [];
  /** The index in `output` of the link that is open. @type {number | undefined} */
  let linkStart;
  for (const token of tokens) {
    if (token.type === "image") output.push(...imageTokens(token, linkStart !== undefined, Token));
    else if (token.type === "link_open") linkStart = output.push(rewriteLink(token)) - 1;
    else if (token.type === "link_close") {
      output.push(...linkEndTokens(token, output.slice(linkStart), Token));
      linkStart = undefined;
    } else output.push(token);
  }
  return output;
}

function rewriteLink(token) {
  const address = token.attrGet("href");
  const href = webAddress(address);
  token.meta = { address, isDead: href === null };
  token.tag = href === null ? "span" : "a";
  token.attrs = [
    ...(href === null ? [["class", "dead-link"]] : webLinkAttributes(href)),
    ...(token.attrs ?? []).filter(([name]) => name === "title"),
  ];
  return token;
}

function webLinkAttributes(href) {
  return Object.entries({ href, rel: "noopener noreferrer nofollow", target: "_blank" });
}

function linkEndTokens(token, linkTokens, Token) {
  const [opening, ...inside] = linkTokens;
  const { address, isDead } = opening.meta;
  token.tag = opening.tag;
  const isAddressShown = inside.map(({ content }) => content).join("") === address;
  return isDead && !isAddressShown ? [token, ...suffixTokens("link-address", `(${address})`, Token)] : [token];
}

/** A link to an image, which is never fetched; inside another link, only its text. */
function imageTokens(token, isInLink, Token) {
  const address = token.attrGet("src");
  const href = webAddress(address);
  const alt = parser.renderer.renderInlineAsText(token.children, parser.options, {}) || "image";
  const isLink = href !== null && !isInLink;
  const attributes = [["class", "remote-image"], ...(isLink ? webLinkAttributes(href) : [])];
  const [open, text, close] = wrapText(isLink ? "a" : "span", attributes, alt, Token);
  const suffix =
    href === null
      ? suffixTokens("link-address", `(${address})`, Token)
      : suffixTokens("host", new URL(href).host, Token);
  return [open, text, ...suffix, close];
}

function suffixTokens(name, content, Token) {
  const isLong = content.length > MAX_ADDRESS_LENGTH;
  const shown = isLong ? `${content.slice(0, MAX_ADDRESS_LENGTH)}… ${content.length} characters)` : content;
  return [textToken(" ", Token), ...wrapText("span", [["class", name]], shown, Token)];
}

function wrapText(tag, attributes, content, Token) {
  const open = new Token(`${tag}_open`, tag, 1);
  open.attrs = attributes;
  return [open, textToken(content, Token), new Token(`${tag}_close`, tag, -1)];
}

function textToken(content, Token) {
  return Object.assign(new Token("text", "", 0), { content });
}

function webAddress(address) {
  if (!URL.canParse(address)) return null;
  const url = new URL(address);
  return SCHEMES.has(url.protocol) ? url.href : null;
}

function languageOf(info) {
  return info.match(/^\s*\{?\.?([\w+#.-]{1,32})/)?.[1].toLowerCase();
}

function code(text, language) {
  const inner = el("code", { class: language && `language-${language}` }, text);
  const box = el("pre", { class: "code", dir: "ltr", tabindex: "0", "data-language": language }, inner);
  return copyable(box, "code");
}
