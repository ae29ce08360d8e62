/** Web addresses in texts, and links to them. */
import { el } from "./dom.js";

const MAX_ADDRESS_LENGTH = 2_000;
const MAX_COMPARED_LENGTH = 200; // of the text of a named link; the target of others is shown
const MAX_SHOWN_LENGTH = 200;

// Each character belongs to one match at most, so searching takes linear time.
const ADDRESS = /\bhttps?:\/\/[^\s<>"'`|\\^{}\0-\x1f\x7f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gi;
const HOST_LIKE = /(?:[\p{L}\p{N}_-]+[.\u3002\uff0e\uff61])+[\p{L}\p{N}-]{2,}|(?<=https?:\/\/)[^\s/]+/giu;
const MARKS_AFTER = new Set(".,;:!?*~…");
const PAIRS = { ")": "(", "]": "[" };
/** Last parts of file names that are no top-level domains, and those that are. */
const FILE_SUFFIX = /\.(?:c?[jt]sx?|m[jt]s|json[lc5]?|ya?ml|toml|html?|s?css|cpp|hpp|java|kt|rb|php|sql|txt|csv|svg|png|jpe?g|gif|pdf|ipynb|lock|xml|ini|cfg|conf|env|log|tar|gz|whl|exe|dll|vue|rst|tex|proto)$/i;
const FILE_OR_DOMAIN = /\.(?:cc|md|ml|pl|ps|py|rs|sh|so)$/i;
const DIRECTION_MARKS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** Attributes of links to other sites. */
export const OUTSIDE = { rel: "noopener noreferrer nofollow", target: "_blank" };

/** The normal form of an http or https address; undefined for other addresses. */
export function webAddress(address) {
  if (!URL.canParse(address)) return undefined;
  const url = new URL(address);
  return ["http:", "https:"].includes(url.protocol) ? url.href : undefined;
}

/** True for http and https addresses. */
export function isWebUrl(address) {
  return webAddress(address) !== undefined;
}

/**
 * A link to a web address.
 *
 * @param {string} href
 * @param {Record<string, any>} attributes
 * @param {...any} children
 */
export function webLink(href, attributes, ...children) {
  return el("a", { href, ...OUTSIDE, ...attributes }, ...children);
}

/**
 * A link with a name. Its target is its tooltip, and follows the name if that looks like another address.
 *
 * @param {string} href
 * @param {...any} children
 */
export function namedLink(href, ...children) {
  const link = webLink(href, { title: href }, ...children);
  if (!isHonest(link.textContent, href)) link.dataset.target = shownTarget(href);
  return link;
}

/**
 * The web addresses in a text, without punctuation after them.
 *
 * @param {string} text
 * @param {number} max
 * @returns {{start: number, end: number, href: string}[]}
 */
export function findAddresses(text, max) {
  const found = [];
  for (const { 0: match, index } of text.matchAll(ADDRESS)) {
    if (found.length >= max) break;
    if (match.length > MAX_ADDRESS_LENGTH) continue;
    const address = withoutMarks(match);
    const href = webAddress(address);
    if (href !== undefined) found.push({ start: index, end: index + address.length, href });
  }
  return found;
}

/** Remove punctuation at the end, and brackets that are not opened within the address. */
function withoutMarks(address) {
  const count = (mark) => address.split(mark).length - 1;
  const surplus = Object.fromEntries(Object.entries(PAIRS).map(([end, start]) => [end, count(end) - count(start)]));
  let end = address.length;
  for (; end > 0; end--) {
    const last = address[end - 1];
    if (surplus[last] > 0) surplus[last] -= 1;
    else if (!MARKS_AFTER.has(last)) break;
  }
  return address.slice(0, end);
}

/** False if the name of a link looks like another address than its target. */
function isHonest(name, href) {
  const text = name.normalize("NFKC").trim(); // other characters look like dots
  if (text.length > MAX_COMPARED_LENGTH || DIRECTION_MARKS.test(text)) return false;
  if (/^https?:\/\//i.test(text)) return webAddress(text) === href;
  const hosts = text.match(HOST_LIKE) ?? [];
  return hosts.every((host) => !URL.canParse(`http://${host}`) || hostOf(`http://${host}`) === hostOf(href));
}

function hostOf(address) {
  return new URL(address).hostname.replace(/^www\./, "");
}

/**
 * The host of a web or mail address if a text names another one, or is too long to be compared; otherwise undefined. The
 * names of files are no hosts.
 *
 * @param {string} text
 * @param {string} href
 */
export function hostBehind(text, href) {
  const { protocol, host, pathname, username } = new URL(href);
  const target = protocol === "mailto:" ? pathname.slice(pathname.lastIndexOf("@") + 1) : host;
  if (text.length > MAX_COMPARED_LENGTH) return webAddress(text) === href && !username ? undefined : target;
  const words = text.normalize("NFKC").replace(/\p{Cf}/gu, "").split(/\s+/);
  const hosts = words.flatMap((word) => namedHosts(word, pathname)).map((name) => `http://${name}`);
  const shown = URL.canParse(`http://${target}`) ? hostOf(`http://${target}`) : target;
  return hosts.some((name) => URL.canParse(name) && hostOf(name) !== shown) ? target : undefined;
}

/** The hosts that a word seems to name, also as the name of a user before the host, but not in a path. */
function namedHosts(word, pathname) {
  const [, scheme, authority] = word.match(/^[^\p{L}\p{N}]*(?:([a-z][a-z0-9+.-]*):\/\/)?([^/?#\\]*)/iu) ?? [];
  if (scheme) return authority.split("@").map((part) => part.replace(/[^\p{L}\p{N}\]]+$/u, ""));
  return (authority.match(HOST_LIKE) ?? []).filter((name) => !isFile(name, pathname));
}

/** True for the name of a file, and for a number such as 3.11. */
function isFile(name, pathname) {
  if (FILE_SUFFIX.test(name) || /\.\d+$/.test(name)) return true;
  return FILE_OR_DOMAIN.test(name) && pathname.endsWith(`/${name}`);
}

function shownTarget(href) {
  const { origin, pathname, search } = new URL(href);
  const target = `${origin}${pathname}${search}`;
  return target.length > MAX_SHOWN_LENGTH ? `${target.slice(0, MAX_SHOWN_LENGTH)}…` : target;
}
