/** Lay out the items of a turn: prompts, responses, runs of tool calls within and across them, and subagents. */
import { el, morph, setChildren } from "../lib/dom.js";
import { formatNumber, pluralize } from "../lib/number-format.js";
import { subagentLine } from "./subagent-line.js";

const MIN_FOLDED_CALLS = 4;
const GROUPS = { tool: "steps", thinking: "steps", agent: "agent-messages" };
const hasFailed = ({ dataset }) => "failed" in dataset;
const isFoldable = ({ dataset }) => !("subagent" in dataset || "message" in dataset);

/** @typedef {import("./chat-renderer.js").ItemView} ItemView */

/**
 * The calls, and the thoughts between them, of one response. Neighbours with no other item between them are a run.
 * `openPlace` is the place in the run when the group was last laid out, if it was not folded.
 * @typedef {{element: Element, steps: any[], openPlace?: string}} StepGroup
 */

/** Groups that the user folded (true) or unfolded (false). @type {WeakMap<Element, boolean>} */
const choices = new WeakMap();
/** The run of each group. @type {WeakMap<Element, StepGroup[]>} */
const runs = new WeakMap();
/** The layout of each response. @type {WeakMap<Element, {elements: Element[], groups: (StepGroup | undefined)[]}>} */
const responses = new WeakMap();

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
  /** Groups of steps, with undefined between two runs. @type {(StepGroup | undefined)[]} */
  const groups = [];
  const children = parts.flatMap(({ name, views: run, responseId }, index) => {
    if (name !== "assistant-response") groups.push(undefined);
    if (name === "user") return elementsOf(run);
    const isSubagent = name === "subagent";
    const holder = reuseWrapper(name, run, parent, used, isSubagent ? "details" : "div");
    if (isSubagent) layOutSubagent(holder, run, isOver || index < parts.length - 1);
    else groups.push(...layOutResponse(holder, run, responseId));
    return [holder];
  });
  groupRuns(groups, Boolean).forEach(([first, ...rest]) => first && layOutSteps([first, ...rest], isOver));
  setChildren(parent, [...before, ...children, ...after]);
}

/**
 * Lay out the items of a turn that was revoked as a whole: closed, with its prompt in one line.
 *
 * @param {HTMLElement} parent
 * @param {ItemView[]} views
 * @param {{isOver: boolean, after?: any[]}} options
 */
export function layOutRevoked(parent, views, options) {
  const holder = /** @type {HTMLElement} */ (parent.querySelector(":scope > .revoked") ?? el("details", { class: "revoked" }));
  const line = updated(holder.querySelector(":scope > summary"), revokedLine(views));
  layOutFlow(holder, views, { ...options, before: [line] });
  setChildren(parent, [holder]);
}

function revokedLine(views) {
  const payloads = views.filter(({ item }) => item.kind === "user").map(({ item }) => item.event.payload);
  const texts = payloads.map(({ visibleText, text }) => visibleText ?? text).filter((text) => typeof text === "string");
  const prompt = texts.map((text) => text.trim().split("\n", 1)[0]).find(Boolean) ?? "";
  return el("summary", {}, el("span", {}, "Revoked"), el("span", { class: "gist" }, prompt));
}

/**
 * Split items into prompts, responses and subagents without loaded calls. An item without a response id belongs to
 * the response before it. A subagent is identified by its call; without one, it has the items from its prompts to the
 * next prompt.
 *
 * @param {ItemView[]} views
 * @param {boolean} isAside
 * @returns {{name: string, views: ItemView[], responseId?: string}[]}
 */
function partsOf(views, isAside) {
  const parts = [];
  const byCall = new Map();
  for (const view of views) {
    const name = partName(view, isAside);
    const call = name === "subagent" ? view.item.parent : undefined;
    const last = parts.at(-1);
    const known = call === undefined ? continuesPart(last, name, view) && last : byCall.get(call);
    const part = known || { name, call, views: [] };
    part.views.push(view);
    part.responseId ??= view.item.event.responseId;
    if (known) continue;
    parts.push(part);
    if (call !== undefined) byCall.set(call, part);
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
  const { responseId = part.responseId } = view.item.event;
  if (name === "assistant-response") return (part.responseId ?? responseId) === responseId;
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
  const group = element?.closest?.(".steps");
  const run = group && runs.get(group);
  if (!run || !isLong(run)) return false;
  const choice = isFolded ?? !run[0].element.hasAttribute("data-folded");
  run.forEach((group) => choices.set(group.element, choice));
  layOutSteps(run, true);
  return true;
}

export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = value === undefined || value === false ? null : value === true ? "" : String(value);
    if (element.getAttribute(name) === text) continue;
    if (text === null) element.removeAttribute(name);
    else element.setAttribute(name, text);
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

/** Lay out the items of a subagent without its call loaded: closed, like a call. */
function layOutSubagent(holder, run, isOver) {
  const state = isOver ? "done" : "running";
  setAttributes(holder, { class: "subagent", "data-unlinked": true, "data-kind": "agent", "data-state": state });
  const line = updated(holder.querySelector(":scope > summary"), subagentLine(run, state));
  layOutFlow(holder, run, { isOver, isAside: true, before: [line] });
}

/**
 * Lay out a response, unless it has the same items as before: a long turn has thousands of responses.
 *
 * @returns {(StepGroup | undefined)[]} its groups of steps, with undefined for other items
 */
function layOutResponse(holder, run, id) {
  setAttributes(holder, { class: "assistant-response", "data-response-id": id });
  const elements = elementsOf(run);
  const known = responses.get(holder);
  if (known && isSameIn(holder, elements, known.elements)) return known.groups;
  const groups = layOutItems(holder, run);
  responses.set(holder, { elements, groups });
  return groups;
}

function isSameIn(holder, elements, before) {
  const isInPlace = (element, index) => element === before[index] && holder.contains(element);
  return elements.length === before.length && elements.every(isInPlace);
}

function layOutItems(holder, run) {
  const used = new Set();
  const groups = [];
  const children = groupRuns(run, ({ item }) => GROUPS[item.kind]).flatMap((views) => {
    const name = GROUPS[views[0].item.kind];
    const element = name && reuseWrapper(name, views, holder, used);
    groups.push(name === "steps" ? { element, steps: elementsOf(views) } : undefined);
    if (name === "agent-messages") setChildren(element, elementsOf(views));
    return element ? [element] : elementsOf(views);
  });
  setChildren(holder, children);
  return groups;
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
 * Fold a run of calls and the thoughts between them into one line when their turn is over. Failed calls, subagents and
 * messages to the reader stay visible.
 *
 * @param {StepGroup[]} run
 * @param {boolean} isOver
 */
function layOutSteps(run, isOver) {
  const choice = run.map(({ element }) => choices.get(element)).find((each) => each !== undefined);
  const hasButton = isLong(run);
  const isFolded = hasButton && (choice ?? isOver);
  run.forEach((group, index) => {
    const { element, steps } = group;
    const place = placeInRun(index, run.length);
    const isUnchanged = !isFolded && index > 0 && group.openPlace === place;
    group.openPlace = isFolded ? undefined : place;
    runs.set(element, run);
    if (isUnchanged) return;
    setAttributes(element, {
      class: steps.some(isCall) ? "steps tool-calls" : "steps",
      "data-run": place,
      "data-folded": isFolded,
    });
    steps.forEach((step) => hide(step, isFolded && !hasFailed(step) && isFoldable(step)));
    setChildren(element, hasButton && index === 0 ? [foldButton(element, run, isFolded), ...steps] : steps);
  });
}

function placeInRun(index, length) {
  if (length === 1) return "whole";
  return index === 0 ? "start" : index === length - 1 ? "end" : "middle";
}

function isCall(step) {
  return step.matches(".tool-call");
}

function foldableCalls(run) {
  return run.flatMap(({ steps }) => steps.filter((step) => isCall(step) && isFoldable(step)));
}

function isLong(run) {
  return foldableCalls(run).length >= MIN_FOLDED_CALLS;
}

function hide(step, isHidden) {
  if (isHidden) step.setAttribute("hidden", "until-found");
  else if (step.hasAttribute("hidden")) step.removeAttribute("hidden");
}

/** The label has one span per kind, so that filters can hide it (styles/filters.css). */
function foldButton(group, run, isFolded) {
  const calls = foldableCalls(run);
  const thoughts = run.flatMap(({ steps }) => steps).filter((step) => !isCall(step)).length;
  const failed = calls.filter(hasFailed).length;
  const callPart = (text) => el("span", { class: "fold-calls" }, text);
  const parts = [
    callPart(pluralize(calls.length, "tool call")),
    thoughts > 0 && el("span", { class: "fold-thoughts" }, callPart(" · "), pluralize(thoughts, "thought")),
    failed > 0 && callPart(` · ${formatNumber(failed)} failed`),
  ];
  const attributes = { class: "fold", type: "button", "aria-expanded": String(!isFolded) };
  const fresh = el("button", attributes, el("span", {}, ...parts));
  return updated(group.querySelector(":scope > .fold"), fresh);
}

/** The element that is already there, updated to equal the fresh one, which is used if there is none. */
function updated(old, fresh) {
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
