/**
 * Characters that are not visible but change the direction or the meaning of a text. They are shown as marks that
 * contain them, so copying and searching use the original text.
 */
import { el } from "./dom.js";
import { lazy } from "./lazy.js";

const MAX_MARKS = 500; // of one text; later characters are replaced with their codes
const MAX_NAMED = 3; // characters of a run with their codes in the mark

/** Controls of direction, characters without width or glyph, selectors of variants, tags. */
const RANGES = [
  String.raw`\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164`,
  String.raw`\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}`,
];
const HIDDEN = new RegExp(`[${RANGES.join("")}]`, "u");
const HIDDEN_RUNS = new RegExp(`${HIDDEN.source}+`, "gu");

const JOINING = "Arab Syrc Mong Deva Beng Guru Gujr Orya Taml Telu Knda Mlym Sinh".split(" ");
const UNSPACED = "Thai Laoo Khmr Mymr Han Hira Kana".split(" ");

/** Hidden characters that emoji, letters and ideographs consist of. */
const PARTS = String.raw`(?<=[\p{Extended_Pictographic}\u{1f3fb}-\u{1f3ff}]\ufe0f?)\u200d(?=\p{Extended_Pictographic})
(?<=[\p{Emoji}\p{S}\p{P}])[\ufe0e\ufe0f]
(?<=\p{sc=Han})[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]
(?<=\p{sc=Mong})[\u180b-\u180f]
(?<=\u{1f3f4})[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{2,6}\u{e007f}
(?<=[\p{L}\p{M}])[\u200c\u200d](?=${scripts(JOINING)})`;
/** Those that prose contains within words. */
const PARTS_OF_PROSE = String.raw`(?<=\p{L})\u00ad(?=\p{L})
(?<=${scripts(UNSPACED)})\u200b`;
const DIRECTION_MARKS = String.raw`[\u061c\u200e\u200f]`;

const NEEDED = {
  code: lazy(() => anyOf(PARTS)),
  prose: lazy(() => anyOf(PARTS, PARTS_OF_PROSE)),
  "right-to-left prose": lazy(() => anyOf(PARTS, PARTS_OF_PROSE, DIRECTION_MARKS)),
};

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const LETTER = /\p{L}/u;

/**
 * The text as nodes, with marks for its hidden characters.
 *
 * @param {string} text
 * @param {keyof typeof NEEDED} [kind] decides which hidden characters are not marked
 * @returns {(string | HTMLElement)[]}
 */
export function markHidden(text, kind = "code") {
  if (!HIDDEN.test(text)) return [text];
  const needed = NEEDED[kind === "prose" && hasRightToLeft(text) ? "right-to-left prose" : kind]();
  /** @type {(string | HTMLElement)[]} */
  const nodes = [];
  let at = 0;
  for (const { start, end } of hiddenRuns(text, needed)) {
    if (nodes.length >= 2 * MAX_MARKS) return [...nodes, nameRuns(text.slice(at), needed)];
    nodes.push(text.slice(at, start), mark(text.slice(start, end)));
    at = end;
  }
  return [...nodes, text.slice(at)].filter(Boolean);
}

/** The text with the codes of its hidden characters, for attributes. */
export function nameHidden(text) {
  return HIDDEN.test(text) ? nameRuns(text, NEEDED.prose()) : text;
}

function nameRuns(text, needed) {
  let named = "";
  let at = 0;
  for (const { start, end } of hiddenRuns(text, needed)) {
    named += `${text.slice(at, start)}<${labelOf(text.slice(start, end))}>`;
    at = end;
  }
  return named + text.slice(at);
}

export function hasHidden(text) {
  return HIDDEN.test(text);
}

export function hasRightToLeft(text) {
  return RIGHT_TO_LEFT.test(text);
}

/** True if the first letter of a text belongs to a script that is written from right to left. */
export function startsRightToLeft(text) {
  return RIGHT_TO_LEFT.test(text.match(LETTER)?.[0] ?? "");
}

/** The runs of hidden characters that the text does not need. */
function* hiddenRuns(text, needed) {
  for (const { 0: run, index } of text.matchAll(HIDDEN_RUNS)) {
    const end = index + run.length;
    let start = index;
    for (let at = index; at < end; ) {
      needed.lastIndex = at;
      const [part] = needed.exec(text) ?? [];
      if (part === undefined) at += text.codePointAt(at) > 0xffff ? 2 : 1;
      else {
        if (at > start) yield { start, end: at };
        start = at += part.length;
      }
    }
    if (end > start) yield { start, end };
  }
}

function mark(run) {
  const label = labelOf(run);
  const title = `Hidden: ${label}`;
  return el("span", { class: "hidden-characters", role: "img", "aria-label": title, title, "data-code": label }, run);
}

function labelOf(run) {
  const characters = Array.from(run);
  const codes = characters.slice(0, MAX_NAMED).map((each) => `U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
  const rest = characters.length - codes.length;
  return rest > 0 ? `${codes.join(" ")} and ${rest} more` : codes.join(" ");
}

function scripts(names) {
  return `[${names.map((name) => `\\p{sc=${name}}`).join("")}]`;
}

function anyOf(...sources) {
  return new RegExp(sources.join("\n").replaceAll("\n", "|"), "uy");
}
