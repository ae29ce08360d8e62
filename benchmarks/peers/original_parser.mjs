// The parser of the original TypeScript system, reimplemented from its behaviour, not copied: its known types, the
// fields it copies (and drops), its rules for user messages, and its exceptions.
//
// Run as `node original_parser.mjs FILE`, one message per line of FILE. Then each line on standard input is a command:
// `parse` and `stringify` process all messages once and print the elapsed milliseconds; `show` prints one line per
// message: its blocks, or null if the parser threw.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const BLOCKS = {
  text: (b) => ({ type: "text", text: b.text }),
  thinking: (b) => ({ type: "thinking", thinking: b.thinking }),
  tool_use: (b) => ({ type: "tool_use", id: b.id, name: b.name, input: b.input }),
  tool_result: (b) => ({ type: "tool_result", tool_use_id: b.tool_use_id, content: b.content, is_error: b.is_error }),
  image: (b) => ({ type: "image", source: b.source }),
};

function parseBlock(block) {
  const known = BLOCKS[block.type];
  return known ? known(block) : { type: "raw", raw: block };
}

function parseToolUseResult(result) {
  return {
    type: "tool_result",
    tool_use_id: result.tool_use_id ?? "",
    content: result.stdout ?? result.content ?? "",
    is_error: result.is_error,
  };
}

export function parseMessageContent(rawContent) {
  let message;
  try {
    message = JSON.parse(rawContent);
  } catch {
    return [{ type: "text", text: rawContent }];
  }
  if (message.type === "assistant" && Array.isArray(message.message?.content)) {
    return message.message.content.map(parseBlock);
  }
  if (message.type === "user" && message.tool_use_result) return [parseToolUseResult(message.tool_use_result)];
  if (message.type === "result" && typeof message.result === "string") {
    return [{ type: "text", text: message.result }];
  }
  if (message.type !== "user" && Array.isArray(message.content)) return message.content.map(parseBlock);
  return [{ type: "raw", raw: message }];
}

function orNull(raw) {
  try {
    return parseMessageContent(raw);
  } catch {
    return null;
  }
}

let kept; // a result that is used nowhere could be optimised away
function timed(each) {
  const began = performance.now();
  for (const raw of messages) kept = each(raw);
  return String(performance.now() - began);
}

const COMMANDS = {
  parse: () => timed(orNull),
  stringify: () => timed((raw) => JSON.stringify(orNull(raw))),
  show: () => messages.map((raw) => JSON.stringify(orNull(raw))).join("\n"),
};

const messages = readFileSync(process.argv[2], "utf8").split("\n");
for (let warm = 0; warm < 3; warm++) COMMANDS.stringify();
for await (const command of createInterface({ input: process.stdin })) {
  process.stdout.write(`${COMMANDS[command]()}\n`);
}
