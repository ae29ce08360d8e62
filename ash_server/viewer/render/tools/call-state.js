import { isFailure } from "./call-result.js";
import { isObject, isString } from "../../lib/json-fields.js";

/**
 * The state of a call, undefined for other items.
 *
 * @param {import("../event-log.js").Item} item
 * @param {boolean} canContinue false if no more events can follow: a call without a result was interrupted
 */
export function callState(item, canContinue) {
  if (item.kind !== "tool") return undefined;
  const result = item.results.at(-1);
  if (!item.call && result) return "orphan";
  if (result) return outcomeOf(result.payload);
  if (!canContinue) return "interrupted";
  return item.call ? "running" : "pending";
}

/** Error messages of denied calls, by all providers. */
const DENIED = [
  /^(?:<tool_use_error>)?The user doesn't want to (?:proceed|take this action)/,
  /^Permission (?:prompt was aborted|to use .{1,80} (?:has been )?denied)/,
  /^Claude requested permissions? to .{1,200} haven't granted/s,
  /^(?:User )?(?:rejected|declined|denied|refused)\b/i,
  /^exec(?:ution)? (?:command )?rejected by user/i,
  /^.{0,80}(?:was|has been) (?:rejected|declined|denied) by (?:the )?user/i,
  /^The tool call was (?:rejected|declined|denied)/i,
];
const STOPPED = [/^\[Request interrupted by user/, /^\[Operation Cancelled\]/i, /^aborted by user/i];
const DENIED_CODE = /denied|reject|declin|permission/i;

/** A call has failed if its result has an error: the server counts the same. */
function outcomeOf({ error, structured }) {
  if (isRefusal(structured)) return "denied";
  if (!isFailure(error)) return "done";
  const { code, message } = isString(error) ? { code: "", message: error } : error;
  const messageMatches = (patterns) => isString(message) && patterns.some((pattern) => pattern.test(message));
  if (DENIED_CODE.test(isString(code) ? code : "") || messageMatches(DENIED)) return "denied";
  return messageMatches(STOPPED) ? "interrupted" : "error";
}

function isRefusal(structured) {
  if (!isObject(structured)) return false;
  return isObject(structured.rejected) || structured.status === "declined" || structured.approve === false;
}
