/** Links and images of Markdown: only web and mail addresses become links, and nothing is fetched. */
import { OUTSIDE, hostBehind } from "../web-links.js";

const LONG_WORD_AT_START = /^\S{1001}/; // such words are not searched for bare links
const MAX_ADDRESS_LENGTH = 256; // a host has 253 characters at most
const SCHEMES = new Set(["http:", "https:", "mailto:"]);
/** The end of a mail address; not versions (`pkg@1.2.3`) and densities (`icon@2x.png`). */
const MAIL_HOST = /@(?!\d+x\.)[\p{L}\p{N}.-]+\.\p{L}{2,}$/u;
/** Text after a mail address that makes it a remote path, as in `git@host.example:path`. */
const REMOTE_PATH = /^(?::\S|\/)/;

/** Configure a parser to search for bare web and mail addresses, and to accept the addresses of all links. */
export function useLinks(parser) {
  const { linkify } = parser;
  linkify.set({ fuzzyLink: false, fuzzyEmail: true, fuzzyIP: false }).add("ftp:", null).add("//", null);
  const { test, match, matchAtStart } = linkify;
  linkify.test = (text) => !text.split(/\s/).some((word) => LONG_WORD_AT_START.test(word)) && test.call(linkify, text);
  linkify.matchAtStart = (text) => (LONG_WORD_AT_START.test(text) ? null : matchAtStart.call(linkify, text));
  linkify.match = (text) => (match.call(linkify, text) ?? []).filter((link) => link.schema !== "mailto:" || isMail(text, link));
  // The parser accepts every address unchanged; rewriteLink decides which of them become links.
  parser.validateLink = () => true;
  parser.normalizeLink = (address) => address;
  parser.normalizeLinkText = (address) => address;
}

function isMail(text, { raw, lastIndex }) {
  return MAIL_HOST.test(raw) && !REMOTE_PATH.test(text.slice(lastIndex, lastIndex + 2));
}

/** Replace the links and images among the tokens of a paragraph. */
export function withLinks(tokens, { Token, md }) {
  const output = [];
  /** The index in `output` of the link that is open. @type {number | undefined} */
  let linkStart;
  for (const token of tokens) {
    if (token.type === "image") output.push(...imageTokens(token, linkStart !== undefined, Token, md));
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
  const href = linkAddress(address);
  token.meta = { address, isDead: href === null };
  token.tag = href === null ? "span" : "a";
  token.attrs = [
    ...(href === null ? [["class", "dead-link"]] : linkAttributes(href)),
    ...(token.attrs ?? []).filter(([name]) => name === "title"),
  ];
  return token;
}

function linkAttributes(href) {
  return Object.entries({ href, ...OUTSIDE });
}

function linkEndTokens(token, linkTokens, Token) {
  const [opening, ...inside] = linkTokens;
  const { address, isDead } = opening.meta;
  token.tag = opening.tag;
  const text = inside.filter(({ meta }) => !meta?.isSuffix).map(({ content }) => content).join("");
  const target = isDead ? text !== address && address : hostBehind(text, opening.attrGet("href"));
  return target ? [token, ...suffixTokens("link-address", `(${target})`, Token)] : [token];
}

/** A link to an image, which is never fetched; inside another link, only its text. */
function imageTokens(token, isInLink, Token, md) {
  const address = token.attrGet("src");
  const href = linkAddress(address);
  const alt = md.renderer.renderInlineAsText(token.children, md.options, {}) || "image";
  const isLink = href !== null && !isInLink;
  const attributes = [["class", "remote-image"], ...(isLink ? linkAttributes(href) : [])];
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
  const tokens = [textToken(" ", Token), ...wrapText("span", [["class", name]], shown, Token)];
  return tokens.map((token) => Object.assign(token, { meta: { isSuffix: true } }));
}

/** A text in an element. */
export function wrapText(tag, attributes, content, Token) {
  const open = new Token(`${tag}_open`, tag, 1);
  open.attrs = attributes;
  return [open, textToken(content, Token), new Token(`${tag}_close`, tag, -1)];
}

function textToken(content, Token) {
  return Object.assign(new Token("text", "", 0), { content });
}

/** The normal form of a web or mail address; null for other addresses. */
function linkAddress(address) {
  if (!URL.canParse(address)) return null;
  const url = new URL(address);
  return SCHEMES.has(url.protocol) ? url.href : null;
}
