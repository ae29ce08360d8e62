// Functions called by test_text_modules.py. Each returns a value that can be compared as a whole.

import { ansi, ansiParts, plainOutput } from "/viewer/lib/ansi.js";
import { DelayedTask } from "/viewer/lib/delayed-task.js";
import { countChanges, hunkDiff, lineDiff, unifiedDiff } from "/viewer/lib/diff-view.js";
import { GrowingMarkdown } from "/viewer/lib/growing-markdown.js";
import { markHidden, nameHidden } from "/viewer/lib/hidden-characters.js";
import { highlight, languageOf } from "/viewer/lib/highlight.js";
import { isPlain } from "/viewer/lib/plain-text.js";
import { jsonView, parseJson } from "/viewer/lib/json-view.js";
import { longText, showLongTexts } from "/viewer/lib/long-text.js";
import { closedLength, isTooLarge, markdown, reachesAcrossBlocks } from "/viewer/lib/markdown.js";
import { formatCacheUsage, formatHits, formatShort } from "/viewer/lib/number-format.js";
import { chosenName, stripMarkdown, transcriptName } from "/viewer/lib/title-text.js";
import { BatchSize, inSlices } from "/viewer/lib/time-slices.js";
import { drawFormulasWith, formula } from "/viewer/lib/markdown/formulas.js";
import { EventPages } from "/viewer/session/event-pages.js";
import { hostBehind } from "/viewer/lib/web-links.js";

export {
  chosenName, countChanges, formatCacheUsage, formatHits, formatShort, hostBehind, isPlain, languageOf, nameHidden, plainOutput, reachesAcrossBlocks,
  stripMarkdown, transcriptName,
};

export function markdownHtml(text, options) {
  return html(markdown(text, options));
}

/** The MathML of a formula, and whether it can be wider than a phone; nothing if it is not supported. */
export async function formulaHtml(tex, isBlock = false) {
  const { drawFormula } = await import("/viewer/bundled/formulas.js");
  const drawn = drawFormula(tex, isBlock);
  return drawn && [html(drawn.element), drawn.isWide];
}

/** The sources of the formulas that are drawn in a text, and the formulas that show their source. */
export async function formulasOf(text) {
  await drawFormulas();
  const shown = markdown(text);
  await waitingFormulas();
  const sources = (selector) => [...shown.querySelectorAll(selector)].map((each) => each.textContent);
  return [sources(".math-drawn:has(> math) > .math-source"), sources(".math:not(.math-drawn)")];
}

/** True if a text that grows by these parts always shows the same as the whole text, with its formulas. */
export async function grownFormulas(parts) {
  await drawFormulas();
  const shown = document.createElement("div");
  const growing = new GrowingMarkdown(shown);
  const whole = document.createElement("div");
  for (const [index] of parts.entries()) {
    const text = parts.slice(0, index + 1).join("");
    growing.update(text);
    whole.replaceChildren(markdown(text));
    await waitingFormulas();
    if (!shown.isEqualNode(whole)) return text;
  }
  return shown.querySelectorAll("math").length;
}

async function drawFormulas() {
  drawFormulasWith((await import("/viewer/bundled/formulas.js")).drawFormula);
}

let waits = 0;

/** Formulas are drawn in order: one after all others, with a source of its own, is drawn last. */
async function waitingFormulas() {
  const last = formula("span", `$${waits++}$`);
  while (!last.matches(".math-drawn")) await new Promise((done) => setTimeout(done));
}

/** The lengths of beginnings of a text at which its closed part is not shown like the same part of the whole text. */
export function changedClosedParts(text) {
  const whole = markdownHtml(text);
  const lengths = Array.from({ length: text.length + 1 }, (_, length) => length);
  return lengths.filter((length) => {
    const start = text.slice(0, length);
    const closed = reachesAcrossBlocks(text) || isTooLarge(text) ? 0 : closedLength(start);
    const shown = markdownHtml(text.slice(0, closed));
    return !whole.startsWith(shown) || shown + markdownHtml(start.slice(closed)) !== markdownHtml(start);
  });
}

/** The parts of a text that `closedLength` separates, from the beginning to the end of the text. */
export function closedParts(text) {
  const closed = closedLength(text);
  return [text.slice(0, closed), text.slice(closed)];
}

/** Footnotes of two equal texts: the texts that have the focus after their marks and links back were followed. */
export function followedFootnotes(text) {
  document.body.replaceChildren(...[1, 2].map((number) => {
    const box = document.createElement("div");
    box.id = `text-${number}`;
    box.append(markdown(text));
    return box;
  }));
  return [...document.querySelectorAll(".footnotes, .footnote-mark")].length && [1, 2].flatMap((number) => {
    const box = document.getElementById(`text-${number}`);
    return [".footnote-mark > a", ".footnotes a"].map((link) => {
      box.querySelector(link).click();
      const focused = document.activeElement;
      return `${focused.closest("[id]")?.id} ${focused.localName} ${location.hash}`;
    });
  });
}

export function hiddenHtml(text, kind) {
  const box = document.createElement("div");
  box.append(...markHidden(text, kind));
  return box.textContent === text ? box.innerHTML : "another text";
}

/** The codes of the hidden characters that a module marks in a text, which stays the same. */
export function hiddenCodes(way, text) {
  document.body.replaceChildren(...[WAYS[way](text)].flat());
  const codes = [...document.querySelectorAll(".hidden-characters")].map((each) => each.dataset.code);
  return document.body.textContent.includes("\u202e") ? [...new Set(codes)] : "no character";
}

/** How many elements show the hidden characters of a text. */
export function hiddenMarks(text) {
  return markHidden(text).filter((node) => typeof node !== "string").length;
}

/**
 * Append parts of a text to an element, and return the first beginning that looks different from the whole one, or null;
 * and how many elements the last part created, and the whole text has.
 */
export function grownText(parts) {
  const shown = document.createElement("div");
  const growing = new GrowingMarkdown(shown);
  let text = "";
  let created = 0;
  for (const part of parts) {
    text += part;
    created = countCreated(() => growing.update(text));
    const whole = document.createElement("div");
    whole.append(markdown(text));
    const [one, other] = [shown, whole].map((root) => root.cloneNode(true));
    one.normalize();
    other.normalize();
    if (!one.isEqualNode(other)) return [text, created, 0];
  }
  return [null, created, shown.querySelectorAll("*").length];
}

/** How many elements each part of a growing text creates. */
export function createdByParts(parts) {
  const growing = new GrowingMarkdown(document.createElement("div"));
  return parts.map((_, index) => countCreated(() => growing.update(parts.slice(0, index + 1).join(""))));
}

function countCreated(act) {
  const { createElement } = Document.prototype;
  let created = 0;
  Document.prototype.createElement = function (...args) {
    created += 1;
    return createElement.apply(this, args);
  };
  act();
  Document.prototype.createElement = createElement;
  return created;
}

/** How much of a long text is shown at first, whether the rest is shown on request, and in how many elements. */
export function longTextParts(text) {
  const box = document.createElement("pre");
  box.append(...longText(text));
  const first = box.firstChild?.textContent;
  showLongTexts(box);
  const isWhole = box.textContent === text && [...box.childNodes].every((part) => part.textContent.isWellFormed());
  return [first?.length, isWhole, box.childElementCount > 0];
}

/** The colours of a long output by their text, once it is shown in full. */
export function longOutputColours(text) {
  const box = document.createElement("pre");
  const paint = ansiParts();
  box.append(...longText(text, (part) => [paint(part)]));
  showLongTexts(box);
  const colours = new Set([...box.querySelectorAll("[class^=ansi]")].map((span) => span.className));
  return [[...colours], box.textContent.length];
}

/** Whether a text is rendered as Markdown or as plain text, and completely. */
export function outcome(text) {
  const shown = markdown(text);
  const plain = shown.querySelector("pre.plain");
  showLongTexts(shown);
  const isAll = shown.childNodes.length === 1 && shown.textContent === text;
  if (plain) return isAll ? "plain" : "plain, but not all of it";
  return shown.querySelectorAll("*").length <= 2 * (text.length + 1) ? "markdown" : "too many elements";
}

/** How much longer four times the text takes. Repeated, since other processes disturb the measurement. */
export function growth(part, start = "") {
  const most = mostTimes(part, start);
  let least = Infinity;
  for (let round = 0; round < 8 && least > LINEAR; round++) least = Math.min(least, grown(part, start, most));
  return least > LINEAR ? least : "linear";
}

const LINEAR = 7; // the square of four would be sixteen
const SHORT = 40;
const LONG = 80_000;

/** The number of repetitions that are still rendered as Markdown. */
function mostTimes(part, start) {
  let times = 64;
  while (part.length * times < LONG && outcome(start + part.repeat(2 * times)) === "markdown") times *= 2;
  return times;
}

function grown(part, start, most) {
  const [once, fourfold] = [most / 4, most].map((times) => {
    const text = start + part.repeat(times);
    return Math.min(...Array.from({ length: 3 }, () => spent(text)));
  });
  return fourfold < SHORT ? 0 : fourfold / once;
}

function spent(text) {
  const start = performance.now();
  markdown(text);
  return performance.now() - start;
}

const ELEMENTS = new Set(
  ("p h1 h2 h3 h4 h5 h6 ul ol li blockquote hr br pre code em strong s a span div table thead tbody tr th " +
    "td figure figcaption details summary button ins del kbd sub sup").split(" "),
);
const ATTRIBUTES = new Set("class dir rel target title start tabindex role aria-label open type".split(" "));

const WAYS = {
  markdown,
  fence: (text) => markdown(`\`\`\`\n${text}\n\`\`\``),
  longText: (text) => longText(text),
  ansi,
  unified: unifiedDiff,
  json: (text) => jsonView([text, { [text]: text }]),
  lineDiff: (text) => lineDiff(text, `${text} `, { path: text }),
  highlight: (text) => highlight(text, "html"),
};

/** Show a text on the page; returns unexpected elements and attributes. */
export function strange(way, text) {
  document.body.replaceChildren(WAYS[way](text));
  return [...document.body.querySelectorAll("*")].flatMap((element) => [
    ...(ELEMENTS.has(element.localName) ? [] : [element.localName]),
    ...[...element.attributes].filter((each) => !isKnown(each)).map(({ name, value }) => `${name}=${value}`),
  ]);
}

function isKnown({ name, value }) {
  if (name === "href") return /^(?:https?:|mailto:|#footnote-\d+$)/.test(value);
  return ATTRIBUTES.has(name) || /^data-(?:action|code|copies|footnote|language|old|new|target)$/.test(name);
}

export function ansiHtml(text) {
  return html(ansi(text));
}

export function ansiText(part, times) {
  const { textContent } = ansi(part.repeat(times));
  return [textContent.length, textContent.slice(0, 40)];
}

export function ansiSpans(text) {
  const shown = ansi(text);
  return [shown.querySelectorAll("span").length, shown.textContent.length];
}

export function ansiLinks(part, times) {
  const shown = ansi(part.repeat(times));
  return [shown.querySelectorAll("a").length, shown.textContent.length];
}

/** The classes of the code in each row of a diff, by its text; changed words are in braces. */
export function diffColours(patch, options) {
  return [...unifiedDiff(patch, options).querySelectorAll(".diff-lines > :not(.diff-note)")].map((row) =>
    [...row.querySelectorAll("[class^=hljs]")].map((span) => {
      const isMarked = span.parentElement.matches("ins, del");
      return `${span.className.slice(5)}: ${isMarked ? `{${span.textContent}}` : span.textContent}`;
    }),
  );
}

export function highlighted(code, language) {
  const shown = highlight(code, language);
  return shown && html(shown);
}

/** Is it in colours, with all of the code? */
export function isHighlighted(code, language) {
  const shown = highlight(code, language);
  return shown && shown.textContent === code && shown.querySelector("span[class^=hljs-]") !== null;
}

export function highlightDepth(code, language) {
  const depth = (node) => 1 + Math.max(0, ...[...node.children].map(depth));
  return depth(highlight(code, language)) - 1;
}

export function lineDiffRows(before, after, options) {
  return rowsOf(lineDiff(before, after, options));
}

export function hunkRows(hunks, options) {
  return rowsOf(hunkDiff(hunks, options));
}

export function unifiedRows(patch, options) {
  return [...unifiedDiff(patch, options).querySelectorAll("figure")].flatMap(rowsOf);
}

/** Opens all gaps; in the end every line of both texts is there, in order. */
export function wholeDiff(before, after) {
  const figure = lineDiff(before, after);
  for (let gap; (gap = figure.querySelector(".diff-gap")); ) gap.click();
  const rows = (...kinds) => [...figure.querySelectorAll(kinds.map((kind) => `.diff-${kind}`).join())];
  const side = (...kinds) => rows(...kinds).map((each) => text(each)).join("\n");
  return [side("kept", "removed") === before, side("kept", "added") === after];
}

export function randomDiffs(seed) {
  const next = random(seed);
  const words = () => Array.from({ length: next(12) }, () => "ab ,(x"[next(6)]).join("");
  const line = (some) => (next(2) ? some[next(some.length)] : words());
  const lines = (some) => Array.from({ length: next(60) }, () => line(some));
  const some = Array.from({ length: 12 }, words);
  const [before, after] = [lines(some), lines(some)].map((each) => [...each, "end"].join("\n"));
  const counts = countChanges(before, after);
  const difference = counts.added - counts.removed === after.split("\n").length - before.split("\n").length;
  return [...wholeDiff(before, after), difference];
}

function random(seed) {
  let state = seed + 1;
  return (below) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
}

/** Line numbers, sign and text of each row; marked words are in braces, and the minus sign is a hyphen. */
function rowsOf(figure) {
  const path = figure.querySelector(".diff-path")?.textContent;
  const head = path === undefined ? [] : [`${path}: ${figure.querySelector(".diff-counts").textContent}`];
  const rows = [...head, ...[...figure.querySelector(".diff-lines").children].map(row)];
  return rows.map((each) => each.replaceAll("−", "-"));
}

function row(element) {
  if (element.matches(".diff-gap, .diff-note")) return `(${element.textContent})`;
  const sign = element.querySelector(".diff-sign");
  const numbers = [element.dataset.old, element.dataset.new].filter(Boolean).join("/");
  const kind = { "diff-kept": " ", "diff-removed": "−", "diff-added": "+" }[element.className];
  return `${numbers}${sign ? sign.textContent : kind}${text(element, "{", "}")}`;
}

function text(element, open = "", close = "") {
  return [...element.childNodes]
    .filter((node) => node.className !== "diff-sign")
    .map((node) => (node.matches?.("ins, del") ? `${open}${node.textContent}${close}` : node.textContent))
    .join("");
}

export function jsonHtml(source) {
  return html(jsonView(parseJson(source)));
}

export function jsonAgain(source) {
  return JSON.stringify(parseJson(source));
}

export function jsonKinds(source) {
  const value = parseJson(source);
  return [value.constructor.name, String(value), value > 9, Number(value)];
}

/** With all levels open. */
export async function jsonText(source) {
  const view = jsonView(JSON.parse(source));
  document.body.replaceChildren(view);
  for (let closed; (closed = view.querySelectorAll("details:not([open])")).length; ) {
    closed.forEach((details) => (details.open = true));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
  return view.innerText;
}

export function jsonElements(source) {
  return jsonView(JSON.parse(source)).querySelectorAll("*").length;
}

export function show(source) {
  document.body.replaceChildren(jsonView(JSON.parse(source)));
}

export function html(node) {
  const box = document.createElement("div");
  box.append(node);
  return box.innerHTML;
}

/** The number of steps in each slice, of steps that take these times. */
export async function slices(durations) {
  let [time, steps] = [0, 0];
  const counts = [0];
  const step = () => {
    if (steps === durations.length) return false;
    time += durations[steps++];
    counts[counts.length - 1]++;
    return true;
  };
  await inSlices(step, { now: () => time, pause: async () => void counts.push(0) });
  return counts;
}

/** The sizes of the batches after ones that take these times. */
export function batchSizes(durations) {
  let time = 0;
  const size = new BatchSize({ first: 400, min: 100, max: 1000, goalMs: 60 }, { now: () => time });
  return durations.map((duration) => {
    size.measure(() => (time += duration));
    return size.value;
  });
}

/** The number of runs of a task that is requested several times, and the delay after a run that takes this time. */
export async function delayed(duration) {
  let [time, runs] = [0, 0];
  const run = () => {
    time += duration;
    runs++;
  };
  const task = new DelayedTask(run, 20, () => time);
  task.request();
  task.request();
  await new Promise((done) => setTimeout(done, 40));
  return [runs, task.delayMs];
}

/** The sequences that EventPages loads of a log with these events, of a server that reads three sequences per page. */
export async function loadedSequences(sequences, last, query) {
  const shown = [];
  const renderer = {
    log: { events: new Map() },
    replayEvents: (events) => shown.push(...events),
    handleNewEvent: (event) => shown.push(event),
    flush() {},
  };
  const between = (after, before) =>
    sequences.filter((each) => each > after && each < before).map((sequence) => ({ sequence }));
  const older = (before) => (before > 4 ? { prevBefore: before - 3 } : {});
  const newer = (after) => (after + 3 < last ? { nextAfter: after + 3 } : {});
  const pages = new EventPages("", /** @type {any} */ (renderer));
  pages.get = async ({ after, before, at }) => {
    if (at) return { events: between(at - 4, at + 3), ...older(at), ...newer(at - 1) };
    if (after !== undefined) return { events: between(after, after + 4), ...newer(after) };
    const end = Math.min(before, last + 1);
    return { events: between(end - 4, end), ...older(end) };
  };
  await pages.open(query);
  for (let left = 20; left && (pages.hasOlder || pages.hasNewer); left--) {
    await pages.extend(pages.hasOlder ? "older" : "newer", (change) => change());
  }
  return shown.map(({ sequence }) => sequence).sort((one, other) => one - other);
}
