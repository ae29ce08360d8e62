/** Commands, and code that is run. */
import { blocks } from "../content-blocks.js";
import { decoded } from "./call.js";
import { code, facts, note, output } from "./body-parts.js";
import { formOf, shown, textOf, textual } from "./call-result.js";
import { at, isEmpty, isObject, isText, isTexts, Reader, textAt } from "../../lib/json-fields.js";

const COMMAND = ["command", "cmd", "commands", "script", "code", "snippet", "input", "chars"];
const FOLDER = ["workdir", "cwd", "working_directory", "workingDirectory", "dir_path", "directory"];
const SHELL = /^(?:.*\/)?(?:ba|z|da|k)?sh$/;

/** What Codex writes ahead of what the command wrote. */
const ENVELOPE =
  /^(?:(?:Chunk ID|Wall time|Process|Exit code|Original token count|Total output lines)\b.*\n)+Output:\n/;
const EXITS = [
  /^Exit code:? (-?\d+)/,
  /^[^]{0,200}?^Process exited with code (-?\d+)/m,
  /^(?:Output|Command): [^]*\nExit Code: (-?\d+)/,
];
const OUT = ["stdout", "stdOut"];
const ERR = ["stderr", "stdErr"];
const EXIT_KEYS = ["exitCode", "exit_code", "exit", "return_code"];

export const bash = {
  gist(args) {
    return commandOf(args);
  },

  outcome({ last, state }) {
    const exit = last && exitOf(last);
    const isStopped = state !== "interrupted" && formOf(last)?.interrupted === true;
    return [exit !== undefined && exit !== 0 && `exit ${exit}`, isStopped && "interrupted"];
  },

  args(reader) {
    const args = reader.whole;
    const text = commandOf(args);
    if (text === undefined || !(reader.all(isText) ?? reader.take(COMMAND, isTexts))) return undefined;
    const description = reader.text("description", "justification", "explanation");
    const folder = reader.text(...FOLDER);
    const isCode = textAt(args, "code", "snippet") !== undefined;
    const language = textAt(args, "language") ?? (isCode ? "python" : "bash");
    const shell = shellOf(args);
    const where = [folder && `in ${folder}`, shell && `by ${shell}`].filter(Boolean).join(", ");
    return [
      description && note(description),
      code(text, language.toLowerCase(), "command"),
      where && note(where),
    ];
  },

  result(result) {
    const parts = shownOutput(result);
    return parts.length || result.error ? parts : [note("No output.")];
  },
};

/** What a program wrote, without what it is wrapped in. */
export function shownOutput(result) {
  const value = decoded(result.value);
  if (isStreams(value)) return streams(new Reader(value));
  const { text, beside } = textual(result.value) ?? {};
  if (text) return [...written(text, textAt(formOf(result), ...ERR) ?? ""), ...blocks(beside)];
  return isEmpty(result.value) ? streamsOf(new Reader(formOf(result))) : shown(result.value);
}

/** A command as a text, however it is told; undefined where none is. */
function commandOf(args) {
  if (isText(args)) return args;
  const value = at(args, COMMAND, isTexts);
  if (isText(value) || value === undefined) return value;
  if (Object.hasOwn(args, "commands")) return value.join("\n");
  return shellOf(args) ? value[2] : value.map(quoted).join(" ");
}

/** The shell that a list gives a script to. */
function shellOf(args) {
  const list = at(args, COMMAND, isTexts);
  const isScript = list?.length === 3 && SHELL.test(list[0]) && /^-\w*c$/.test(list[1]);
  return isScript ? `${list[0]} ${list[1]}` : undefined;
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** What a command wrote; what of it went to the second stream is told apart where it is known. */
function written(text, stderr) {
  const [head] = text.match(ENVELOPE) ?? [""];
  const body = text.slice(head.length);
  const heading = head && note(head.trimEnd().split("\n").slice(0, -1).join(" · "));
  const place = stderr.trim() ? body.lastIndexOf(stderr.trim()) : -1;
  const parts = place < 0 ? [["", body], ["stderr", stderr]] : split(body, place, stderr.trim().length);
  return [heading, ...parts.filter(([, part]) => part.trim()).map(([stream, part]) => output(part, stream))];
}

function split(text, place, length) {
  const end = place + length;
  return [["", text.slice(0, place)], ["stderr", text.slice(place, end)], ["", text.slice(end)]];
}

function isStreams(value) {
  const isWrapped = textAt(value, "output") !== undefined && isObject(value.metadata);
  return isWrapped || textAt(value, ...OUT, ...ERR) !== undefined;
}

function streams(reader) {
  const parts = streamsOf(reader);
  const rest = reader.rest();
  return [...parts, rest && facts(rest)];
}

function streamsOf(reader) {
  const parts = [[undefined, reader.text(...OUT, "output")], ["stderr", reader.text(...ERR)]];
  return parts.filter(([, text]) => text).map(([stream, text]) => output(text, stream));
}

/** How the command ended, as far as anything tells. */
export function exitOf({ exitCode, structured, value }) {
  if (Number.isInteger(exitCode)) return exitCode;
  return at(formOf({ structured }), EXIT_KEYS, Number.isInteger) ?? exitTold(textOf(value));
}

/** How it ended, as the text says. */
export function exitTold(text) {
  const found = EXITS.map((pattern) => text.match(pattern)).find(Boolean);
  return found && Number(found[1]);
}
