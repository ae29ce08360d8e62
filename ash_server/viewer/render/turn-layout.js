/** Lay out the items of a turn: prompts and responses, and in these the runs of tool calls. */
import { el, morph, setChildren } from "../lib/dom.js";
import { formatNumber, pluralize } from "../lib/number-format.js";

const MIN_FOLDED_CALLS = 4;
const GROUPS = { tool: "steps", thinking: "steps", agent: "agent-messages" };
const hasFailed = ({ dataset }) => "failed" in dataset;

/** Groups that the user folded (true) or unfolded (false). */
const choices = new WeakMap();

/** @typedef {import("./chat-renderer.js").ItemView} ItemView */

/**
 * Lay out items below a parent.
 *
 * @param {HTMLElement} parent
 * @param {ItemView[]} views in the order of the log
 * @param {{isOver: boolean, isAside?: boolean, after?: any[]}} options `isOver`: no more items will come; `isAside`:
 *   the items belong to a subagent; `after`: elements appended to them
 */
export function layOutFlow(parent, views, { isOver, isAside = false, after = [] }) {
  const used = new Set();
  const partOf = ({ item }) => {
    if (item.event.payload?.sidechain && !isAside) return "subagent";
    return item.kind === "user" ? "user" : "assistant-response";
  };
  const children = groupRuns(views, partOf).flatMap((run) => {
    const part = partOf(run[0]);
    if (part === "user") return elementsOf(run);
    const holder = reuseWrapper(part, run, parent, used);
    if (part === "subagent") layOutSubagent(holder, run, isOver);
    else layOutResponse(holder, run, isOver);
    return [holder];
  });
  setChildren(parent, [...children, ...after]);
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

/** Lay out the items of a subagent whose call is unknown. */
function layOutSubagent(holder, run, isOver) {
  setAttributes(holder, { class: "subagent", "data-unlinked": true });
  layOutFlow(holder, run, { isOver, isAside: true });
}

function layOutResponse(holder, run, isOver) {
  const id = run.find(({ item }) => item.event.responseId !== undefined)?.item.event.responseId;
  setAttributes(holder, { class: "assistant-response", "data-response-id": id });
  markFinalText(run);
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

/** Mark the final answer: the texts with that phase, else the last text. */
function markFinalText(run) {
  const texts = run.filter(({ item }) => item.kind === "text");
  const declared = texts.filter(({ item }) => item.event.payload.phase === "final_answer");
  const final = new Set(declared.length ? declared : texts.slice(-1));
  texts.forEach((each) => setAttributes(each.element, { "data-final": final.has(each) }));
}

/** Fold calls and the thoughts between them into one line when their turn is over. Failed calls stay visible. */
function layOutSteps(group, steps, isOver) {
  const calls = steps.filter((step) => step.matches(".tool-call"));
  const isFoldable = calls.length >= MIN_FOLDED_CALLS;
  const isFolded = isFoldable && (choices.get(group) ?? isOver);
  setAttributes(group, { class: calls.length ? "steps tool-calls" : "steps", "data-folded": isFolded });
  steps.forEach((step) => hide(step, isFolded && !hasFailed(step)));
  setChildren(group, isFoldable ? [foldButton(group, calls, steps.length - calls.length, isFolded), ...steps] : steps);
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
