/** Shell commands that a person ran with `!` in Claude Code, and their output, which are texts in tags. */
import { el } from "../lib/dom.js";
import { copyable } from "../lib/clipboard.js";
import { isString } from "../lib/json-fields.js";
import { pluralize } from "../lib/number-format.js";
import { codeBox, note, output } from "./tools/body-parts.js";
import { countLines } from "./tools/write.js";

const MAX_OPEN_LINES = 24;

/**
 * The command, or the outputs of one, in the text of a message; undefined for other texts.
 *
 * @returns {{command: string, stdout?: undefined, stderr?: undefined}
 *   | {command?: undefined, stdout: string, stderr: string} | undefined}
 */
export function userShell(text) {
  if (!isString(text)) return undefined;
  const whole = text.trim();
  const command = contentOf(whole, "bash-input");
  if (command !== undefined) return { command: command.trim() };
  const end = whole.indexOf("</bash-stdout>") + "</bash-stdout>".length;
  const stdout = contentOf(whole.slice(0, end), "bash-stdout");
  const rest = whole.slice(end).trim();
  const stderr = rest === "" ? "" : contentOf(rest, "bash-stderr");
  return stdout === undefined || stderr === undefined ? undefined : { stdout, stderr };
}

function contentOf(text, tag) {
  const [start, end] = [`<${tag}>`, `</${tag}>`];
  const isTagged = text.startsWith(start) && text.endsWith(end) && text.length >= start.length + end.length;
  return isTagged ? text.slice(start.length, -end.length) : undefined;
}

/** The command of a prompt. */
export function shellPrompt(command) {
  return copyable(codeBox(command, "bash", "command"), "command", () => command);
}

/** The output below the prompt: closed, if it is long. */
export function shellOutput({ stdout, stderr }) {
  const streams = [["", stdout], ["stderr", stderr]].filter(([, text]) => text.trim() !== "");
  const lines = streams.reduce((sum, [, text]) => sum + countLines(text), 0);
  return {
    name: "details",
    kind: "shell-output",
    data: { "data-block": "text", open: lines <= MAX_OPEN_LINES },
    children: [
      el("summary", {}, "Output", lines > 0 && el("span", { class: "gist" }, pluralize(lines, "line"))),
      ...streams.map(([stream, text]) => output(text.replace(/\n$/, ""), stream)),
      streams.length === 0 && note("No output."),
    ],
  };
}
