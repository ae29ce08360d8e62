/** Paint items: a table with one function per kind, and one per type for items that are single events. */
import { blocks } from "./content-blocks.js";
import { citedText } from "./citations.js";
import { el } from "../lib/dom.js";
import { isObject, isString } from "../lib/json-fields.js";
import { markHidden } from "../lib/hidden-characters.js";
import { jsonView } from "../lib/json-view.js";
import { longText } from "../lib/long-text.js";
import { markdown } from "../lib/markdown.js";
import { pluralize } from "../lib/number-format.js";
import { clockTime } from "../lib/time-format.js";
import { toolCall } from "./tools/registry.js";
import { aside, note } from "./tools/body-parts.js";
import { shellOutput, shellPrompt, userShell } from "./user-shell.js";

const LONG_TEXT_LENGTH = 2000;
const LONG_TEXT_LINES = 24;
const MAX_GIST_LENGTH = 160;

/**
 * The result of a painter: the tag, the class, attributes and children of the element.
 * @typedef {{name?: string, kind: string, data?: Record<string, any>, children: any[]}} Painted
 */

/**
 * The element of an item, with the attributes for permalinks and filters. Never throws.
 *
 * @param {import("./event-log.js").Item} item
 * @param {{state?: string, isOpen?: boolean, lastText?: string, taskArgs?: any,
 *   hrefOf?: (sessionId: string) => string, agentHrefs?: Map<string, string>}} context `lastText` is the last text of a
 *   call's subagent, `taskArgs` are the arguments of the call that started the subagent of a prompt, `agentHrefs` are the
 *   addresses of the sessions of subagents
 */
export function paint(item, context) {
  const { name = "div", kind, data = {}, children } = paintSafely(item, context);
  const { event } = item;
  const attributes = {
    class: kind,
    id: `e-${event.id}`,
    "data-event-id": event.id,
    "data-seq": item.seq,
    tabindex: name !== "details" && -1,
    ...data,
  };
  return el(name, attributes, ...children);
}

/**
 * Paint an item; if its payload does not match its type, as JSON.
 *
 * @returns {Painted}
 */
function paintSafely(item, context) {
  try {
    return PAINTERS[item.kind](item, context);
  } catch {
    return raw(item);
  }
}

/**
 * The element with the text of an open item, if only its text has changed.
 *
 * @param {Element | undefined} element
 * @param {import("./event-log.js").Item | undefined} before the item that the element shows
 * @param {import("./event-log.js").Item} item
 */
export function openTextOf(element, before, item) {
  const isSame = before?.isOpen && item.isOpen && before.event.id === item.event.id && before.seq === item.seq;
  const { content, citations } = item.event.payload;
  if (!isSame || content !== undefined || citations !== undefined || !isString(item.text)) return undefined;
  if (item.kind === "text") return element;
  return (item.kind === "thinking" && element?.querySelector(":scope > .text")) || undefined;
}

const PAINTERS = {
  user,
  text,
  thinking,
  speech,
  tool: toolCall,
  agent,
  event: single,
};

/** Painters of single events by type; events of unknown types are painted as JSON. */
const EVENT_PAINTERS = {
  agent_switch: agentSwitch,
  system_message: notice,
  summary,
  error,
  interrupt,
  retraction,
  raw,
};

function single(item) {
  const { type } = item.event;
  return (Object.hasOwn(EVENT_PAINTERS, type) ? EVENT_PAINTERS[type] : raw)(item);
}

/** The agent or script that sent a prompt, if the person did not send it. */
function sender({ fromAgentId, sender: kind }) {
  const name = isString(fromAgentId) && fromAgentId !== "" ? fromAgentId : kind === "script" && "a script";
  return name && `from ${name} · `;
}

function user(item, context) {
  const { payload } = item.event;
  const shell = payload.content?.some(({ type }) => type !== "text") ? undefined : userShell(payload.text);
  if (shell?.stdout !== undefined) return shellOutput(shell);
  if (shell === undefined) return message(item, context);
  return { kind: "user-message", data: { "data-block": "text" }, children: [sentAt(item), shellPrompt(shell.command)] };
}

function sentAt({ event: { payload, type, timestamp } }) {
  return el("span", { class: "sent-at" }, sender(payload), type === "user_audio" && "aloud · ", clockTime(timestamp));
}

function message(item, context) {
  const { payload, type } = item.event;
  const fullText = type === "user_audio" ? payload.transcription : payload.text;
  const shown = payload.visibleText ?? fullText;
  const otherBlocks = (payload.content ?? []).filter((block) => block.type !== "text");
  const isHidden = shown.trim() === "" && fullText !== "" && !otherBlocks.length;
  const isSynthetic = payload.synthetic || isHidden;
  const data = { "data-block": isSynthetic ? "system" : "text" };
  if (isSynthetic) {
    const href = sessionHref(undefined, payload.agentId, context);
    return { name: "details", kind: "user-message", ...syntheticMessage(payload, fullText, otherBlocks, data, href) };
  }
  const isWhole = shown === fullText && !otherBlocks.length;
  if (isWhole && isTaskOf(context.taskArgs, shown)) return { name: "details", kind: "user-message", ...repeatedTask(shown, data) };
  return {
    kind: "user-message",
    data: { ...data, "data-long": isLong(shown) },
    children: [
      sentAt(item),
      shown.trim() !== "" &&
        el("div", { class: "text", dir: "auto", tabindex: isLong(shown) && 0 }, markdown(shown, { breaks: true })),
      ...blocks(otherBlocks),
      fullText !== shown && toolWrapping(fullText),
    ],
  };
}

/** True for the prompt of a subagent that is an argument of its call, which shows it. */
function isTaskOf(args, text) {
  return isObject(args) && Object.values(args).includes(text);
}

function repeatedTask(text, data) {
  return { data, children: [el("summary", {}, "The task, as in the call"), textBox(text)] };
}

function textBox(text) {
  return el("pre", { class: "text", dir: "auto", tabindex: 0 }, ...longText(text));
}

/**
 * A message that a tool wrote on behalf of the user: one line, until it is opened. `href` is the address of the session
 * of the subagent that has ended.
 */
function syntheticMessage(payload, text, otherBlocks, data, href) {
  const shown = payload.visibleText || text;
  const line = shown.trim().split("\n", 1)[0].slice(0, MAX_GIST_LENGTH);
  const gist = line !== "" && el("span", { class: "gist", dir: "auto" }, ...markHidden(line, "prose"));
  return {
    data: { ...data, "data-synthetic": true },
    children: [
      el("summary", {}, el("span", {}, origin(payload)), gist),
      href !== undefined && note(el("a", { href }, "Open the session of the subagent")),
      textBox(text),
      ...blocks(otherBlocks),
    ],
  };
}

/** Who wrote a message on behalf of the user, if the record states it: "Sent by: peer Reviewer". */
function origin({ sender: kind, senderName }) {
  return isString(kind) && kind !== "" ? `Sent by: ${[kind, senderName].filter(isString).join(" ")}` : "Added by the tool";
}

function isLong(text) {
  return text.length > LONG_TEXT_LENGTH || text.split("\n", LONG_TEXT_LINES + 1).length > LONG_TEXT_LINES;
}

function toolWrapping(text) {
  const summary = el("summary", {}, "What the tool added");
  return el("details", { class: "wrapped" }, summary, el("pre", { tabindex: 0 }, ...longText(text)));
}

function text({ event, text, parts, isOpen }) {
  const { variant, phase } = event.payload;
  const { partial, stopReason } = parts.at(-1).payload;
  const otherBlocks = parts.flatMap(({ payload }) => payload.content ?? []).filter((block) => block.type !== "text");
  return {
    kind: "assistant-text",
    data: {
      "data-block": "text",
      "data-variant": variant,
      "data-phase": phase,
      "data-partial": partial,
      "data-streaming": isOpen,
    },
    children: [
      ...citedText(text, parts),
      ...blocks(otherBlocks),
      stopReason === "max_tokens" && el("p", { class: "cut" }, "The answer was cut off here at its length limit."),
    ],
  };
}

function thinking({ event, text, isOpen }) {
  const words = text.split(/\s+/).filter(Boolean).length;
  const isEmpty = event.payload.redacted || !words;
  const summary = isEmpty ? "Thought, without a text" : `Thought · ${pluralize(words, "word")}`;
  return {
    name: "details",
    kind: "thinking",
    data: { "data-block": "thinking", "data-streaming": isOpen },
    children: [
      el("summary", {}, isOpen ? "Thinking" : summary),
      words > 0 && el("div", { class: "text" }, markdown(text)),
    ],
  };
}

function speech({ event, isOpen }) {
  const { durationMs, content = [] } = event.payload;
  const summary = durationMs === undefined ? "Spoke" : `Spoke for ${(durationMs / 1000).toFixed(1)} s`;
  const data = { "data-block": "text", "data-streaming": isOpen };
  return { kind: "speech", data, children: [isOpen ? "Speaks" : summary, ...blocks(content)] };
}

function agent({ event, message, answers }, context) {
  const answer = answers.at(-1);
  const name = message?.payload.targetAgentId ?? answer?.payload.fromAgentId ?? "another agent";
  const href = sessionHref(message?.payload.targetSessionId ?? answer?.payload.fromSessionId, name, context);
  return {
    kind: answers.length ? "agent-message resolved" : "agent-message",
    data: { "data-message-id": event.payload.messageId, "data-block": "agent" },
    children: [
      el("span", { class: "agent-name" }, href ? el("a", { href }, name) : name),
      message && el("div", { class: "agent-task" }, markdown(message.payload.message)),
      ...answers.map((each) =>
        el("div", { class: "agent-result", "data-event-id": each.id }, agentResult(each.payload.result)),
      ),
    ],
  };
}

/** The address of the session of an agent, if it is stored; else of the session with this id. */
function sessionHref(session, agent, { hrefOf, agentHrefs }) {
  const known = agentHrefs?.get(session) ?? agentHrefs?.get(agent);
  return known ?? (session === undefined ? undefined : hrefOf?.(session));
}

/** The answer of an agent: a text, or any JSON. */
function agentResult(result) {
  return isString(result) ? markdown(result) : jsonView(result);
}

function agentSwitch({ event }) {
  const { fromAgentId, toAgentId } = event.payload;
  const text = fromAgentId === undefined ? `${toAgentId} takes over` : `${fromAgentId} hands over to ${toAgentId}`;
  return { kind: "agent-switch", data: { "data-block": "system" }, children: [text] };
}

function notice({ event }) {
  const { text, variant } = event.payload;
  return {
    kind: "notice",
    data: { "data-block": "system", "data-variant": variant },
    children: [el("pre", { class: "text", dir: "auto" }, ...longText(text))],
  };
}

function summary({ event }) {
  const { text } = event.payload;
  return {
    name: "details",
    kind: "summary",
    data: { "data-block": "system" },
    children: [
      el("summary", {}, "Earlier messages were summarised"),
      el("div", { class: "text" }, markdown(text.trim() === "" ? "The summary is not in this session." : text)),
    ],
  };
}

const ERRORS = new Map(
  [
    ["The turn failed", "turn.failed turn_failed"],
    ["The API answered with an error", "api_error APIError server_error"],
    ["The rate limit was reached", "rate_limit rate_limit_error rate_limit_exceeded RESOURCE_EXHAUSTED 429"],
    ["The model is overloaded", "overloaded overloaded_error 529"],
    ["The request was refused", "invalid_request_error INVALID_ARGUMENT unsupported_parameter 400"],
    ["Access was refused", "authentication_failed authentication_error permission_error PERMISSION_DENIED 401 403"],
    ["It failed during execution", "error_during_execution"],
    ["The maximum number of turns was reached", "error_max_turns"],
    ["The answer was held back", "SAFETY RECITATION PROHIBITED_CONTENT content_filter"],
  ].flatMap(([title, codes]) => codes.split(" ").map((code) => /** @type {[string, string]} */ ([code, title]))),
);

function error({ event }) {
  const { code, message, details } = event.payload;
  const shownCode = code !== "error" && el("span", { class: "error-code" }, ` ${code}`);
  return {
    kind: "error-banner",
    data: { "data-block": "error", role: "note" },
    children: [
      el("strong", {}, ERRORS.get(code) ?? "Error", shownCode),
      el("span", { class: "text", dir: "auto" }, ...markHidden(message, "prose")),
      details !== undefined && aside("Details", details),
    ],
  };
}

const REASONS = new Map([
  ["user_cancel", "Stopped by the user"],
  ["timeout", "Stopped: it took too long"],
  ["error", "Broken off"],
]);

function interrupt({ event }) {
  const { reason } = event.payload;
  const text = REASONS.get(reason) ?? `Stopped: ${reason}`;
  return { kind: "interrupt", data: { "data-block": "error" }, children: [text] };
}

function retraction({ event }) {
  const { reason } = event.payload;
  const text = "Earlier content was revoked";
  return {
    kind: "retraction",
    data: { "data-block": "system" },
    children: [reason === undefined ? text : `${text}: ${reason}`],
  };
}

function raw({ event }) {
  const isRecord = event.type === "raw";
  const value = isRecord ? event.payload.raw : event.payload;
  const name = isRecord ? `${event.payload.source} · ${typeOf(value)}` : event.type;
  return {
    kind: "raw",
    data: { "data-block": "raw" },
    children: [el("span", { class: "raw-type" }, `Not recognized: ${name}`), jsonView(value)],
  };
}

function typeOf(value) {
  return typeof value?.type === "string" ? value.type : Array.isArray(value) ? "list" : typeof value;
}
