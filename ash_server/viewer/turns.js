import { el } from "./dom.js";
import { counted, dollars, duration, number } from "./numbers.js";
import { dayOf } from "./time.js";

const GAP = 30 * 60_000;

/** What a turn cost, under it. */
export function footer({ start, end }) {
  if (!end) return undefined;
  const { usage, costUsd, partial } = end.event.payload;
  const lasted = start && end.event.timestamp - start.event.timestamp;
  const told = [
    partial && "not finished",
    usage?.total_tokens !== undefined && counted(usage.total_tokens, "token"),
    usage?.cache_read_input_tokens > 0 && `${number(usage.cache_read_input_tokens)} from the cache`,
    usage?.cache_creation_input_tokens > 0 && `${number(usage.cache_creation_input_tokens)} to the cache`,
    costUsd !== undefined && dollars(costUsd),
    lasted >= 1000 && duration(lasted),
  ].filter(Boolean);
  return told.length ? el("footer", { class: "turn-end" }, told.join(" · ")) : undefined;
}

/** The turns, with the days between them, and what time passed without any. */
export function separators(slots) {
  let last;
  return slots.flatMap(({ element, items, turn, end }) => {
    const [begins, ...others] = [turn?.start?.event, ...items.map(({ item }) => item.event), end?.event].filter(Boolean);
    const first = begins.timestamp;
    const before = last;
    last = (end?.event ?? others.at(-1) ?? begins).timestamp;
    const ahead = between(before, first);
    return ahead ? [kept(element, ...ahead), element] : [element];
  });
}

function between(before, first) {
  if (before === undefined || dateOf(before) !== dateOf(first)) return ["h2", "day", dayOf(first)];
  return first - before < GAP ? undefined : ["p", "gap", `${duration(first - before)} later`];
}

const ahead = new WeakMap();

/** The one that stands there already, so that nothing moves that has not changed. */
function kept(element, tag, name, told) {
  const fresh = el(tag, { class: name }, told);
  const known = ahead.get(element);
  if (known?.isEqualNode(fresh)) return known;
  ahead.set(element, fresh);
  return fresh;
}

function dateOf(milliseconds) {
  return new Date(milliseconds).toDateString();
}
