/** Where an answer says that it has it from: a mark behind what rests on a source, and the sources below. */
import { el } from "../lib/dom.js";
import { jsonView } from "../lib/json-view.js";
import { isCited } from "./event-log.js";
import { markdown } from "../lib/markdown.js";
import { counted } from "../lib/number-format.js";
import { aside, isWeb, link } from "./tools/body-parts.js";

const DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const PLACES = /\p{P}/u; // a place is held by a sign, next to which Markdown reads marks as it does at the end of a line
const FIRST_PLACE = 0x2e00;
const TAKES_NO_MARK = /(?:\||```|~~~)$/;

/** The text of an answer, which may be told in parts, and its sources. */
export function cited(text, parts) {
  const sources = sourcesOf(parts);
  if (!sources.length) return [...markdown(text).childNodes];
  return [...withMarks(text, parts, sources), list(sources)];
}

/** Each once, in the order in which they are named. */
function sourcesOf(parts) {
  const sources = new Map();
  for (const citation of parts.flatMap(citationsOf)) {
    const name = nameOf(citation);
    sources.set(name, [...(sources.get(name) ?? []), citation]);
  }
  return [...sources].map(([name, citations], place) => ({ name, citations, number: numeral(place + 1), ...about(citations[0]) }));
}

function citationsOf({ payload: { citations } }) {
  return Array.isArray(citations) ? citations : [];
}

function nameOf(citation) {
  const { title, url } = about(citation);
  return JSON.stringify(title === undefined ? citation : [url, title, citation.document_index]);
}

function about(citation) {
  const { url, title = citation?.document_title ?? url } = citation ?? {};
  return { url: typeof url === "string" ? url : undefined, title: typeof title === "string" ? title : undefined };
}

function withMarks(text, parts, sources) {
  const place = freePlace(text);
  const marks = [];
  const marked = parts.map((part) => {
    const said = String(part.payload.text ?? "");
    const end = said.trimEnd();
    if (!isCited(part) || TAKES_NO_MARK.test(end)) return said;
    const names = new Set(citationsOf(part).map(nameOf));
    marks.push(sources.filter(({ name }) => names.has(name)));
    return end + place + said.slice(end.length);
  });
  const shown = markdown(marked.join(""));
  if (marks.length) setMarks(shown, place, marks);
  return shown.childNodes;
}

/** A sign that the text does not have. */
function freePlace(text) {
  for (let code = FIRST_PLACE; ; code++) {
    const sign = String.fromCharCode(code);
    if (PLACES.test(sign) && !text.includes(sign)) return sign;
  }
}

function setMarks(shown, place, marks) {
  const walker = document.createTreeWalker(shown, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) if (walker.currentNode.data.includes(place)) found.push(walker.currentNode);
  let next = 0;
  for (const node of found) {
    const pieces = node.data.split(place);
    node.replaceWith(...pieces.flatMap((piece, at) => (at ? [marksOf(marks[next++]), piece] : [piece])));
  }
}

function marksOf(sources) {
  const marks = sources.flatMap(({ url, title, number }, place) => {
    const mark = url !== undefined && isWeb(url) ? link(url, number) : el("span", {}, number);
    if (title !== undefined) mark.title = title;
    return place ? ["\u2009", mark] : [mark];
  });
  return el("span", { class: "marks" }, ...marks);
}

function list(sources) {
  const entries = sources.map(({ url, title, citations }) => {
    if (title === undefined) return el("li", {}, jsonView(citations[0]));
    const named = url === undefined ? title : link(url, title);
    const said = new Set(citations.map(({ cited_text: text }) => text).filter((text) => typeof text === "string"));
    const more = aside("More", citations.length > 1 ? citations : citations[0]);
    return el("li", {}, named, ...[...said].map((text) => el("span", { class: "cited", dir: "auto" }, text)), more);
  });
  return el("details", { class: "aside sources" }, el("summary", {}, counted(sources.length, "source")), el("ol", {}, ...entries));
}

function numeral(number) {
  return [...String(number)].map((digit) => DIGITS[digit]).join("");
}
