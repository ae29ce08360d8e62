/** The last plan of a session, or its list of tasks. */
import { el } from "../lib/dom.js";
import { markHidden } from "../lib/hidden-characters.js";
import { formatNumber } from "../lib/number-format.js";

const WORDS = { done: "done: ", active: "being done: ", cancelled: "cancelled: ", open: "to do: " };

/** "5 of 7 done"; cancelled steps do not count. */
export function planText({ items }) {
  const [done, all] = countSteps(items);
  return `${formatNumber(done)} of ${formatNumber(all)} done`;
}

/** "plan 5 of 7" */
export function shortPlanText({ items }) {
  const [done, all] = countSteps(items);
  return `plan ${formatNumber(done)} of ${formatNumber(all)}`;
}

function countSteps(items) {
  const count = (isCounted) => items.filter(({ state }) => isCounted(state)).length;
  return [count((state) => state === "done"), count((state) => state !== "cancelled")];
}

export function planList({ items }) {
  const steps = items.map(({ text, state }) => {
    const word = el("span", { class: "visually-hidden" }, WORDS[state]);
    return el("li", { "data-status": state, dir: "auto" }, word, ...markHidden(text, "prose"));
  });
  return el("ol", { class: "todo-list" }, ...steps);
}
