/** Tool calls and content blocks as short texts, for comparison. */
import { settled } from "/harness.js";
import { blocks } from "/viewer/render/content-blocks.js";
import { ExactNumber } from "/viewer/lib/json-view.js";
import { EventLog } from "/viewer/render/event-log.js";
import { paint } from "/viewer/render/painters.js";
import { callState } from "/viewer/render/tools/call-state.js";

const INLINE = new Set(["A", "BDI", "CODE", "DEL", "EM", "INS", "SPAN", "STRONG", "TIME"]);

/** The elements of the tool calls in these events. */
export function calls(events, { isOpen = true, openTurn } = {}) {
  const log = new EventLog();
  events.forEach((event) => log.add(event));
  const items = log.takeChanges().flatMap(({ now }) => now).filter(({ kind }) => kind === "tool");
  const isWritten = ({ event: { turnId } }) => turnId === undefined || turnId === openTurn;
  return items.map((item) => paint(item, { state: callState(item, isWritten(item)), isOpen, isRevoked: false }));
}

/** Open all asides of these elements. */
export async function openAsides(elements) {
  elements.forEach((element) => element.querySelectorAll(".aside").forEach((aside) => (aside.open = true)));
  await settled();
}

/** The summary line and the body of a call: one line per element, with its class and text. */
export function describe(element) {
  const [summary, ...body] = element.children;
  const row = [`${element.dataset.kind} ${element.dataset.state}`, ...[...summary.children].map(textOf)];
  return [row.join(" | "), ...body.flatMap((part) => lines(part, ""))];
}

/** The same for content blocks. */
export async function describeBlocks(list) {
  const elements = blocks(list);
  await openAsides(elements);
  return elements.flatMap((block) => lines(block, ""));
}

function lines(element, indent) {
  if (element.matches(".copyable")) return lines(element.firstElementChild, indent);
  const name = nameOf(element);
  if (element.matches(".json")) return [`${indent}${name}: ${treeIn(element)}`];
  const inner = [...element.childNodes].filter((node) => node.tagName || node.data.trim());
  const isLeaf = inner.every((node) => !node.tagName || INLINE.has(node.tagName));
  if (isLeaf) return [`${indent}${name}: ${textOf(element)}`];
  if (element.matches(".diff-lines")) return [...element.children].map((row) => `${indent}  ${textOf(row)}`);
  const deeper = (node) => (node.tagName ? lines(node, `${indent}  `) : [`${indent}  ${node.data}`]);
  return [`${indent}${name}`, ...inner.flatMap(deeper)];
}

/** Keys and values of a JSON tree, as far as it is open. */
function treeIn(element) {
  return [...element.querySelectorAll(".json-leaf")].map(textOf).join(", ");
}

function nameOf(element) {
  const code = element.querySelector(":scope > code")?.className ?? "";
  const states = ["stream", "status", "state", "type", "chosen"].map((name) => element.dataset[name]);
  const words = [element.className || element.tagName.toLowerCase(), code.replace("language-", ""), ...states];
  return words.filter(Boolean).join(" ");
}

function textOf(element) {
  const shown = element.cloneNode(true);
  for (const hidden of shown.querySelectorAll(".visually-hidden")) {
    hidden.replaceWith(`(${hidden.textContent.replace(/^, /, "").trim()})`);
  }
  for (const thumbnail of shown.querySelectorAll(".thumbnail")) thumbnail.replaceWith(`[${thumbnail.alt}]`);
  for (const link of shown.querySelectorAll("[href]")) {
    link.append(`<${link.getAttribute("href").slice(0, 60)}>`);
  }
  return shown.textContent.replaceAll("\n", "⏎");
}

/** The text of an element with everything open, and the targets of its links. */
export async function textWhenOpen(element) {
  document.body.append(element);
  while (openNext(element)) await settled();
  const links = [...element.querySelectorAll("[href]")].map(({ href }) => decodeURIComponent(href));
  const text = [...element.children].slice(1).map((part) => part.textContent);
  element.remove();
  return [...text, ...links].join("\n");
}

/** Open closed details; true if there were any. */
function openNext(element) {
  const closed = [...element.querySelectorAll("details:not([open])")];
  const buttons = [...element.querySelectorAll(".json-more, .diff-gap")];
  closed.forEach((details) => (details.open = true));
  buttons.forEach((button) => button.click());
  return closed.length + buttons.length > 0;
}

/** Extreme values, generated here since some cannot be sent. */
const WILD = {
  "a megabyte": "x".repeat(2 ** 20),
  "a megabyte of lines": "x = 1\n".repeat(2 ** 17),
  "a megabyte of stars": "*".repeat(2 ** 20),
  "a megabyte of brackets": "[".repeat(2 ** 20),
  "deep lists": nested((inner) => [inner]),
  "deep objects": nested((inner) => ({ content: inner, type: "file" })),
  "deep results": nested((inner) => [{ content: inner, type: "tool_result" }]),
  "deep JSON": "[".repeat(5000) + "]".repeat(5000),
  many: Object.fromEntries(Array.from({ length: 20_000 }, (_, place) => [`k${place}`, place])),
  "names that objects have": JSON.parse('{"__proto__": {"command": "a"}, "constructor": 1, "toString": 2}'),
  "nothing to convert": { toString: null, valueOf: null, type: { toString: null }, command: { toString: 1 } },
  "lists for texts": { type: [[]], command: [[]], path: [{}], url: [1], source: [], questions: [[]] },
  "many blocks": Array.from({ length: 80_000 }, () => ({ type: "a" })),
  "many items": {
    todos: Array.from({ length: 10_000 }, () => ({ content: "a", status: "b" })),
    edits: Array.from({ length: 10_000 }, () => ({ old_string: "a", new_string: "b" })),
    questions: Array.from({ length: 10_000 }, () => ({ question: "a", options: ["b"] })),
    paths: Array.from({ length: 10_000 }, () => "a"),
    results: Array.from({ length: 10_000 }, () => ({ url: "https://a.example", title: "b" })),
  },
  "many lines": {
    file_path: "a",
    old_string: "",
    structuredPatch: [{ oldStart: 1, newStart: 1, lines: Array.from({ length: 150_000 }, () => "+") }],
  },
  "many files": {
    changes: Object.fromEntries(Array.from({ length: 10_000 }, (_, place) => [`a${place}`, { content: "b" }])),
  },
  "many matches": "a:1:b\n".repeat(150_000),
  "many numbers": "1→a\n".repeat(150_000),
  "half a pair": "\ud800 \udc00",
  numbers: [1e308, -0, new ExactNumber("12345678901234567890")],
};

function nested(around) {
  return Array.from({ length: 5000 }).reduce(around, "leaf");
}

export const WILD_KINDS = Object.keys(WILD);

/** Errors thrown while painting calls of these tools with an extreme value as argument and result. */
export function failures(names, kind) {
  return names.map((name) => failure(name, WILD[kind])).filter(Boolean);
}

function failure(name, value) {
  try {
    calls(wildCall(name, value, {}), { isOpen: false });
    calls(wildCall(name, value, {}));
    calls(wildCall(name, value, { error: value }));
  } catch (error) {
    return `${name}: ${error.stack}`;
  }
}

function wildCall(name, value, failure) {
  const payloads = [
    ["tool_call", { toolName: name, args: value }],
    ["tool_result", { result: value, structured: value, exitCode: value, more: value, ...failure }],
  ];
  return payloads.map(([type, payload], place) => ({
    type,
    id: `e${place}`,
    sequence: place + 1,
    timestamp: value,
    turnId: "t",
    payload: { toolCallId: "c", ...payload },
  }));
}
