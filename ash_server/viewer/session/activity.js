/** The current activity of a session, from the events of its open turn. */
import { callSummary } from "../render/tools/registry.js";

/** Tools that ask the person; as in `ash_shared/projections/activity.py`. */
const ASKING_TOOLS = new Set(
  `askuser askuserquestion askfollowupquestion askquestion question requestuserinput exitplanmode planexit
   mcpapprovalrequest`.split(/\s+/),
);

/**
 * The call that waits for the person, else the latest running call, else the text that is being written; undefined if
 * there is none.
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
