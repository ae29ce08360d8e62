/** Calls as short texts, to compare. */
import { settled } from "/harness.js";
import { blocks } from "/viewer/blocks.js";
import { Log } from "/viewer/log.js";
import { paint } from "/viewer/painters.js";
import { stateOf } from "/viewer/tools/state.js";

const INLINE = new Set(["A", "BDI", "CODE", "DEL", "EM", "INS", "SPAN", "STRONG", "TIME"]);
const HIDDEN = "visually-hidden";

/** The elements of the calls in these events, opened or not. */
export function calls(events, { isOpen = true, openTurn } = {}) {
  const log = new Log();
  events.forEach((event) => log.add(event));
  const items = log.changes().flatMap(({ now }) => now).filter(({ kind }) => kind === "tool");
  return items.map((item) => paint(item, { state: stateOf(item, log, openTurn), isOpen, isRevoked: false }));
}

/** The line of a call, and what is below it: an element a line, its class ahead of its text. */
export function told(element) {
  const [summary, ...body] = element.children;
  const name = `${element.dataset.kind} ${element.dataset.state}`;
  return [`${name} | ${[...summary.children].map(textOf).join(" | ")}`, ...body.flatMap((part) => lines(part, ""))];
}

/** The same for blocks of a message. */
export function toldBlocks(list) {
  return blocks(list).flatMap((block) => lines(block, ""));
}

function lines(element, indent) {
  const name = nameOf(element);
  if (element.matches(".json")) return [`${indent}${name}: ${treeIn(element)}`];
  const inner = [...element.childNodes].filter((node) => node.nodeType !== Node.TEXT_NODE || node.data.trim());
  const isLeaf = inner.every((node) => node.nodeType === Node.TEXT_NODE || INLINE.has(node.tagName));
  if (isLeaf) return [`${indent}${name}: ${textOf(element)}`];
  if (element.matches(".diff-lines")) return [...element.children].map((row) => `${indent}  ${textOf(row)}`);
  return [`${indent}${name}`, ...inner.flatMap((node) => (node.tagName ? lines(node, `${indent}  `) : [`${indent}  ${node.data}`]))];
}

/** Paths and values of a tree, as far as it is open. */
function treeIn(element) {
  return [...element.querySelectorAll(".json-leaf")].map(textOf).join(", ");
}

function nameOf(element) {
  const code = element.querySelector(":scope > code")?.className ?? "";
  const told = ["stream", "status", "state", "type", "chosen"].map((name) => element.dataset[name]).filter(Boolean);
  const words = [element.className || element.tagName.toLowerCase(), code.replace("language-", ""), ...told];
  return words.filter(Boolean).join(" ");
}

function textOf(element) {
  const shown = element.cloneNode(true);
  shown.querySelectorAll(`.${HIDDEN}`).forEach((hidden) => hidden.replaceWith(`(${hidden.textContent.replace(/^, /, "").trim()})`));
  shown.querySelectorAll("[href]").forEach((link) => link.append(`<${link.getAttribute("href").slice(0, 60)}>`));
  return shown.textContent.replaceAll("\n", "⏎");
}

/** All the text of an element once everything in it is open, and where its links lead. */
export async function textWhenOpen(element) {
  document.body.append(element);
  while (openNext(element)) await settled();
  const links = [...element.querySelectorAll("[href]")].map(({ href }) => decodeURIComponent(href));
  const text = [...element.children].slice(1).map((part) => part.textContent);
  element.remove();
  return [...text, ...links].join("\n");
}

/** Whether there was something to open. */
function openNext(element) {
  const closed = [...element.querySelectorAll("details:not([open])")];
  const buttons = [...element.querySelectorAll(".json-more, .diff-gap")];
  closed.forEach((details) => (details.open = true));
  buttons.forEach((button) => button.click());
  return closed.length + buttons.length > 0;
}

/** What no tool would say, to be made here since it cannot be sent. */
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
  "names that objects have": JSON.parse('{"__proto__": {"command": "a"}, "constructor": 1, "hasOwnProperty": 2}'),
  "nothing to convert": { toString: null, valueOf: null, type: { toString: null }, command: { toString: 1 } },
  "lists for texts": { type: [[]], command: [[]], path: [{}], file_path: {}, url: [1], source: [], questions: [[]] },
  "half a pair": "\ud800 \udc00",
  numbers: [1e308, -0, 2 ** 64, 12345678901234567890n],
};

function nested(around) {
  return Array.from({ length: 5000 }).reduce(around, "leaf");
}

/** What is thrown for which value in the place of everything that tools of these names are given and give. */
export function failures(names) {
  return Object.entries(WILD).flatMap(([kind, value]) =>
    names.flatMap((name) => [false, true].map((isOpen) => failure(`${kind}, ${name}`, wildCall(name, value), isOpen))),
  ).filter(Boolean);
}

function wildCall(name, value) {
  const of = { turnId: "t", timestamp: value };
  const result = { result: value, structured: value, exitCode: value, error: value, more: value };
  return [
    { ...of, type: "tool_call", id: "e1", sequence: 1, payload: { toolCallId: "c", toolName: name, args: value } },
    { ...of, type: "tool_result", id: "e2", sequence: 2, payload: { toolCallId: "c", ...result } },
  ];
}

function failure(name, events, isOpen) {
  try {
    calls(events, { isOpen });
  } catch (error) {
    return `${name}: ${error.stack}`;
  }
}
