/** Citations of an answer: a numbered mark after each cited part, and the list of sources below. */
import { el } from "../lib/dom.js";
import { jsonView } from "../lib/json-view.js";
import { hasCitations } from "./event-log.js";
import { markdown } from "../lib/markdown.js";
import { pluralize } from "../lib/number-format.js";
import { aside, link } from "./tools/body-parts.js";
import { isWebUrl } from "../lib/web-links.js";

const DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const PUNCTUATION = /\p{P}/u; // placeholders for marks: next to it, Markdown parses emphasis as at the end of a line
const FIRST_PLACEHOLDER = 0x2e00;
const CANNOT_BE_MARKED = /(?:\||```|~~~)$/;

/**
 * Render the text of an answer with its citations.
 *
 * @param {string} text
 * @param {import("./event-log.js").ChatEvent[]} parts the events that the text was joined from
 */
export function citedText(text, parts) {
  const sources = collectSources(parts);
  if (!sources.length) return [markdown(text)];
  return [withMarks(text, parts, sources), sourceList(sources)];
}

/** The distinct sources, by first citation. */
function collectSources(parts) {
  const sources = new Map();
  for (const citation of parts.flatMap(citationsOf)) {
    const key = sourceKey(citation);
    sources.set(key, [...(sources.get(key) ?? []), citation]);
  }
  return [...sources].map(([key, citations], index) => {
    return { key, citations, number: superscript(index + 1), ...sourceOf(citations[0]) };
  });
}

function citationsOf({ payload: { citations } }) {
  return Array.isArray(citations) ? citations : [];
}

function sourceKey(citation) {
  const { title, url } = sourceOf(citation);
  return JSON.stringify(title === undefined ? citation : [url, title, citation.document_index]);
}

function sourceOf(citation) {
  const { url, title = citation?.document_title ?? url } = citation ?? {};
  return { url: typeof url === "string" ? url : undefined, title: typeof title === "string" ? title : undefined };
}

function withMarks(text, parts, sources) {
  const placeholder = unusedCharacter(text);
  const marks = [];
  const marked = parts.map((part) => {
    const partText = String(part.payload.text ?? "");
    const trimmed = partText.trimEnd();
    if (!hasCitations(part) || CANNOT_BE_MARKED.test(trimmed)) return partText;
    const keys = new Set(citationsOf(part).map(sourceKey));
    marks.push(sources.filter(({ key }) => keys.has(key)));
    return trimmed + placeholder + partText.slice(trimmed.length);
  });
  const fragment = markdown(marked.join(""));
  if (marks.length) replacePlaceholders(fragment, placeholder, marks);
  return fragment;
}

/** A punctuation character that the text does not contain. */
function unusedCharacter(text) {
  for (let code = FIRST_PLACEHOLDER; ; code++) {
    const character = String.fromCharCode(code);
    if (PUNCTUATION.test(character) && !text.includes(character)) return character;
  }
}

function replacePlaceholders(fragment, placeholder, marks) {
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const nodes = [];
  while (walker.nextNode()) nodes.push(/** @type {Text} */ (walker.currentNode));
  let next = 0;
  for (const node of nodes.filter(({ data }) => data.includes(placeholder))) {
    const pieces = node.data.split(placeholder);
    node.replaceWith(...pieces.flatMap((piece, index) => (index ? [sourceMarks(marks[next++]), piece] : [piece])));
  }
}

function sourceMarks(sources) {
  const marks = sources.flatMap(({ url, title, number }, index) => {
    const mark = url !== undefined && isWebUrl(url) ? link(url, number) : el("span", {}, number);
    if (title !== undefined) mark.title = title;
    return index ? ["\u2009", mark] : [mark];
  });
  return el("span", { class: "marks" }, ...marks);
}

function sourceList(sources) {
  const entries = sources.map(({ url, title, citations }) => {
    if (title === undefined) return el("li", {}, jsonView(citations[0]));
    const heading = url === undefined ? title : link(url, title);
    const quotes = new Set(citations.map(({ cited_text: text }) => text).filter((text) => typeof text === "string"));
    const more = aside("More", citations.length > 1 ? citations : citations[0]);
    return el("li", {}, heading, ...[...quotes].map((text) => el("span", { class: "cited", dir: "auto" }, text)), more);
  });
  const summary = el("summary", {}, pluralize(sources.length, "source"));
  return el("details", { class: "aside sources" }, summary, el("ol", {}, ...entries));
}

function superscript(number) {
  return [...String(number)].map((digit) => DIGITS[digit]).join("");
}
