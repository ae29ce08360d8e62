/**
 * The answers of finished turns that state no cost, by the footers of the turns. A turn of the log and a turn of the
 * answers are the same if the messages of its items have only answers of that turn.
 *
 * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
 * @param {Map<number, any[]>} answers by the sequence of their message
 * @returns {[footer: Element, answers: any[]][]}
 */
export function turnCosts(renderer, answers) {
  const byNumber = Map.groupBy([...answers.values()].flat(), ({ turn }) => turn);
  const numbers = turnNumbers(renderer, answers);
  const claims = Map.groupBy([...numbers.values()].flatMap((found) => [...found]), (number) => number);
  return [...numbers].flatMap(([id, found]) => {
    const { start, end } = renderer.log.turns.get(id) ?? {};
    const isClear = [...found].every((number) => claims.get(number)?.length === 1);
    const isStated = end?.event.payload.costUsd !== undefined;
    const footer = start && end && isClear && !isStated && footerOf(renderer, id);
    return footer ? [/** @type {[Element, any[]]} */ ([footer, [...found].flatMap((number) => byNumber.get(number))])] : [];
  });
}

/** The numbers of the answers' turns by the ids of the log's turns. */
function turnNumbers(renderer, answers) {
  /** @type {Map<string, Set<number>>} */
  const numbers = new Map();
  for (const { item } of renderer.itemViews.values()) {
    const { turnId, messageSequence } = item.event;
    const found = turnId === undefined ? undefined : answers.get(messageSequence ?? 0);
    if (turnId === undefined || !found) continue;
    const known = numbers.get(turnId) ?? new Set();
    found.forEach(({ turn }) => known.add(turn));
    numbers.set(turnId, known);
  }
  return numbers;
}

function footerOf(renderer, id) {
  return renderer.turnViews.get(id)?.element?.querySelector(":scope > .turn-end");
}
