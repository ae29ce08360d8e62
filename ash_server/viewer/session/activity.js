/** What the open turn of a session does now, as its events state it. */
import { callSummary } from "../render/tools/registry.js";

/** Tools that wait for an answer of the person; as in `ash_shared/projections/activity.py`. */
export const ASKING_TOOLS = new Set(
  `askuser askuserquestion askfollowupquestion askquestion question requestuserinput exitplanmode planexit
   mcpapprovalrequest`.split(/\s+/),
);

/**
 * The call that waits for the person, or else the latest one that runs, or else what is written; undefined if the events
 * do not state it.
 *
 * @param {import("../render/chat-renderer.js").ChatRenderer} renderer
 * @returns {import("../lib/activity-text.js").Activity | undefined}
 */
export function currentActivity({ openTurn, unfinished, revoked }) {
  const items = [...unfinished].map(({ item }) => item).filter(({ event }) => {
    return (event.turnId ?? null) === openTurn && !revoked.has(event.id);
  });
  const asking = latest(items.filter(isAsking));
  if (asking) return { ...callSummary(asking), isWaiting: true, since: asking.event.timestamp };
  const call = latest(items.filter(({ kind }) => kind === "tool"));
  if (call) return { ...callSummary(call), since: call.event.timestamp };
  const text = latest(items);
  return text && { title: text.kind === "thinking" ? "Thinking" : "Writing", since: text.event.timestamp };
}

/** @param {import("../render/event-log.js").Item[]} items */
function latest(items) {
  return items.length ? items.reduce((last, item) => (item.seq > last.seq ? item : last)) : undefined;
}

/** @param {import("../render/event-log.js").Item} item */
function isAsking(item) {
  const name = item.kind === "tool" ? item.call?.payload.toolName : undefined;
  return typeof name === "string" && ASKING_TOOLS.has(name.toLowerCase().replaceAll(/[^a-z0-9]/g, ""));
}
