/** What a call gave, by its type alone. */
import { blocks } from "../content-blocks.js";
import { jsonView } from "../../lib/json-view.js";
import { decoded } from "./call.js";
import { output } from "./body-parts.js";
import { at, isObject, isScalar, isSome, isText, textAt } from "../../lib/json-fields.js";

/** Any value, whole. */
export function shown(value) {
  if (value === undefined || value === null || value === "") return [];
  if (isText(value)) return [shownText(value)];
  if (isList(value)) return value.flatMap(shownBlock);
  return [isScalar(value) ? output(String(value)) : jsonView(value)];
}

/** A list of blocks, and not of anything else. */
function isList(value) {
  return isSome(value) && value.every((each) => textAt(each, "type") !== undefined);
}

function shownText(text) {
  const told = decoded(text);
  return isText(told) ? output(text) : jsonView(told);
}

function shownBlock(block) {
  return isPlain(block) ? shown(block.text) : blocks([block]);
}

const PLAIN = new Set(["type", "text", "source_type"]);

function isPlain(block) {
  return block.type === "text" && isText(block.text) && Object.keys(block).every((name) => PLAIN.has(name));
}

/** A result that is text, and what stands beside it, such as pictures: `{text, beside}`; else undefined. */
export function textual(value) {
  if (isText(value)) return { text: value, beside: [] };
  if (!isList(value)) return undefined;
  const texts = value.filter(isPlain);
  const beside = value.filter((block) => !isPlain(block));
  return texts.length ? { text: texts.map(({ text }) => text).join("\n"), beside } : undefined;
}

/** The text of a result, as far as it has any. */
export function textOf(value) {
  return textual(value)?.text ?? textAt(value, "output", "text", "content", "stdout") ?? "";
}

/** Whether a result says what went wrong itself. */
export function isSaid(message, value) {
  return !message || textOf(value).includes(message);
}

/** The machine-readable form, of Cursor without what it is wrapped in. */
export function formOf(result) {
  const { structured } = result ?? {};
  return at(structured, ["success", "failure", "error", "rejected"], isObject) ?? structured;
}
