/** The tree below a turn: what the user said, what the assistant did, and in that the runs of calls. */
import { become, el, place } from "../lib/dom.js";
import { counted, number } from "../lib/number-format.js";

const FOLDED_FROM = 4;
const GROUPS = { tool: "steps", thinking: "steps", agent: "agent-messages" };
const hasFailed = ({ dataset }) => "failed" in dataset;

/** Whether the person wants a run of calls folded, where they said so. */
const choices = new WeakMap();

/** @typedef {{item: import("./event-log.js").Item, element: Element}} Shown */

/** Puts the elements of these items, which are in order, below a parent; `isOver` when nothing more will come. */
export function layFlow(parent, shown, { isOver, isAside = false, after = [] }) {
  const used = new Set();
  const partOf = ({ item }) => {
    if (item.event.payload?.sidechain && !isAside) return "subagent";
    return item.kind === "user" ? "user" : "assistant-response";
  };
  const children = runs(shown, partOf).flatMap((run) => {
    const part = partOf(run[0]);
    if (part === "user") return elementsOf(run);
    const holder = wrapper(part, run, parent, used);
    if (part === "subagent") layAside(holder, run, isOver);
    else layResponse(holder, run, isOver);
    return [holder];
  });
  place(parent, [...children, ...after]);
}

/** Folds a run of calls or opens it, by any element of its; gives whether there was one. */
export function toggleFold(element, isFolded) {
  const group = element?.closest?.(".tool-calls");
  if (!group?.querySelector(":scope > .fold")) return false;
  choices.set(group, isFolded ?? !group.hasAttribute("data-folded"));
  laySteps(group, [...group.children].filter((child) => !child.matches(".fold")), true);
  return true;
}

export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** What holds these items now, so that what is on the screen moves as little as can be; else a new one. */
export function wrapper(name, shown, parent, used, tag = "div") {
  const held = shown.map(({ element }) => element.closest(`.${name}`));
  const found = held.find((element) => element?.parentNode === parent && !used.has(element)) ?? el(tag, { class: name });
  used.add(found);
  return found;
}

/** What a subagent said and did of which it is not known who called it. */
function layAside(holder, run, isOver) {
  setAttributes(holder, { class: "subagent", "data-unlinked": true });
  layFlow(holder, run, { isOver, isAside: true });
}

function layResponse(holder, run, isOver) {
  const id = run.find(({ item }) => item.event.responseId !== undefined)?.item.event.responseId;
  setAttributes(holder, { class: "assistant-response", "data-response-id": id });
  markFinal(run);
  const used = new Set();
  const children = runs(run, ({ item }) => GROUPS[item.kind]).flatMap((group) => {
    const name = GROUPS[group[0].item.kind];
    if (!name) return elementsOf(group);
    const element = wrapper(name, group, holder, used);
    if (name === "steps") laySteps(element, elementsOf(group), isOver);
    else place(element, elementsOf(group));
    return [element];
  });
  place(holder, children);
}

/** The answer: what was said last, where nobody tells which text it is. */
function markFinal(run) {
  const texts = run.filter(({ item }) => item.kind === "text");
  const told = texts.filter(({ item }) => item.event.payload.phase === "final_answer");
  const final = new Set(told.length ? told : texts.slice(-1));
  texts.forEach((each) => setAttributes(each.element, { "data-final": final.has(each) }));
}

/** Calls, with the thoughts between them, become one line once their turn is over; those that failed stay in sight. */
function laySteps(group, steps, isOver) {
  const calls = steps.filter((step) => step.matches(".tool-call"));
  const isFoldable = calls.length >= FOLDED_FROM;
  const isFolded = isFoldable && (choices.get(group) ?? isOver);
  setAttributes(group, { class: calls.length ? "steps tool-calls" : "steps", "data-folded": isFolded });
  steps.forEach((step) => hide(step, isFolded && !hasFailed(step)));
  place(group, isFoldable ? [foldButton(group, calls, steps.length - calls.length, isFolded), ...steps] : steps);
}

function hide(step, isHidden) {
  if (isHidden) step.setAttribute("hidden", "until-found");
  else step.removeAttribute("hidden");
}

/** Each kind is told by itself, so that what is filtered out is not told (styles/filters.css). */
function foldButton(group, calls, thoughts, isFolded) {
  const failed = calls.filter(hasFailed).length;
  const ofCalls = (told) => el("span", { class: "fold-calls" }, told);
  const told = [
    ofCalls(counted(calls.length, "tool call")),
    thoughts > 0 && el("span", { class: "fold-thoughts" }, ofCalls(" · "), counted(thoughts, "thought")),
    failed > 0 && ofCalls(` · ${number(failed)} failed`),
  ];
  const attributes = { class: "fold", type: "button", "aria-expanded": String(!isFolded) };
  const fresh = el("button", attributes, el("span", {}, ...told));
  const old = group.querySelector(":scope > .fold");
  if (!old) return fresh;
  become(old, fresh);
  return old;
}

/** Neighbours of which the same is true. */
function runs(shown, of) {
  const found = [];
  for (const each of shown) {
    if (found.length && of(found.at(-1)[0]) === of(each)) found.at(-1).push(each);
    else found.push([each]);
  }
  return found;
}

function elementsOf(shown) {
  return shown.map(({ element }) => element);
}
