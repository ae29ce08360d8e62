/** Mark the words of a search in an item, without changing its elements. */
import { ACCENTS, replaceAccented, withoutAccents } from "../lib/accents.js";
import { showLongTexts } from "../lib/long-text.js";
import { ITEM } from "./scroll-anchor.js";

const MAX_LENGTH = 3_000_000;
const MAX_MARKS = 1_000;
const MAX_OPENED = 500;
const MAX_PASSES = 6;

/** Words do not continue over the edges of these elements. */
const BLOCKS = "p, li, td, th, pre, div, summary, h1, h2, h3, h4, h5, h6, dt, dd, figure, details, .text-piece";
const EXPANDERS = ".json-more, .diff-gap";

export class HitMarks {
  /** @type {Element | undefined} */
  item;
  /** @type {RegExp | undefined} */
  pattern;
  /** The range of the current hit. @type {Range | undefined} */
  current;

  clear() {
    this.item = this.pattern = this.current = undefined;
    this.paint([]);
  }

  /**
   * Mark the hits in an item and open the parts that contain them; returns the first one in the part of an event.
   *
   * @param {Element} item
   * @param {string} eventId
   * @param {RegExp} pattern
   */
  async show(item, eventId, pattern) {
    this.item = item;
    this.pattern = pattern;
    const part = item.querySelector(`[data-event-id="${CSS.escape(eventId)}"]`) ?? item;
    const [range] = await revealed(item, part, pattern);
    if (this.item !== item) return undefined; // another hit was chosen in the meantime
    this.current = range;
    this.update();
    return range;
  }

  /** Mark again, after the item was painted. */
  update() {
    if (!this.pattern) return;
    this.paint(this.item?.isConnected ? findRanges(this.item, this.item, this.pattern) : []);
  }

  paint(ranges) {
    if (!globalThis.CSS?.highlights) return;
    CSS.highlights.set("hit", new Highlight(...ranges));
    CSS.highlights.set("current-hit", new Highlight(...(this.current ? [this.current] : [])));
  }
}

/**
 * The pattern of a query's words in texts of `replaceAccented`; undefined if it has none. As on the server, words match
 * by their beginning, and a phrase and words typed without blanks match in a row.
 *
 * @param {string} q
 */
export function hitPattern(q) {
  const terms = withoutAccents(q).match(/-?"[^"]*"?|\S+/g) ?? [];
  const patterns = terms.filter((term, index) => !isOperator(term, index, terms.length)).map(termPattern);
  const all = patterns.filter(Boolean).sort((one, other) => other.length - one.length);
  return all.length ? new RegExp(all.join("|"), "giu") : undefined;
}

function isOperator(term, index, count) {
  return /^-[^-]/.test(term) || (/^or$/i.test(term) && index > 0 && index < count - 1);
}

/** Scripts without blanks between words. */
const UNSPACED = /^[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}\p{sc=Lao}\p{sc=Mymr}\p{sc=Khmr}]/u;

function termPattern(term) {
  const words = term.match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
  if (!words.length) return "";
  const begin = UNSPACED.test(words[0]) ? "" : String.raw`(?<![\p{L}\p{N}])`;
  const end = term.startsWith('"') && !UNSPACED.test(words[words.length - 1]) ? String.raw`(?![\p{L}\p{N}])` : "";
  return begin + words.map(withOptionalAccents).join(String.raw`[^\p{L}\p{N}]+`) + end;
}

/** Texts may have accents as characters of their own, after the letters. */
function withOptionalAccents(word) {
  return /^[\p{sc=Latin}\p{sc=Greek}\p{sc=Cyrillic}\p{N}]+$/u.test(word) ? `${[...word].join(OPTIONAL)}${OPTIONAL}` : word;
}

const OPTIONAL = `[${ACCENTS}]*`;

/** The ranges in a part of an item. If there are none, open closed details in it, step by step. */
async function revealed(item, part, pattern) {
  const opened = [];
  for (let pass = 0; pass <= MAX_PASSES; pass += 1) {
    const ranges = findRanges(item, part, pattern);
    if (ranges.length) {
      opened.filter((details) => !ranges.some((range) => details.contains(range.startContainer))).forEach(close);
      openAround(ranges[0], item);
      return ranges;
    }
    if (pass === 0) showLongTexts(part);
    else if (!openMore(part, opened)) break;
    await nextFrame();
  }
  opened.forEach(close);
  return part === item ? [] : findRanges(item, item, pattern);
}

/** Open closed details and lists that are shown in part; false if there are none. */
function openMore(part, opened) {
  const closed = [...part.querySelectorAll("details:not([open])")].slice(0, MAX_OPENED - opened.length);
  const expanders = part.querySelectorAll(EXPANDERS);
  closed.forEach((details) => (details.open = true));
  expanders.forEach((button) => button.click());
  opened.push(...closed);
  return closed.length + expanders.length > 0;
}

function close(details) {
  details.open = false;
}

function openAround(range, item) {
  let details = range.startContainer.parentElement?.closest("details");
  while (details && item.contains(details)) {
    details.open = true;
    details = details.parentElement?.closest("details");
  }
}

/** The ranges of the pattern in the texts of a part of an item, without other items nested in it. */
function findRanges(item, part, pattern) {
  const { text, pieces } = joinTexts(item, part);
  const ranges = [];
  let index = 0;
  for (const { 0: hit, index: start } of replaceAccented(text).matchAll(pattern)) {
    while (index + 1 < pieces.length && pieces[index + 1].start <= start) index += 1;
    const range = document.createRange();
    range.setStart(pieces[index].node, start - pieces[index].start);
    const last = pieces.findLast((piece) => piece.start < start + hit.length);
    range.setEnd(last.node, Math.min(start + hit.length - last.start, last.node.length));
    if (ranges.push(range) === MAX_MARKS) break;
  }
  return ranges;
}

/** The text of a part, with a line end where a block begins, and where its text nodes start in it. */
function joinTexts(item, part) {
  const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
  const pieces = [];
  let text = "";
  let block;
  while (walker.nextNode() && text.length < MAX_LENGTH) {
    const node = /** @type {Text} */ (walker.currentNode);
    const { parentElement: parent } = node;
    if (parent?.closest(ITEM) !== item || parent?.closest(".visually-hidden, .text-rest")) continue;
    const own = parent?.closest(BLOCKS);
    if (own !== block && text) text += "\n";
    block = own;
    pieces.push({ node, start: text.length });
    text += node.data;
  }
  return { text, pieces };
}

function nextFrame() {
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}
