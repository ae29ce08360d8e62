/** Render the result of a call by its JSON type. */
import { blocks } from "../content-blocks.js";
import { jsonView } from "../../lib/json-view.js";
import { decodeJson } from "./call.js";
import { output } from "./body-parts.js";
import { fieldOf, isDisplayableList, isObject, isScalar, isString, textField } from "../../lib/json-fields.js";

/** Render any value completely. */
export function valueView(value) {
  if (value === undefined || value === null || value === "") return [];
  if (isString(value)) return [textView(value)];
  if (isBlockList(value)) return value.flatMap(blockView);
  return [isScalar(value) ? output(String(value)) : jsonView(value)];
}

function isBlockList(value) {
  return isDisplayableList(value) && value.every((each) => textField(each, "type") !== undefined);
}

function textView(text) {
  const value = decodeJson(text);
  return isString(value) ? output(text) : jsonView(value);
}

function blockView(block) {
  return isPlainText(block) ? valueView(block.text) : blocks([block]);
}

const TEXT_BLOCK_FIELDS = new Set(["type", "text", "source_type"]);

function isPlainText(block) {
  const hasText = block.type === "text" && isString(block.text);
  return hasText && Object.keys(block).every((name) => TEXT_BLOCK_FIELDS.has(name));
}

/** Split a result into its text and other blocks, such as images; undefined if it has no text. */
export function splitText(value) {
  if (isString(value)) return { text: value, others: [] };
  if (!isBlockList(value)) return undefined;
  const texts = value.filter(isPlainText);
  const others = value.filter((block) => !isPlainText(block));
  return texts.length ? { text: texts.map(({ text }) => text).join("\n"), others } : undefined;
}

/** The text of a result; empty if it has none. */
export function resultText(value) {
  return splitText(value)?.text ?? textField(value, "output", "text", "content", "stdout") ?? "";
}

/** True if a result contains the error message. */
export function includesMessage(message, value) {
  return !message || resultText(value).includes(message);
}

/** The structured result, without the wrapper that Cursor adds. */
export function structuredOf(result) {
  const { structured } = result ?? {};
  return fieldOf(structured, ["success", "failure", "error", "rejected"], isObject) ?? structured;
}
