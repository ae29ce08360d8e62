/** Render content blocks and other values. Unknown blocks are shown as JSON; no block is dropped. */
import { el } from "../lib/dom.js";
import { file } from "./attachments.js";
import { jsonView } from "../lib/json-view.js";
import { aside, formatSize, label, output, prose } from "./tools/body-parts.js";
import { decodeJson } from "./tools/call.js";
import { isBlockList, isPlainText } from "./tools/call-result.js";
import { FieldReader, fieldOf, isScalar, isString, sizeOf, textField } from "../lib/json-fields.js";

const MAX_DEPTH = 20;
const MAX_BLOCKS = 1_000;
const IGNORED = ["type", "source_type"];

const REASONS = {
  control: "Control record",
  malformed: "Malformed",
  opaque: "Not readable",
  stream_fragment: "Piece of a stream",
  invalid_json: "Not JSON",
  limit: "Beyond a limit",
};

/** Render blocks in order. */
export function blocks(list, depth = 0) {
  const all = Array.isArray(list) ? list : [list];
  const rest = all.slice(MAX_BLOCKS);
  return [...all.slice(0, MAX_BLOCKS).map((each) => block(each, depth)), ...(rest.length ? [jsonView(rest)] : [])];
}

/** Render any value completely, by its JSON type. */
export function valueView(value) {
  if (value === undefined || value === null || value === "") return [];
  if (isString(value)) return [textView(value)];
  if (isBlockList(value)) return value.flatMap((each) => (isPlainText(each) ? valueView(each.text) : blocks([each])));
  return [isScalar(value) ? output(String(value)) : jsonView(value)];
}

function textView(text) {
  const value = decodeJson(text);
  return isString(value) ? output(text) : jsonView(value);
}

/**
 * Painters by block type. A painter takes the fields that it shows, and returns undefined if the block does not have
 * the fields of its type.
 */
const PAINTERS = {
  text: (reader) => textBlock(reader.text("text")),
  thinking: (reader) => thinking(reader.text("thinking")),
  image: (reader, depth) => fileBlock(reader, depth, "image"),
  file: fileBlock,
  document: fileBlock,
  audio: (reader, depth) => fileBlock(reader, depth, "audio"),
  tool_use: (reader) => call(reader.text("name"), reader),
  tool_result: (reader, depth) => [label("Result"), ...content(reader.take(["content"], () => true), depth)],
};

function block(value, depth) {
  const type = textField(value, "type");
  const reader = new FieldReader(value);
  const parts = depth < MAX_DEPTH ? fieldOf(PAINTERS, [type ?? ""])?.(reader, depth) : undefined;
  if (!parts) return unknown(value);
  IGNORED.forEach((name) => reader.text(name));
  const rest = reader.rest();
  const more = rest !== undefined && aside("More", rest);
  return el("div", { class: "block", "data-type": type }, ...parts, more);
}

function textBlock(text) {
  return text === undefined ? undefined : [prose(text)];
}

function thinking(text) {
  if (!text) return [label("Thought, without a text")];
  return [el("details", { class: "thinking" }, el("summary", {}, "Thought"), prose(text))];
}

function fileBlock(reader, depth, kind) {
  return file(reader, (list) => blocks(list, depth + 1), kind);
}

function call(name, reader) {
  if (name === undefined) return undefined;
  return [label(`Call: ${name}`), ...valueView(reader.take(["input"], () => true))];
}

function content(value, depth) {
  return Array.isArray(value) ? blocks(value, depth + 1) : valueView(value);
}

/** A card with the type, the size and the JSON of a block. */
function unknown(value) {
  const isRaw = textField(value, "type") === "raw" && Object.hasOwn(value, "raw");
  const { raw = value, rawType, reason, type: _, ...rest } = isRaw ? value : {};
  const name = isString(rawType) ? rawType : (textField(raw, "type") ?? kindOf(raw));
  const explanation = fieldOf(REASONS, [isString(reason) ? reason : ""]) ?? "Not recognized";
  return el(
    "div",
    { class: "raw", "data-block": "raw" },
    el("span", { class: "raw-type" }, `${explanation}: ${name} · ${formatSize(sizeOf(raw))}`),
    isString(raw) ? output(raw) : jsonView(raw),
    isRaw && Object.keys(rest).length > 0 && aside("More", rest),
  );
}

function kindOf(value) {
  if (value === null || value === undefined) return "nothing";
  return Array.isArray(value) ? "list" : typeof value;
}
