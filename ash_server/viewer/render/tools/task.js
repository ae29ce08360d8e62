/** Tasks for subagents. */
import { pluralize } from "../../lib/number-format.js";
import { blocks, valueView } from "../content-blocks.js";
import { decodeJson } from "./call.js";
import { aside, label, note, prose, settings } from "./body-parts.js";
import { splitText, structuredOf } from "./call-result.js";
import { fieldOf, isString, textField } from "../../lib/json-fields.js";

const PROMPT = ["prompt", "message", "task", "query", "objective", "instructions", "question", "input"];
const AGENT = ["subagent_type", "agent_type", "agent_name", "agentName", "agent", "subagent", "mode"];
const DESCRIPTION = ["description", "title", "task_description", "name"];
/** The answer of a subagent of OpenCode, with the tags around it. */
const TAGGED = /^(?:task_id: |<task )[^\n]*\s+<task_result>\n(.*)\n<\/task_result>\s*(?:<\/task>\s*)?$/s;

/** @type {import("./registry.js").Tool} */
export const task = {
  gist(args) {
    const agent = textField(args, ...AGENT);
    const summary = textField(args, ...DESCRIPTION) ?? textField(args, ...PROMPT) ?? (isString(args) ? args : "");
    return [summary, agent].filter(Boolean).join(" · ") || undefined;
  },

  outcome({ last }) {
    const report = structuredOf(last);
    const calls = fieldOf(report, ["totalToolUseCount", "toolUses"], Number.isInteger);
    const tokens = fieldOf(report, ["totalTokens", "total_tokens"], Number.isInteger);
    const isBackground = textField(report, "status") === "async_launched";
    const callText = calls !== undefined && pluralize(calls, "call");
    const tokenText = tokens !== undefined && pluralize(tokens, "token");
    const both = [{ name: "on-wide-screens", text: `${callText} ·` }, { name: "tokens", text: tokenText }];
    const counts = callText && tokenText ? [both] : [callText, tokenText];
    return [...counts, isBackground && "in the background"];
  },

  args(reader) {
    const prompt = reader.takeWhole(isString) ?? reader.text(...PROMPT);
    const description = reader.text(...DESCRIPTION);
    const agent = reader.text(...AGENT);
    if (!prompt && !description) return undefined;
    return [
      (agent || description) && note([agent, description].filter(Boolean).join(" · ")),
      prompt && prose(prompt),
      settings(reader),
    ];
  },

  result(result) {
    const { text, others } = splitText(result.value) ?? {};
    if (!text || !isString(decodeJson(text))) return valueView(result.value);
    const answer = TAGGED.exec(text)?.[1] ?? text;
    const isTagged = answer !== text;
    return [label("Answer"), prose(answer), ...blocks(others), isTagged && aside("The whole result", text)];
  },
};
