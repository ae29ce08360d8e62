/** The body of a call that a person has opened. */
import { el } from "../../lib/dom.js";
import { exitTold } from "./bash.js";
import { aside, note, output } from "./body-parts.js";
import { raw } from "./generic.js";
import { isSaid, textOf } from "./call-result.js";
import { titleOf } from "./summary-line.js";
import { at, isEmpty, isObject, isScalar, isText, Reader, same } from "../../lib/json-fields.js";

const STATES = {
  denied: "It was not allowed.",
  interrupted: "There is no result: its turn ended before one came.",
  orphan: "The call that this is a result of is not in this session.",
};
const EXECUTORS = {
  server: "It ran where the model runs.",
  mcp: "It ran in an MCP server.",
  agent: "Another agent ran it.",
};

export function richBody(call, tool) {
  return [
    el("div", { class: "tool-args" }, ...argsOf(call, tool)),
    ...call.results.map((result) => resultBody(result, call, tool)),
    !call.results.length && call.output.length > 0 && el("div", { class: "tool-output" }, ...outputOf(call)),
    stateNote(call),
  ];
}

function resultBody(result, call, tool) {
  return el("div", { class: "tool-result", "data-event-id": result.id }, ...resultOf(result, call, tool));
}

function argsOf(call, tool) {
  const { name, args, written, executor, more } = call;
  const reader = new Reader(args);
  const shown = tool.args(reader, call) ?? raw.args(reader);
  const rest = reader.rest();
  const parts = [
    name !== titleOf(call, tool) && name !== "" && note(name),
    ...shown,
    rest !== undefined && aside("More arguments", rest),
    written !== undefined && aside("As it was written", written),
    isText(executor) && note(at(EXECUTORS, [executor]) ?? `It was run by: ${executor}`),
    !isEmpty(more) && aside("More of the call", more),
  ].filter(Boolean);
  return parts.length || call.state === "orphan" ? parts : [note("No arguments.")];
}

function resultOf(result, call, tool) {
  const parts = [
    ...tool.result(result, call),
    ...errorOf(result),
    ...exitOf(result),
    isTelling(result) && aside("Structured result", result.structured),
    !isEmpty(result.more) && aside("More of the result", result.more),
  ].filter(Boolean);
  return parts.length ? parts : [note("No output.")];
}

function exitOf({ value, exitCode }) {
  if (isEmpty(exitCode)) return [];
  if (!isScalar(exitCode)) return [aside("Exit code", exitCode)];
  return exitTold(textOf(value)) === exitCode ? [] : [note(`exit ${exitCode}`)];
}

/** What went wrong, where the result does not say so itself. */
function errorOf({ value, error }) {
  if (isEmpty(error)) return [];
  if (!isObject(error)) return [aside("Error", error)];
  const reader = new Reader(error);
  const code = reader.text("code");
  const message = reader.text("message");
  const rest = reader.rest();
  return [
    code !== undefined && code !== "error" && note(code),
    !isSaid(message, value) && output(message, "stderr"),
    rest !== undefined && aside("More of the error", rest),
  ];
}

/** Whether the machine-readable form says what the result does not. */
function isTelling({ value, structured }) {
  if (isEmpty(structured) || same(structured, value)) return false;
  const keys = Object.keys(structured);
  return !(isText(value) && keys.length === 1 && structured[keys[0]] === value);
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
  const told = state === "interrupted" && results.length ? "It was interrupted." : STATES[state];
  return told && el("p", { class: "state-note", "data-state": state }, told);
}
