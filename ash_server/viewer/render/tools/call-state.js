import { exitOf } from "./bash.js";
import { isShell } from "./registry.js";
import { isObject, isText } from "../../lib/json-fields.js";

/** How far a call is; `isWritten` as long as something may come of it. What is not answered then was left. */
export function stateOf(item, isWritten) {
  if (item.kind !== "tool") return undefined;
  const result = item.results.at(-1);
  if (!item.call && result) return "orphan";
  if (result) return outcomeOf(result.payload, item.event.payload.toolName);
  if (!isWritten) return "interrupted";
  return item.call ? "running" : "pending";
}

/** What is told where somebody said no: by the providers, in the words that the model is given. */
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
const CODE = /denied|reject|declin|permission/i;

function outcomeOf(result, tool) {
  const { error, structured } = result;
  if (isRefusal(structured)) return "denied";
  if (!error) return hasFailed(result, tool) ? "error" : "done";
  const { code, message } = error;
  const isSaid = (patterns) => isText(message) && patterns.some((pattern) => pattern.test(message));
  if (CODE.test(isText(code) ? code : "") || isSaid(DENIED)) return "denied";
  return isSaid(STOPPED) ? "interrupted" : "error";
}

/** Whether a program ended with another code than 0. To some providers that is no error; it is shown alike for all. */
function hasFailed({ exitCode, structured, result }, tool) {
  const exit = isText(tool) && isShell(tool) ? exitOf({ exitCode, structured, value: result }) : exitCode;
  return Number.isInteger(exit) && exit !== 0;
}

function isRefusal(structured) {
  if (!isObject(structured)) return false;
  return isObject(structured.rejected) || structured.status === "declined" || structured.approve === false;
}
