import { formatDollars, formatNumber } from "./number-format.js";

/**
 * The usage of a session, of its subagents or of an answer.
 * @typedef {{answers: number, costUsd?: number, reportedAnswers?: number, unpricedAnswers?: number}} Usage
 */

/**
 * A cost: with "≈" if it is computed from tokens at API prices, and with "+" if some answers have no price.
 *
 * @param {Usage} usage
 */
export function costText({ answers, costUsd, reportedAnswers = 0, unpricedAnswers = 0 }, format = formatDollars) {
  if (costUsd === undefined) return unpricedAnswers > 0 ? "unpriced" : "";
  const text = format(costUsd);
  const isComputed = reportedAnswers < answers && !text.startsWith("<");
  return `${isComputed ? "≈" : ""}${text}${unpricedAnswers > 0 ? "+" : ""}`;
}

/**
 * The part of subagents in the cost of a session.
 *
 * @param {Usage} own
 * @param {Usage | undefined} total
 */
export function subagentsText(own, total, format = formatDollars) {
  if (total?.costUsd === undefined) return "";
  const subagents = Math.max(0, total.costUsd - (own.costUsd ?? 0));
  return `subagents ${format(subagents)} of ${format(total.costUsd)}`;
}

/**
 * What a cost means, for its title.
 *
 * @param {Usage} usage
 */
export function costHint({ answers, costUsd, reportedAnswers = 0, unpricedAnswers = 0 }) {
  const hints = [
    costUsd !== undefined && (reportedAnswers < answers ? "Computed at API prices" : "As reported by the agent"),
    unpricedAnswers > 0 && `${formatNumber(unpricedAnswers)} of ${formatNumber(answers)} answers have no price`,
  ];
  return hints.filter(Boolean).join("; ");
}
