import { el } from "../lib/dom.js";
import { formatCacheUsage, formatDollars, formatDuration, pluralize } from "../lib/number-format.js";
import { dayKey, dayTime } from "../lib/time-format.js";

const MIN_GAP_MS = 30 * 60_000;

/**
 * The footer of a finished turn: usage, cost and duration.
 *
 * @param {import("./event-log.js").Turn} turn
 */
export function turnFooter({ start, end, last }) {
  if (!end) return undefined;
  const { usage, costUsd, partial } = end.event.payload;
  const elapsed = start && last ? last.event.timestamp - start.event.timestamp : 0;
  const facts = [
    partial && "not finished",
    usage?.total_tokens !== undefined && pluralize(usage.total_tokens, "token"),
    ...formatCacheUsage(usage),
    costUsd !== undefined && formatDollars(costUsd),
    elapsed >= 1000 && formatDuration(elapsed),
  ].filter(Boolean);
  return facts.length ? el("footer", { class: "turn-end" }, facts.join(" · ")) : undefined;
}

/** The elements of turns, separated by day headings and long gaps. */
export function withSeparators(slots) {
  let last;
  return slots.flatMap(({ element, items, turn, end }) => {
    const firstEvent = turn?.start?.event ?? items[0]?.item.event ?? end.event;
    const separator = separatorBefore(element, last, firstEvent.timestamp);
    last = (turn?.last?.event ?? items.at(-1)?.item.event ?? firstEvent).timestamp;
    return separator ? [separator, element] : [element];
  });
}

/** The last separators, by the element after them. @type {WeakMap<Element, {before: any, first: any, node?: Element}>} */
const separators = new WeakMap();

/** The separator before a turn; the one that is already there if it is equal, so that it does not move. */
function separatorBefore(element, before, first) {
  const known = separators.get(element);
  if (known && known.before === before && known.first === first) return known.node;
  const fresh = separatorBetween(before, first);
  const node = fresh && known?.node?.isEqualNode(fresh) ? known.node : fresh;
  separators.set(element, { before, first, node });
  return node;
}

function separatorBetween(before, first) {
  if (before === undefined || dayKey(before) !== dayKey(first)) return el("h2", { class: "day" }, dayTime(first));
  const gap = first - before;
  return gap < MIN_GAP_MS ? undefined : el("p", { class: "gap" }, `${formatDuration(gap)} later`);
}
