/** Lay out the items of a turn: prompts, responses with their runs of tool calls, and subagents. */
import { el, morph, setChildren } from "../lib/dom.js";
import { formatNumber, pluralize } from "../lib/number-format.js";
import { subagentLine } from "./subagent-line.js";

const MIN_FOLDED_CALLS = 4;
const GROUPS = { tool: "steps", thinking: "steps", agent: "agent-messages" };
const hasFailed = ({ dataset }) => "failed" in dataset;
const isFoldable = ({ dataset }) => !("subagent" in dataset || "message" in dataset);

/** Groups that the user folded (true) or unfolded (false). */
const choices = new WeakMap();

/** @typedef {import("./chat-renderer.js").ItemView} ItemView */

/**
 * Lay out items below a parent.
 *
 * @param {HTMLElement} parent
 * @param {ItemView[]} views in the order of the log
 * @param {{isOver: boolean, isAside?: boolean, before?: any[], after?: any[]}} options `isOver`: no more items will
 *   come; `isAside`: the items belong to a subagent; `before` and `after`: elements around them
 */
export function layOutFlow(parent, views, { isOver, isAside = false, before = [], after = [] }) {
  const used = new Set();
  const parts = partsOf(views, isAside);
  markFinalTexts(parts);
  const children = parts.flatMap(({ name, views: run }, index) => {
    if (name === "user") return elementsOf(run);
    const isSubagent = name === "subagent";
    const holder = reuseWrapper(name, run, parent, used, isSubagent ? "details" : "div");
    if (isSubagent) layOutSubagent(holder, run, isOver || index < parts.length - 1);
    else layOutResponse(holder, run, isOver);
    return [holder];
  });
  setChildren(parent, [...before, ...children, ...after]);
}

/**
 * Split items into prompts, responses and subagents whose calls are not loaded. A subagent is identified by its call;
 * without one, it has the items from its prompts to the next prompt.
 *
 * @param {ItemView[]} views
 * @param {boolean} isAside
 * @returns {{name: string, views: ItemView[]}[]}
 */
function partsOf(views, isAside) {
  const parts = [];
  const byCall = new Map();
  for (const view of views) {
    const name = partName(view, isAside);
    const call = name === "subagent" ? view.item.parent : undefined;
    const last = parts.at(-1);
    const part = call === undefined ? continuesPart(last, name, view) && last : byCall.get(call);
    if (part) part.views.push(view);
    else parts.push({ name, call, views: [view] });
    if (call !== undefined && !part) byCall.set(call, parts.at(-1));
  }
  return parts;
}

function partName({ item }, isAside) {
  const isOfSubagent = item.parent !== undefined || item.event.payload?.sidechain;
  if (isOfSubagent && !isAside) return "subagent";
  return item.kind === "user" ? "user" : "assistant-response";
}

function continuesPart(part, name, view) {
  if (part?.name !== name || part.call !== undefined) return false;
  const isNextPrompt = view.item.kind === "user" && part.views.some(({ item }) => item.kind !== "user");
  return name !== "subagent" || !isNextPrompt;
}

/**
 * Fold or unfold the run of tool calls around an element; false if there is none.
 *
 * @param {Element | null | undefined} element
 * @param {boolean} [isFolded] toggles if omitted
 */
export function toggleFold(element, isFolded) {
  const group = element?.closest?.(".tool-calls");
  if (!group?.querySelector(":scope > .fold")) return false;
  choices.set(group, isFolded ?? !group.hasAttribute("data-folded"));
  layOutSteps(group, [...group.children].filter((child) => !child.matches(".fold")), true);
  return true;
}

export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** The wrapper that already holds some of these items, so that little moves on the screen, or a new one. */
export function reuseWrapper(name, views, parent, used, tag = "div") {
  const current = views.map(({ element }) => element.closest(`.${name}`));
  const reusable = current.find((element) => element?.parentNode === parent && !used.has(element));
  const holder = reusable ?? el(tag, { class: name });
  used.add(holder);
  return holder;
}

/** Lay out the items of a subagent whose call is not loaded: closed, like a call. */
function layOutSubagent(holder, run, isOver) {
  const state = isOver ? "done" : "running";
  setAttributes(holder, { class: "subagent", "data-unlinked": true, "data-kind": "agent", "data-state": state });
  const line = holder.querySelector(":scope > summary") ?? el("summary");
  morph(line, subagentLine(run, state));
  layOutFlow(holder, run, { isOver, isAside: true, before: [line] });
}

function layOutResponse(holder, run, isOver) {
  const id = run.find(({ item }) => item.event.responseId !== undefined)?.item.event.responseId;
  setAttributes(holder, { class: "assistant-response", "data-response-id": id });
  const used = new Set();
  const children = groupRuns(run, ({ item }) => GROUPS[item.kind]).flatMap((group) => {
    const name = GROUPS[group[0].item.kind];
    if (!name) return elementsOf(group);
    const element = reuseWrapper(name, group, holder, used);
    if (name === "steps") layOutSteps(element, elementsOf(group), isOver);
    else setChildren(element, elementsOf(group));
    return [element];
  });
  setChildren(holder, children);
}

/** Mark the final answer to each prompt, which a subagent does not end. */
function markFinalTexts(parts) {
  const main = parts.filter(({ name }) => name !== "subagent");
  groupRuns(main, ({ name }) => name).forEach((run) => markFinalText(run.flatMap(({ views }) => views)));
}

/** Mark the final answer: the texts with that phase, else the last text. */
function markFinalText(views) {
  const texts = views.filter(({ item }) => item.kind === "text");
  const declared = texts.filter(({ item }) => item.event.payload.phase === "final_answer");
  const final = new Set(declared.length ? declared : texts.slice(-1));
  texts.forEach((each) => setAttributes(each.element, { "data-final": final.has(each) }));
}

/**
 * Fold calls and the thoughts between them into one line when their turn is over. Failed calls, subagents and messages
 * to the reader stay visible.
 */
function layOutSteps(group, steps, isOver) {
  const calls = steps.filter((step) => step.matches(".tool-call") && isFoldable(step));
  const isLong = calls.length >= MIN_FOLDED_CALLS;
  const isFolded = isLong && (choices.get(group) ?? isOver);
  const thoughts = steps.filter((step) => !step.matches(".tool-call"));
  const hasCalls = thoughts.length < steps.length;
  setAttributes(group, { class: hasCalls ? "steps tool-calls" : "steps", "data-folded": isFolded });
  steps.forEach((step) => hide(step, isFolded && !hasFailed(step) && isFoldable(step)));
  setChildren(group, isLong ? [foldButton(group, calls, thoughts.length, isFolded), ...steps] : steps);
}

function hide(step, isHidden) {
  if (isHidden) step.setAttribute("hidden", "until-found");
  else step.removeAttribute("hidden");
}

/** The label has one span per kind, so that filters can hide it (styles/filters.css). */
function foldButton(group, calls, thoughts, isFolded) {
  const failed = calls.filter(hasFailed).length;
  const callPart = (text) => el("span", { class: "fold-calls" }, text);
  const parts = [
    callPart(pluralize(calls.length, "tool call")),
    thoughts > 0 && el("span", { class: "fold-thoughts" }, callPart(" · "), pluralize(thoughts, "thought")),
    failed > 0 && callPart(` · ${formatNumber(failed)} failed`),
  ];
  const attributes = { class: "fold", type: "button", "aria-expanded": String(!isFolded) };
  const fresh = el("button", attributes, el("span", {}, ...parts));
  const old = group.querySelector(":scope > .fold");
  if (!old) return fresh;
  morph(old, fresh);
  return old;
}

/** Group neighbours with the same key. */
function groupRuns(views, keyOf) {
  const runs = [];
  for (const view of views) {
    const run = runs.at(-1);
    if (run && keyOf(run[0]) === keyOf(view)) run.push(view);
    else runs.push([view]);
  }
  return runs;
}

function elementsOf(views) {
  return views.map(({ element }) => element);
}
