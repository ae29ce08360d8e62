import { el } from "../lib/dom.js";
import { counted, dollars, duration, ofCache } from "../lib/number-format.js";
import { dayKey, dayOf } from "../lib/time-format.js";

const GAP = 30 * 60_000;

/** What a turn cost, under it. */
export function footer({ start, end, last }) {
  if (!end) return undefined;
  const { usage, costUsd, partial } = end.event.payload;
  const lasted = start && last && last.event.timestamp - start.event.timestamp;
  const told = [
    partial && "not finished",
    usage?.total_tokens !== undefined && counted(usage.total_tokens, "token"),
    ...ofCache(usage),
    costUsd !== undefined && dollars(costUsd),
    lasted >= 1000 && duration(lasted),
  ].filter(Boolean);
  return told.length ? el("footer", { class: "turn-end" }, told.join(" · ")) : undefined;
}

/** The turns, with the days between them, and what time passed without any. */
export function separators(slots) {
  let last;
  return slots.flatMap(({ element, items, turn, end }) => {
    const begins = turn?.start?.event ?? items[0]?.item.event ?? end.event;
    const first = begins.timestamp;
    const before = last;
    last = (turn?.last?.event ?? items.at(-1)?.item.event ?? begins).timestamp;
    const ahead = between(before, first);
    return ahead ? [kept(element, ...ahead), element] : [element];
  });
}

function between(before, first) {
  if (before === undefined || dayKey(before) !== dayKey(first)) return ["h2", "day", dayOf(first)];
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
