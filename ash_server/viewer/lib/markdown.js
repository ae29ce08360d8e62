import { el } from "./dom.js";
import { default as markdownIt } from "../vendor/markdown-it-15.0.3/markdown-it.esm.min.mjs";

// What is longer, fuller of marks or deeper is shown as it was written: no text may hold up the page.
const LONGEST = 150_000;
const MOST_MARKS = 10_000;
const DEEPEST = 40;
const MARK = /[\n*_~`[\]()<>!|&\\:]/g;
const RUN_OF_MARKS = /([*_~`[\]()<>!|])\1{100}/;
const LONGEST_WORD = 1_000; // in a longer one no bare link is looked for

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const ADDRESS_SHOWN = 200;
const OWN_DIRECTION = "p, h1, h2, h3, h4, h5, h6, li, th, td";

const parser = markdownIt({ html: false, typographer: false, maxNesting: DEEPEST });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false }).add("ftp:", null).add("//", null);
// Every address is read, and stays as it was written: which of them becomes a link is decided below.
parser.validateLink = () => true;
parser.normalizeLink = (address) => address;
parser.normalizeLinkText = (address) => address;
parser.core.ruler.push("shape", (state) => state.tokens.forEach((token) => shape(token, state.Token)));

/** What a token becomes: what has no line here is an element of its own, of its tag and its attributes. */
const LEAVES = {
  text: ({ content }) => content,
  softbreak: (_, { breaks }) => (breaks ? el("br") : "\n"),
  hardbreak: () => el("br"),
  code_inline: ({ content }) => el("code", {}, content),
  code_block: ({ content }) => code(content),
  fence: ({ content, info }) => code(content, languageOf(info)),
};

/**
 * Markdown as elements: no HTML of its own, no picture that is fetched, no link but to the web and to mail.
 * With `breaks` each line end is one, as people mean it in prompts.
 */
export function markdown(text, { breaks = false } = {}) {
  if (isTooMuch(text)) return plain(text);
  parser.options.linkify = !text.split(/\s/).some((word) => word.length > LONGEST_WORD);
  const tokens = parser.parse(text, {});
  if (depth(tokens) >= DEEPEST) return plain(text); // the parser leaves out what is deeper
  const fragment = document.createDocumentFragment();
  build(fragment, tokens, { breaks });
  fragment.querySelectorAll("table").forEach(frame);
  return directed(fragment);
}

/** Elements are made of what the parser found; no text is ever read as HTML, which the page's policy forbids. */
function build(root, tokens, options) {
  const open = [root];
  for (const token of tokens) {
    if (token.hidden) continue;
    if (token.nesting < 0) open.pop();
    else if (token.type === "inline") build(open.at(-1), token.children, options);
    else {
      const made = LEAVES[token.type]?.(token, options) ?? el(token.tag, Object.fromEntries(token.attrs ?? []));
      open.at(-1).append(made);
      if (token.nesting > 0) open.push(made);
    }
  }
}

/** A table that is too wide is scrolled in a box of its own. */
function frame(table) {
  const box = el("div", { class: "table", role: "region", tabindex: "0", "aria-label": "Table" });
  table.replaceWith(box);
  box.append(table);
}

/** From the inside out, on what is finished: in any other order a browser reads the text again and again. */
function directed(fragment) {
  const blocks = [...fragment.querySelectorAll(OWN_DIRECTION)].reverse();
  blocks.forEach((block) => block.setAttribute("dir", "auto"));
  return fragment;
}

function isTooMuch(text) {
  return text.length > LONGEST || RUN_OF_MARKS.test(text) || (text.match(MARK)?.length ?? 0) > MOST_MARKS;
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
  fragment.append(el("pre", { class: "plain", dir: "auto", tabindex: "0" }, text));
  return fragment;
}

function shape(token, Token) {
  if (token.type === "inline") token.children = withLinks(token.children, Token);
  const align = token.attrGet("style")?.match(/^text-align:(\w+)$/);
  if (align) token.attrs = [["class", `align-${align[1]}`]]; // the policy forbids styles
}

function withLinks(tokens, Token) {
  const shown = [];
  let opened = null; // where in `shown` the link began that is not yet closed
  for (const token of tokens) {
    if (token.type === "image") shown.push(...picture(token, opened !== null, Token));
    else if (token.type === "link_open") opened = shown.push(link(token)) - 1;
    else if (token.type === "link_close") {
      shown.push(...linkEnd(token, shown.slice(opened), Token));
      opened = null;
    } else shown.push(token);
  }
  return shown;
}

function link(token) {
  const address = token.attrGet("href");
  const href = webAddress(address);
  token.meta = { address, isDead: href === null };
  token.tag = href === null ? "span" : "a";
  token.attrs = [
    ...(href === null ? [["class", "dead-link"]] : toWeb(href)),
    ...(token.attrs ?? []).filter(([name]) => name === "title"),
  ];
  return token;
}

function toWeb(href) {
  return Object.entries({ href, rel: "noopener noreferrer nofollow", target: "_blank" });
}

function linkEnd(token, [opening, ...inside], Token) {
  const { address, isDead } = opening.meta;
  token.tag = opening.tag;
  const isSaid = inside.map(({ content }) => content).join("") === address;
  return isDead && !isSaid ? [token, ...beside("link-address", `(${address})`, Token)] : [token];
}

/** A picture is never fetched: a link leads to it, or, within a link, its text stands for it. */
function picture(token, isInLink, Token) {
  const address = token.attrGet("src");
  const href = webAddress(address);
  const alt = parser.renderer.renderInlineAsText(token.children, parser.options, {}) || "image";
  const isLink = href !== null && !isInLink;
  const attributes = [["class", "remote-image"], ...(isLink ? toWeb(href) : [])];
  const [open, text, close] = wrapped(isLink ? "a" : "span", attributes, alt, Token);
  const where = href === null ? ["link-address", `(${address})`] : ["host", new URL(href).host];
  return [open, text, ...beside(...where, Token), close];
}

function beside(name, content, Token) {
  const isLong = content.length > ADDRESS_SHOWN;
  const shown = isLong ? `${content.slice(0, ADDRESS_SHOWN)}… ${content.length} characters)` : content;
  return [textToken(" ", Token), ...wrapped("span", [["class", name]], shown, Token)];
}

function wrapped(tag, attributes, content, Token) {
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
  return el("pre", { class: "code", dir: "ltr", tabindex: "0", "data-language": language }, inner);
}
