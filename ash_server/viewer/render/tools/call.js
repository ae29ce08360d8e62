/** Read a tool call from an item of the log. No DOM. */
import { parseJson } from "../../lib/json-view.js";
import { parsePartialJson } from "../../lib/partial-json.js";
import { isEmpty, isString, textField } from "../../lib/json-fields.js";

const SHARED_FIELDS = ["toolCallId", "toolName", "parentToolCallId", "sidechain"];
const CALL_FIELDS = new Set([...SHARED_FIELDS, "args", "executor", "partial"]);
const RESULT_FIELDS = new Set([...SHARED_FIELDS, "result", "error", "exitCode", "structured", "orphan", "agentId"]);

const ERROR_TAG = /^\s*<tool_use_error>([^]*?)<\/tool_use_error>([^]*)$/;

/**
 * `rawArgs` is the text of arguments that are not complete JSON; `more` are the fields without a card; `lastText` is
 * the last text of the call's subagent, `sessionHref` the address of its session. `isOfScript`: a script made the call.
 *
 * @typedef {{name: string, args: any, rawArgs?: string, executor?: string, more: object, output: any[],
 *   results: Result[], last?: Result, state: string, durationMs?: number, lastText?: string,
 *   sessionHref?: string, isOfScript?: boolean}} Call
 * @typedef {{id: string, value: any, error?: any, exitCode?: number, structured: any, more: object}} Result
 */

/**
 * @param {any} item
 * @param {{state: any, lastText?: string, isOfScript?: boolean, agentHrefs?: Map<string, string>}} context `agentHrefs` are the addresses of
 *   the sessions of subagents
 * @returns {Call}
 */
export function readCall(item, { state, lastText, isOfScript, agentHrefs }) {
  const results = item.results.map(readResult);
  return {
    ...readRequest(item),
    more: item.call ? omitFields(item.call.payload, CALL_FIELDS) : {},
    output: item.output,
    results,
    last: results.at(-1),
    state,
    lastText,
    isOfScript,
    sessionHref: agentsOf(item).map((agent) => agentHrefs?.get(agent)).find((href) => href !== undefined),
    durationMs: difference(item.call?.timestamp, item.results.at(-1)?.timestamp),
  };
}

/**
 * The part of a call that says what to do, without its results.
 *
 * @param {any} item
 * @returns {Pick<Call, "name" | "args" | "rawArgs" | "executor">}
 */
export function readRequest(item) {
  const { toolName, args, executor } = item.call?.payload ?? item.event.payload;
  return { name: nameOf(toolName), ...readArgs(item, args), executor: executor ?? undefined };
}

/** The subagents that a call started, by its results. @returns {string[]} */
function agentsOf({ results }) {
  return results.map(({ payload }) => payload.agentId).filter(isString);
}

function difference(start, end) {
  return Number.isFinite(start) && Number.isFinite(end) ? end - start : undefined;
}

function readArgs({ call, input }, args) {
  const value = decodeJson(call ? args : input);
  if (!isString(value) || (call && !/^\s*\{/.test(value))) return { args: value };
  const partial = parsePartialJson(value);
  return partial === value || isEmpty(partial) ? { args: value } : { args: partial, rawArgs: value };
}

function readResult({ id, payload }) {
  const { result, exitCode, structured } = payload;
  const own = isString(payload.error) && payload.error ? { message: payload.error } : payload.error;
  const message = textField(own, "message");
  const error = message === undefined ? own : { ...own, message: withoutErrorTag(message) };
  const more = omitFields(payload, RESULT_FIELDS);
  return { id, value: withoutErrorTags(result), error, exitCode, structured, more };
}

/** Remove the tag that Claude Code writes around the errors of its tools; output of the tool may follow it. */
function withoutErrorTags(value) {
  if (isString(value)) return withoutErrorTag(value);
  if (!Array.isArray(value)) return value;
  const isTagged = (block) => ERROR_TAG.test(textField(block, "text") ?? "");
  return value.map((block) => (isTagged(block) ? { ...block, text: withoutErrorTag(block.text) } : block));
}

function withoutErrorTag(text) {
  const [, error, output = ""] = text.match(ERROR_TAG) ?? [];
  if (error === undefined) return text;
  if (output.trim() === "") return error;
  return output.startsWith("\n") ? error + output : `${error}\n${output}`;
}

function nameOf(name) {
  return isString(name) ? name : name === undefined || name === null ? "" : JSON.stringify(name);
}

function omitFields(payload, known) {
  return Object.fromEntries(Object.entries(payload).filter(([name]) => !known.has(name)));
}

/** Parse a string that contains a JSON object or list; other values are returned unchanged. */
export function decodeJson(text) {
  if (!isString(text) || !/^\s*[{[]/.test(text) || !/[\]}]\s{0,9}$/.test(text.slice(-10))) return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}
