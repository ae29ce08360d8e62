/** The line that stands for a call: its name, the one thing that tells, and what came of it. */
import { symbol, visible } from "../../lib/ansi.js";
import { el } from "../../lib/dom.js";
import { duration } from "../../lib/number-format.js";
import { raw } from "./generic.js";

const LONGEST = 200;
const LONGEST_NAME = 80;
const NOTABLE = 500; // milliseconds
const DIRECTIONS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

const TOLD = { denied: "denied", orphan: "call missing" };
const UNSEEN = { pending: "being written", running: "running", error: "failed" };

export function row(call, tool) {
  const gist = tool.gist(call.args, call) ?? raw.gist(call.args);
  const outcome = outcomeOf(call, tool);
  return el(
    "summary",
    {},
    el("span", { class: "tool-name" }, titleOf(call, tool)),
    " ",
    el("span", { class: "tool-gist" }, oneLine(gist, LONGEST)),
    " ",
    outcome.length > 0 && el("span", { class: "tool-outcome" }, ...outcome),
  );
}

/** What it is called, as long as a line has room for it. */
export function titleOf(call, tool) {
  const nameless = call.state === "orphan" ? "A call that is not here" : "A call";
  return oneLine(tool.title?.(call) ?? (call.name || nameless), LONGEST_NAME);
}

/** Of a text what fits on a line, with nothing in it that would hide or turn round what follows. */
function oneLine(text, longest) {
  const [first, more] = text.slice(0, longest * 4).trim().split(/\s*\n\s*/, 2);
  const line = first.length > longest ? first.slice(0, longest).replace(/[\ud800-\udbff]$/, "") : first;
  const isCut = line !== first || more !== undefined || text.length > longest * 4;
  return `${visible(line).replaceAll(DIRECTIONS, symbol)}${isCut ? " …" : ""}`;
}

function outcomeOf(call, tool) {
  const came = (tool.outcome?.(call) ?? []).filter((part) => part?.length > 0);
  const isMute = call.state === "error" && came.length === 0;
  const told = [...came, isMute && UNSEEN.error, stateTold(call), tookOf(call)];
  const parts = told.filter((part) => part?.length > 0).map(shownPart);
  const seen = parts.flatMap((part, place) => (place ? [" · ", ...part] : part));
  const unseen = isMute ? undefined : UNSEEN[call.state];
  if (!unseen) return seen;
  return [...seen, el("span", { class: "visually-hidden" }, seen.length ? `, ${unseen}` : unseen)];
}

function shownPart(part) {
  if (!Array.isArray(part)) return [part];
  const spans = part.map(({ name, text }) => el("span", { class: name }, text));
  return spans.flatMap((span, place) => (place ? [" ", span] : [span]));
}

function tookOf({ took }) {
  return took >= NOTABLE ? duration(took) : undefined;
}

function stateTold({ state, results }) {
  if (state === "interrupted") return results.length ? "interrupted" : "result missing";
  return TOLD[state];
}
