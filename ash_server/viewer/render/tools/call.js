/** An item of the log as a call: what it is, with what, and what came of it. No DOM. */
import { parseJson } from "../../lib/json-view.js";
import { partial } from "../../lib/partial-json.js";
import { isEmpty, isText } from "../../lib/json-fields.js";

const OF_BOTH = ["toolCallId", "parentToolCallId", "sidechain"];
const OF_CALL = new Set([...OF_BOTH, "toolName", "args", "executor", "partial"]);
const OF_RESULT = new Set([...OF_BOTH, "result", "error", "exitCode", "structured", "orphan"]);

/**
 * @typedef {{name: string, args: any, written?: string, executor?: string, more: object, output: any[],
 *   results: Result[], last?: Result, state: string, took?: number}} Call
 * @typedef {{id: string, value: any, error?: any, exitCode?: number, structured: any, more: object}} Result
 */

/** @returns {Call} */
export function readCall(item, state) {
  const told = item.call?.payload ?? item.event.payload;
  const results = item.results.map(readResult);
  return {
    name: nameOf(told.toolName),
    ...argsOf(item, told.args),
    executor: told.executor ?? undefined,
    more: item.call ? others(told, OF_CALL) : {},
    output: item.output,
    results,
    last: results.at(-1),
    state,
    took: between(item.call?.timestamp, item.results.at(-1)?.timestamp),
  };
}

function between(begin, end) {
  return Number.isFinite(begin) && Number.isFinite(end) ? end - begin : undefined;
}

/** `written` is the text of arguments that are not whole. */
function argsOf({ call, input }, args) {
  const value = decoded(call ? args : input);
  if (!isText(value) || (call && !/^\s*\{/.test(value))) return { args: value };
  const read = partial(value);
  return read === value || isEmpty(read) ? { args: value } : { args: read, written: value };
}

function readResult({ id, payload }) {
  const { result, error, exitCode, structured } = payload;
  return { id, value: result, error, exitCode, structured, more: others(payload, OF_RESULT) };
}

function nameOf(name) {
  return isText(name) ? name : name === undefined || name === null ? "" : JSON.stringify(name);
}

function others(payload, known) {
  return Object.fromEntries(Object.entries(payload).filter(([name]) => !known.has(name)));
}

/** The value that a text is JSON for, if that is an object or a list; else the text. */
export function decoded(text) {
  if (!isText(text) || !/^\s*[{[]/.test(text) || !/[\]}]\s{0,9}$/.test(text.slice(-10))) return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}
