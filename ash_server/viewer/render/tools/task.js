/** Work that is given to a subagent. */
import { counted } from "../../lib/number-format.js";
import { blocks } from "../content-blocks.js";
import { decoded } from "./call.js";
import { label, note, prose, setting } from "./body-parts.js";
import { formOf, shown, textual } from "./call-result.js";
import { at, isText, textAt } from "../../lib/json-fields.js";

const PROMPT = ["prompt", "message", "task", "query", "objective", "instructions", "question", "input"];
const AGENT = ["subagent_type", "agent_type", "agent_name", "agentName", "agent", "subagent", "mode"];
const DESCRIPTION = ["description", "title", "task_description", "name"];

export const task = {
  gist(args) {
    const agent = textAt(args, ...AGENT);
    const what = textAt(args, ...DESCRIPTION) ?? textAt(args, ...PROMPT) ?? (isText(args) ? args : "");
    return [agent, what].filter(Boolean).join(" · ") || undefined;
  },

  outcome({ last }) {
    const calls = at(formOf(last), ["totalToolUseCount", "toolUses"], Number.isInteger);
    const isAside = textAt(formOf(last), "status") === "async_launched";
    return [calls !== undefined && counted(calls, "call"), isAside && "in the background"];
  },

  args(reader) {
    const prompt = reader.all(isText) ?? reader.text(...PROMPT);
    const description = reader.text(...DESCRIPTION);
    const agent = reader.text(...AGENT);
    if (!prompt && !description) return undefined;
    return [
      (agent || description) && note([agent, description].filter(Boolean).join(" · ")),
      prompt && prose(prompt),
      setting(reader),
    ];
  },

  result(result) {
    const { text, beside } = textual(result.value) ?? {};
    if (!text || !isText(decoded(text))) return shown(result.value);
    return [label("Answer"), prose(text), ...blocks(beside)];
  },
};
