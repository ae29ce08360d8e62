import { el } from "./dom.js";
import { counted, dollars, duration, number } from "./numbers.js";
import { dayOf } from "./time.js";

const GAP = 30 * 60_000;

/** What a turn cost, under it. */
export function footer({ start, end }) {
  if (!end) return undefined;
  const { usage, costUsd, partial } = end.payload;
  const told = [
    partial && "not finished",
    usage?.total_tokens !== undefined && counted(usage.total_tokens, "token"),
    usage?.cache_read_input_tokens > 0 && `${number(usage.cache_read_input_tokens)} from the cache`,
    usage?.cache_creation_input_tokens > 0 && `${number(usage.cache_creation_input_tokens)} to the cache`,
    costUsd !== undefined && dollars(costUsd),
    start && end.timestamp - start.timestamp >= 1000 && duration(end.timestamp - start.timestamp),
  ].filter(Boolean);
  return told.length ? el("footer", { class: "turn-end" }, told.join(" · ")) : undefined;
}

/** The turns, with the days between them, and what time passed without any. */
export function separators(slots) {
  let last;
  return slots.flatMap(({ element, items, turn, end }) => {
    const first = turn?.start?.timestamp ?? items[0]?.item.event.timestamp ?? end?.timestamp;
    const before = last;
    last = end?.timestamp ?? items.at(-1)?.item.event.timestamp ?? first;
    if (first === undefined) return [element];
    if (before === undefined || dateOf(before) !== dateOf(first)) {
      return [el("h2", { class: "day" }, dayOf(first)), element];
    }
    if (first - before < GAP) return [element];
    return [el("p", { class: "gap" }, `${duration(first - before)} later`), element];
  });
}

function dateOf(milliseconds) {
  return new Date(milliseconds).toDateString();
}
