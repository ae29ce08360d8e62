/** Content blocks. Whatever one is, it is seen: what cannot be shown is named, and can be saved. */
import { el } from "../lib/dom.js";
import { file, image } from "./attachments.js";
import { jsonView } from "../lib/json-view.js";
import { aside, label, output, prose, size } from "./tools/body-parts.js";
import { shown } from "./tools/call-result.js";
import { at, isText, Reader, sizeOf, textAt } from "../lib/json-fields.js";

const DEEPEST = 20;
const MOST = 1_000;
const SAYS_NOTHING = ["type", "source_type"];

const REASONS = {
  control: "Control record",
  malformed: "Malformed",
  opaque: "Not readable",
  stream_fragment: "Piece of a stream",
  invalid_json: "Not JSON",
  limit: "Beyond a limit",
};

/** Blocks as elements, in their order. */
export function blocks(list, depth = 0) {
  const all = Array.isArray(list) ? list : [list];
  const rest = all.slice(MOST);
  return [...all.slice(0, MOST).map((each) => block(each, depth)), ...(rest.length ? [jsonView(rest)] : [])];
}

/** Each takes from a reader what it shows; undefined where the block is not what it says that it is. */
const PAINTERS = {
  text: (reader) => textBlock(reader.text("text")),
  thinking: (reader) => thinking(reader.text("thinking")),
  image: (reader, depth) => image(reader, depth),
  file: (reader, depth) => file(reader, depth),
  document: (reader, depth) => file(reader, depth),
  audio: (reader, depth) => file(reader, depth, "audio"),
  tool_use: (reader) => call(reader.text("name"), reader),
  tool_result: (reader, depth) => [label("Result"), ...content(reader.take(["content"], () => true), depth)],
};

function block(value, depth) {
  const type = textAt(value, "type");
  const reader = new Reader(value);
  const parts = depth < DEEPEST ? at(PAINTERS, [type])?.(reader, depth) : undefined;
  if (!parts) return unknown(value);
  SAYS_NOTHING.forEach((name) => reader.text(name));
  const rest = reader.rest();
  const more = rest !== undefined && aside("More", rest);
  return el("div", { class: "block", "data-type": type }, ...parts, more);
}

function textBlock(text) {
  return text === undefined ? undefined : [prose(text)];
}

function thinking(text) {
  if (!text) return [label("Thought, without telling what")];
  return [el("details", { class: "thinking" }, el("summary", {}, "Thought"), prose(text))];
}

function call(name, reader) {
  if (name === undefined) return undefined;
  return [label(`Call: ${name}`), ...shown(reader.take(["input"], () => true))];
}

function content(value, depth) {
  return Array.isArray(value) ? blocks(value, depth + 1) : shown(value);
}

/** A card for what nobody can show otherwise: what it is, how much, why, and all of it. */
function unknown(value) {
  const isRaw = textAt(value, "type") === "raw" && Object.hasOwn(value, "raw");
  const { raw = value, rawType, reason, type, ...rest } = isRaw ? value : {};
  const name = isText(rawType) ? rawType : (textAt(raw, "type") ?? kindOf(raw));
  const words = at(REASONS, [isText(reason) ? reason : ""]) ?? "Not recognised";
  return el(
    "div",
    { class: "raw", "data-block": "raw" },
    el("span", { class: "raw-type" }, `${words}: ${name} · ${size(sizeOf(raw))}`),
    isText(raw) ? output(raw) : jsonView(raw),
    isRaw && Object.keys(rest).length > 0 && aside("More", rest),
  );
}

function kindOf(value) {
  if (value === null || value === undefined) return "nothing";
  return Array.isArray(value) ? "list" : typeof value;
}
