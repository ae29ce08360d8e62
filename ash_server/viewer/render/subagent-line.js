/** The summary line of a subagent without its call loaded: its task, number of calls and duration. */
import { pluralize } from "../lib/number-format.js";
import { durationText, lineOf } from "./tools/summary-line.js";

/**
 * @param {import("./chat-renderer.js").ItemView[]} views
 * @param {"running" | "done"} state
 */
export function subagentLine(views, state) {
  const items = views.map(({ item }) => item);
  const prompts = items.filter(({ kind }) => kind === "user");
  const calls = items.filter(({ kind }) => kind === "tool").length;
  const title = prompts.length > 1 ? pluralize(prompts.length, "subagent") : "Subagent";
  const outcome = [calls > 0 && pluralize(calls, "call"), state === "running" && state, durationText(durationOf(items))];
  return lineOf(title, prompts.map(taskOf).join(" · "), [outcome.filter(Boolean).join(" · ")].filter(Boolean));
}

function taskOf({ event: { payload } }) {
  const text = payload.visibleText ?? payload.text;
  return typeof text === "string" ? text.trim().split("\n", 1)[0] : "";
}

function durationOf(items) {
  const times = items.flatMap(({ event, results = [] }) => [event, ...results]).map(({ timestamp }) => timestamp);
  return times.reduce((one, other) => Math.max(one, other)) - times.reduce((one, other) => Math.min(one, other));
}
