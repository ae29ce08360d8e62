/** The body of an open tool call. */
import { el } from "../../lib/dom.js";
import { exitCodeInText } from "./bash.js";
import { aside, note, output } from "./body-parts.js";
import { generic } from "./generic.js";
import { includesMessage, isPlainText, resultText } from "./call-result.js";
import { callTitle } from "./summary-line.js";
import { FieldReader, fieldOf, isEmpty, isEqual, isObject, isScalar, isString } from "../../lib/json-fields.js";

/** Notes before the arguments, where the diff of a change that was not made could be mistaken for one that was. */
const WARNINGS = {
  denied: "It was refused, and did not run.",
};
const EDIT_WARNINGS = {
  denied: "It was refused: the change was not made.",
  error: "It failed: the change was not made, or not as a whole.",
};
const EDIT_KINDS = new Set(["edit", "delete"]);

const STATES = {
  interrupted: "There is no result: the turn ended first.",
  orphan: "The call of this result is not in this session.",
};
const EXECUTORS = {
  server: "It ran on the server of the model.",
  mcp: "It ran in an MCP server.",
  agent: "Another agent ran it.",
  user: "The user ran it.",
  host: "The program of the agent called it without the model.",
};

export function openBody(call, tool, kind) {
  return [
    warning(call, kind),
    el("div", { class: "tool-args" }, ...argsOf(call, tool), sessionLink(call)),
    ...call.results.map((result) => resultBody(result, call, tool)),
    !call.results.length && call.output.length > 0 && el("div", { class: "tool-output" }, ...outputOf(call)),
    stateNote(call),
  ];
}

/** A link to the session of the subagent that the call started. */
function sessionLink({ sessionHref }) {
  return sessionHref !== undefined && note(el("a", { href: sessionHref }, "Open its session"));
}

function warning({ state }, kind) {
  const text = (EDIT_KINDS.has(kind) ? EDIT_WARNINGS : WARNINGS)[state];
  return text && el("p", { class: "state-note", "data-state": state }, text);
}

function resultBody(result, call, tool) {
  return el("div", { class: "tool-result", "data-event-id": result.id }, ...resultOf(result, call, tool));
}

function argsOf(call, tool) {
  const { name, args, rawArgs, executor, more } = call;
  const reader = new FieldReader(args);
  const argParts = tool.args(reader, call) ?? generic.args(reader);
  const rest = reader.rest();
  const parts = [
    name !== callTitle(call, tool) && name !== "" && note(name),
    ...argParts,
    rest !== undefined && aside("Other arguments", rest),
    rawArgs !== undefined && aside("Arguments as the model wrote them", rawArgs),
    isString(executor) && note(fieldOf(EXECUTORS, [executor]) ?? `It was run by: ${executor}`),
    !isEmpty(more) && aside("Other fields of the call", more),
  ].filter(Boolean);
  return parts.length || call.state === "orphan" ? parts : [note("No arguments.")];
}

function resultOf(result, call, tool) {
  const value = withoutText(result.value, call.lastText);
  const isShown = value === result.value || !isEmpty(value);
  const parts = [
    value !== result.value && note("The answer is the subagent's last text, above."),
    ...(isShown ? tool.result({ ...result, value }, call) : []),
    ...errorOf(result),
    ...exitOf(result),
    hasExtraStructure(result) && aside("Structured result", result.structured),
    !isEmpty(result.more) && aside("Other fields of the result", result.more),
  ].filter(Boolean);
  return parts.length ? parts : [note("No output.")];
}

/** A result without the text that is shown as the last text of the subagent. */
function withoutText(value, text) {
  if (!isString(text) || text === "") return value;
  const isSame = (each) => isString(each) && each.trim() === text.trim();
  if (isSame(value)) return "";
  if (!Array.isArray(value)) return value;
  const rest = value.filter((block) => !(isObject(block) && isPlainText(block) && isSame(block.text)));
  return rest.length < value.length ? rest : value;
}

function exitOf({ value, exitCode }) {
  if (isEmpty(exitCode)) return [];
  if (!isScalar(exitCode)) return [aside("Exit code", exitCode)];
  return exitCodeInText(resultText(value)) === exitCode ? [] : [note(`exit ${exitCode}`)];
}

/** The error, without a message that the result contains. */
function errorOf({ value, error }) {
  if (isEmpty(error)) return [];
  if (!isObject(error)) return [aside("Error", error)];
  const reader = new FieldReader(error);
  const code = reader.text("code");
  const message = reader.text("message");
  const rest = reader.rest();
  return [
    code !== undefined && code !== "error" && note(code),
    message !== undefined && !includesMessage(message, value) && output(message, "stderr"),
    rest !== undefined && aside("Other fields of the error", rest),
  ];
}

/** True if the structured result has more than the result. */
function hasExtraStructure({ value, structured }) {
  if (isEmpty(structured) || isEqual(structured, value)) return false;
  const keys = Object.keys(structured);
  return !(isString(value) && keys.length === 1 && structured[keys[0]] === value);
}

function outputOf({ output: chunks }) {
  const runs = [];
  for (const { chunk, stream } of chunks) {
    if (runs.length && runs.at(-1).stream === stream) runs.at(-1).text += chunk;
    else runs.push({ stream, text: String(chunk) });
  }
  return runs.map(({ text, stream }) => output(text, stream));
}

function stateNote({ state, results }) {
  const text = state === "interrupted" && results.length ? "It was interrupted." : STATES[state];
  return text && el("p", { class: "state-note", "data-state": state }, text);
}
