/** Shell commands and other code that is executed. */
import { plainOutput } from "../../lib/ansi.js";
import { blocks, valueView } from "../content-blocks.js";
import { decodeJson } from "./call.js";
import { command, facts, note, output } from "./body-parts.js";
import { includesMessage, resultText, splitText, structuredOf } from "./call-result.js";
import { FieldReader, fieldOf, isEmpty, isObject, isString, isStringOrStrings, textField } from "../../lib/json-fields.js";

const COMMAND = ["command", "cmd", "commands", "script", "code", "snippet", "input", "chars", "CommandLine"];
const FOLDER = ["workdir", "cwd", "working_directory", "workingDirectory", "dir_path", "directory", "Cwd"];
const SHELL = /^(?:.*\/)?(?:ba|z|da|k)?sh$/;

/** The header that Codex writes before the output. */
const ENVELOPE =
  /^(?:(?:Chunk ID|Wall time|Process|Exit code|Original token count|Total output lines)\b.*\n)+Output:\n/;
const EXITS = [
  /^Exit code:? (-?\d+)/,
  /^Process exited with code (-?\d+)/m,
  /^(?:Output|Command): [^]*\nExit Code: (-?\d+)/,
];
const OUT = ["stdout", "stdOut"];
const ERR = ["stderr", "stdErr"];
const EXIT_KEYS = ["exitCode", "exit_code", "exit", "return_code"];

/** @type {import("./registry.js").Tool} */
export const bash = {
  gist(args) {
    return commandOf(args);
  },

  outcome({ last, state }) {
    const exit = last && exitCodeOf(last);
    const isStopped = state !== "interrupted" && structuredOf(last)?.interrupted === true;
    return [exit !== undefined && exit !== 0 && `exit ${exit}`, isStopped && "interrupted"];
  },

  args(reader) {
    const args = reader.value;
    const text = commandOf(args);
    if (text === undefined) return undefined;
    if (!(reader.takeWhole(isString) ?? reader.take(COMMAND, isStringOrStrings))) return undefined;
    const description = reader.text("description", "justification", "explanation");
    const folder = reader.text(...FOLDER);
    const isCode = textField(args, "code", "snippet") !== undefined;
    const language = textField(args, "language") ?? (isCode ? "python" : "bash");
    const shell = shellOf(args);
    const location = [folder && `in ${folder}`, shell && `by ${shell}`].filter(Boolean).join(", ");
    return [
      description && note(description),
      command(text, language.toLowerCase()),
      location && note(location),
    ];
  },

  result(result) {
    const parts = commandOutput(result);
    return parts.length || result.error ? parts : [note("No output.")];
  },

  text({ args, results, output: chunks }) {
    const text = commandOf(args);
    if (text === undefined) return undefined;
    const streamed = results.length ? "" : chunks.map(({ chunk }) => chunk).join("");
    const outputs = [...results.map(outputText), streamed].map((each) => plainOutput(each).trimEnd());
    return [`$ ${text}`, ...outputs.filter(Boolean)].join("\n");
  },
};

/** The output in a result as one text. */
function outputText(result) {
  const value = decodeJson(result.value);
  const streams = isEmpty(result.value) ? structuredOf(result) : value;
  const isApart = isEmpty(result.value) || hasStreams(value);
  const texts = isApart ? [textField(streams, ...OUT, "output"), textField(streams, ...ERR)] : [resultText(value)];
  const text = texts.filter(Boolean).join("\n").replace(ENVELOPE, "");
  const message = textField(result.error, "message");
  return includesMessage(message, result.value) ? text : [text, message].filter(Boolean).join("\n");
}

/** The output of a program, without its envelope. */
export function commandOutput(result) {
  const value = decodeJson(result.value);
  if (hasStreams(value)) return streamsAndRest(new FieldReader(value));
  const { text, others } = splitText(result.value) ?? {};
  if (text) return [...outputParts(text, textField(structuredOf(result), ...ERR) ?? ""), ...blocks(others)];
  return isEmpty(result.value) ? streamOutputs(new FieldReader(structuredOf(result))) : valueView(result.value);
}

/** The command as text; undefined if there is none. */
function commandOf(args) {
  if (isString(args)) return args;
  const value = fieldOf(args, COMMAND, isStringOrStrings);
  if (isString(value) || value === undefined) return value;
  if (Object.hasOwn(args, "commands")) return value.join("\n");
  return shellOf(args) ? value[2] : value.map(quoteWord).join(" ");
}

/** The shell of a command list that runs a script with `-c`. */
function shellOf(args) {
  const list = fieldOf(args, COMMAND, isStringOrStrings);
  const isScript = list?.length === 3 && SHELL.test(list[0]) && /^-\w*c$/.test(list[1]);
  return isScript ? `${list[0]} ${list[1]}` : undefined;
}

function quoteWord(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Output with its header as a note and, if its stderr is known, with that part marked. */
function outputParts(text, stderr) {
  const [head] = text.match(ENVELOPE) ?? [""];
  const body = text.slice(head.length);
  const heading = head && note(head.trimEnd().split("\n").slice(0, -1).join(" · "));
  const start = stderr.trim() ? body.lastIndexOf(stderr.trim()) : -1;
  const parts = start < 0 ? [["", body], ["stderr", stderr]] : splitStreams(body, start, stderr.trim().length);
  return [heading, ...parts.filter(([, part]) => part.trim()).map(([stream, part]) => output(part, stream))];
}

function splitStreams(text, start, length) {
  const end = start + length;
  return [["", text.slice(0, start)], ["stderr", text.slice(start, end)], ["", text.slice(end)]];
}

function hasStreams(value) {
  const isWrapped = textField(value, "output") !== undefined && isObject(value.metadata);
  return isWrapped || textField(value, ...OUT, ...ERR) !== undefined;
}

function streamsAndRest(reader) {
  const parts = streamOutputs(reader);
  const rest = reader.rest();
  return [...parts, rest && facts(rest)];
}

function streamOutputs(reader) {
  const parts = [[undefined, reader.text(...OUT, "output")], ["stderr", reader.text(...ERR)]];
  return parts.filter(([, text]) => text).map(([stream, text]) => output(text, stream));
}

/**
 * The exit code, if the result contains one.
 *
 * @param {{exitCode?: any, structured?: any, value?: any}} result
 */
export function exitCodeOf({ exitCode, structured, value }) {
  if (Number.isInteger(exitCode)) return exitCode;
  return fieldOf(structuredOf({ structured }), EXIT_KEYS, Number.isInteger) ?? exitCodeInText(resultText(value));
}

/** The exit code stated in the output. */
export function exitCodeInText(text) {
  const match = EXITS.map((pattern) => text.match(pattern)).find(Boolean);
  return match && Number(match[1]);
}
