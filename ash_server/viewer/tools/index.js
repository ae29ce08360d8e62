import { el } from "../dom.js";

export function toolCall(item, { state }) {
  const name = item.call?.payload.toolName ?? item.event.payload.toolName ?? "A call that is not here";
  const args = item.call ? item.call.payload.args : item.input;
  return {
    name: "details",
    kind: "tool-call",
    data: { "data-tool-call-id": item.event.payload.toolCallId, "data-block": "tool", "data-kind": "other", "data-state": state },
    children: [
      el("summary", {}, el("span", { class: "tool-name" }, name), el("span", { class: "tool-gist" }, ""), el("span", { class: "tool-outcome" }, state)),
      el("div", { class: "tool-args" }, typeof args === "string" ? args : JSON.stringify(args)),
      ...item.results.map((result) => el("div", { class: "tool-result", "data-event-id": result.id }, JSON.stringify(result.payload.result))),
    ],
  };
}
