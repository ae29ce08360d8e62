/** Read the result of a call. No DOM. */
import { fieldOf, isDisplayableList, isObject, isString, textField } from "../../lib/json-fields.js";

/** Values of `error` that report no failure; in posted events it may be any JSON. */
const NO_FAILURE = new Set([undefined, null, false, ""]);

export function isFailure(error) {
  return !NO_FAILURE.has(error);
}

/** True for a list of content blocks. */
export function isBlockList(value) {
  return isDisplayableList(value) && value.every((each) => textField(each, "type") !== undefined);
}

const TEXT_BLOCK_FIELDS = new Set(["type", "text", "source_type"]);

/** True for a block that has nothing but a text. */
export function isPlainText(block) {
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
