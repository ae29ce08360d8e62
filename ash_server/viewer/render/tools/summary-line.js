/** The summary line of a call: name, most important argument, outcome, state and duration. */
import { showHiddenCharacters } from "../../lib/ansi.js";
import { el } from "../../lib/dom.js";
import { formatDuration } from "../../lib/number-format.js";
import { isEmpty, isString } from "../../lib/json-fields.js";
import { decodeJson } from "./call.js";
import { resultText } from "./call-result.js";
import { generic } from "./generic.js";
import { thumbnails } from "./thumbnails.js";

const MAX_GIST_LENGTH = 200;
const MAX_TITLE_LENGTH = 80;
const MIN_DURATION_MS = 500;

const STATE_TEXTS = { denied: "denied", orphan: "call missing" };

/** States that are visible as an icon, and text for screen readers only. */
const HIDDEN_STATE_TEXTS = { pending: "being written", running: "running", error: "failed" };

export function summaryLine(call, tool) {
  const line = lineOf(callTitle(call, tool), gistOf(call, tool) || resultGist(call), outcomeOf(call, tool));
  const pictures = thumbnails(call.results.map(({ value }) => value));
  if (pictures) line.append(pictures);
  return line;
}

function gistOf(call, tool) {
  return tool.gist(call.args, call) ?? generic.gist(call.args);
}

/** The most important argument of a call, in one line. */
export function callGist(call, tool) {
  return oneLine(gistOf(call, tool) || "", MAX_GIST_LENGTH);
}

/**
 * The line of a call or of a subagent.
 *
 * @param {string} title
 * @param {string} gist
 * @param {any[]} outcome texts and elements
 */
export function lineOf(title, gist, outcome) {
  return el(
    "summary",
    {},
    el("span", { class: "tool-name" }, title),
    " ",
    el("span", { class: "tool-gist" }, oneLine(gist, MAX_GIST_LENGTH)),
    " ",
    outcome.length > 0 && el("span", { class: "tool-outcome" }, ...outcome),
  );
}

/** The result of a call without arguments, which would be the only content that a closed call hides. */
function resultGist({ args, last }) {
  const text = isEmpty(args) ? resultText(last?.value) : "";
  return isString(decodeJson(text)) ? text : "";
}

/** The title of a call, shortened to fit on the line. */
export function callTitle(call, tool) {
  const unknown = call.isOfScript ? "Call of a script" : "Unknown call";
  const nameless = call.state === "orphan" ? unknown : "Call";
  return oneLine(tool.title?.(call) ?? (call.name || nameless), MAX_TITLE_LENGTH);
}

/** The first line of a text, shortened, without invisible and direction-changing characters. */
function oneLine(text, maxLength) {
  const [first, more] = text.slice(0, maxLength * 4).trim().split(/\s*\n\s*/, 2);
  const line = first.length > maxLength ? first.slice(0, maxLength).replace(/[\ud800-\udbff]$/, "") : first;
  const isCut = line !== first || more !== undefined || text.length > maxLength * 4;
  return `${showHiddenCharacters(line)}${isCut ? " …" : ""}`;
}

function outcomeOf(call, tool) {
  const outcome = (tool.outcome?.(call) ?? []).filter((part) => part?.length > 0);
  const isUnexplained = call.state === "error" && outcome.length === 0;
  const all = [...outcome, isUnexplained && HIDDEN_STATE_TEXTS.error, stateText(call), durationText(call.durationMs)];
  const parts = all.filter((part) => part?.length > 0).map(outcomePart);
  const visible = parts.flatMap((part, index) => (index ? [" · ", ...part] : part));
  const hidden = isUnexplained ? undefined : HIDDEN_STATE_TEXTS[call.state];
  if (!hidden) return visible;
  return [...visible, el("span", { class: "visually-hidden" }, visible.length ? `, ${hidden}` : hidden)];
}

function outcomePart(part) {
  if (!Array.isArray(part)) return [part];
  const spans = part.map(({ name, text }) => el("span", { class: name }, text));
  return spans.flatMap((span, index) => (index ? [" ", span] : [span]));
}

/** A duration in words, if it is not short. */
export function durationText(durationMs) {
  return durationMs >= MIN_DURATION_MS ? formatDuration(durationMs) : undefined;
}

function stateText({ state, results }) {
  if (state === "interrupted") return results.length ? "interrupted" : "result missing";
  return STATE_TEXTS[state];
}
