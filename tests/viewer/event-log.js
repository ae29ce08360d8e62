import { EventLog } from "/viewer/render/event-log.js";

/** Fold events one by one; returns items and turns as short texts. */
export function fold(events) {
  const log = new EventLog();
  const items = new Map();
  for (const event of events) {
    log.add(event);
    if (log.wasReset) items.clear();
    log.wasReset = false;
    for (const { before, now } of log.takeChanges()) {
      before.forEach(({ key }) => items.delete(key));
      now.forEach((item) => items.set(item.key, item));
    }
  }
  const inOrder = [...items.values()].sort((one, other) => one.seq - other.seq || (one.key < other.key ? -1 : 1));
  return {
    items: inOrder.map((item) => within(log, item) + (FORMS[item.kind] ?? plain)(item)),
    turns: [...log.turns.values()].sort((one, other) => one.first - other.first).map(turn),
  };
}

function within(log, item) {
  if (item.parent === undefined) return "";
  return `${item.parent}@${log.parentCallOf(item)?.seq ?? "?"} > `;
}

const text = ({ kind, seq, text, isOpen }) => `${seq} ${kind}: ${text}${isOpen ? "…" : ""}`;

const FORMS = {
  text,
  thinking: text,
  speech: text,
  tool: ({ seq, event, call, input, output, results }) =>
    [
      `${seq} ${event.payload.toolCallId}`,
      call && `call ${call.id}`,
      input && `input ${input}`,
      output.length && `output ${output.map(({ chunk }) => chunk).join("")}`,
      results.length && `results ${results.map(({ id }) => id).join(" ")}`,
    ]
      .filter(Boolean)
      .join(", "),
  agent: ({ seq, event, message, answers }) =>
    `${seq} ${event.payload.messageId}: ${message?.id ?? "?"} -> ${answers.map(({ id }) => id).join(" ")}`,
};

function plain({ kind, seq, event }) {
  return `${seq} ${kind === "event" ? event.type : kind}`;
}

function turn({ id, first, last, start, end, interrupt }) {
  const marks = Object.entries({ start, end, interrupt }).filter(([, mark]) => mark);
  return [`${id}: ${first}-${last?.seq ?? ""}`, ...marks.map(([name, { event }]) => `${name} ${event.id}`)].join(", ");
}
