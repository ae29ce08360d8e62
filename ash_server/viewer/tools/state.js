/** How far a call is. What was never answered when its turn ended was left. */
export function stateOf(item, log, openTurn) {
  if (item.kind !== "tool") return undefined;
  const result = item.results.at(-1);
  if (!item.call && result) return "orphan";
  if (result) return result.payload.error ? failure(result.payload.error) : "done";
  if (item.event.turnId === undefined || item.event.turnId === openTurn) return item.call ? "running" : "pending";
  return "interrupted";
}

const DENIED = /denied|reject|declin|permission/i;

function failure({ code }) {
  return DENIED.test(code) ? "denied" : "error";
}
