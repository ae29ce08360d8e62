/**
 * Long texts. The beginning is shown at once, the rest on request, in pieces that the browser lays out only where they
 * are in view: laying out a megabyte of text at once takes seconds.
 */
import { button, el } from "./dom.js";
import { markHidden } from "./hidden-characters.js";
import { pluralize } from "./number-format.js";

const MAX_FIRST_LENGTH = 10_000;
const MAX_FIRST_LINES = 500;
const MAX_PIECE_LENGTH = 5_000;
const MAX_PIECE_LINES = 200;
const MAX_ESCAPE_LENGTH = 120;

/**
 * The nodes of a text; if it is long, of its beginning, and a button for the rest.
 *
 * @param {string} text
 * @param {(part: string) => any[]} [paint] is called with the parts of the text, in order
 * @returns {any[]}
 */
export function longText(text, paint = (part) => markHidden(part)) {
  const first = partAt(text, 0, MAX_FIRST_LENGTH, MAX_FIRST_LINES);
  const nodes = paint(first);
  if (first.length === text.length) return nodes;
  const more = button({ class: "text-rest" }, `Show all ${pluralize(text.length, "character")}`, () => {
    more.parentElement?.addEventListener("copy", copyExactly);
    more.parentElement?.closest("pre")?.focus({ preventScroll: true });
    more.replaceWith(...pieces(text, first.length).map((part) => el("span", { class: "text-piece" }, ...paint(part))));
  });
  return [...nodes, more];
}

/** Show all of the long texts in an element. */
export function showLongTexts(element) {
  element.querySelectorAll(".text-rest").forEach((more) => more.click());
}

function pieces(text, start) {
  const parts = [];
  for (let at = start; at < text.length; at += parts[parts.length - 1].length) {
    parts.push(partAt(text, at, MAX_PIECE_LENGTH, MAX_PIECE_LINES));
  }
  return parts;
}

/** The part of a text from `start` within the limits: whole lines, if they are not very long. */
function partAt(text, start, maxLength, maxLines) {
  const part = text.slice(start, start + maxLength);
  const lineEnds = [...part.matchAll(/\n/g)].map(({ index }) => index + 1);
  if (lineEnds.length >= maxLines) return part.slice(0, lineEnds[maxLines - 1]);
  if (start + maxLength >= text.length) return part;
  const lastLine = lineEnds.at(-1) ?? 0;
  return part.slice(0, lastLine > maxLength / 2 ? lastLine : endWithinLine(part));
}

/** The end of a part, moved before a character or an escape sequence that is cut. */
function endWithinLine(part) {
  const escape = part.lastIndexOf("\x1b");
  if (escape > 0 && part.length - escape < MAX_ESCAPE_LENGTH) return escape;
  return part.length - Number(/[\ud800-\udbff]$/.test(part));
}

/** Copy the text of a selection without the line ends that browsers insert between the pieces. */
function copyExactly(event) {
  const range = getSelection()?.getRangeAt(0);
  if (!range || !event.currentTarget.contains(range.commonAncestorContainer)) return;
  event.clipboardData.setData("text/plain", range.cloneContents().textContent);
  event.preventDefault();
}
