/** Bodies of closed tool calls as plain text, so that the browser's find-in-page searches them. */
import { el } from "../../lib/dom.js";
import { markHidden } from "../../lib/hidden-characters.js";
import { formatSize } from "./body-parts.js";
import { includesMessage } from "./call-result.js";
import { isEmpty, isObject, isString, sizeOf, textField } from "../../lib/json-fields.js";

const MAX_LENGTH = 20_000;
const PREVIEW_LENGTH = 4_000;
const MAX_DEPTH = 40;
const MAX_WORD_LENGTH = 1_000;
const SGR_SEQUENCE = /\x1b\[[\d;:]*m/g;

/** @param {import("./call.js").Call} call */
export function closedBody({ args, rawArgs, results, output }) {
  const argsText = plainText(rawArgs ?? args);
  const outputText = results.length ? "" : plainText(output.map(({ chunk }) => chunk).join(""));
  return [
    argsText && el("pre", { class: "tool-args" }, ...markHidden(argsText)),
    ...results.map(plainResult),
    outputText && el("pre", { class: "tool-output" }, ...markHidden(outputText)),
  ];
}

function plainResult(result) {
  return el("pre", { class: "tool-result", "data-event-id": result.id }, ...markHidden(plainText(resultParts(result))));
}

/** The value shown to the model, else the structured result; and the error message. */
function resultParts({ value, structured, error }) {
  const message = textField(error, "message");
  return [isEmpty(value) ? structured : value, ...(includesMessage(message, value) ? [] : [message])];
}

function plainText(value) {
  const writer = new Writer();
  writer.write(value, "", 0);
  if (writer.text.length <= MAX_LENGTH) return writer.text.trimEnd();
  return `${writer.text.slice(0, PREVIEW_LENGTH)}…\n${formatSize(sizeOf(value))} in all`;
}

class Writer {
  text = "";

  write(value, indent, depth) {
    if (isString(value)) this.add(readable(value), indent);
    else if (typeof value === "object" && depth > MAX_DEPTH) this.add("…", indent);
    else if (Array.isArray(value)) this.members(value, indent, depth + 1);
    else if (isObject(value)) this.object(value, indent, depth + 1);
    else if (value !== undefined && value !== null) this.add(String(value), indent);
  }

  members(list, indent, depth) {
    for (const each of list) {
      if (this.text.length > MAX_LENGTH) return;
      this.write(each, indent, depth);
    }
  }

  object(value, indent, depth) {
    if (value.type === "text" && isString(value.text)) return this.add(readable(value.text), indent);
    for (const [name, inner] of Object.entries(value)) {
      if (this.text.length > MAX_LENGTH) return;
      const isShort = typeof inner !== "object" && !String(inner).includes("\n");
      if (isShort) this.add(`${name}: ${readable(String(inner))}`, indent);
      else this.member(name, inner, indent, depth);
    }
  }

  member(name, value, indent, depth) {
    this.add(`${name}:`, indent);
    this.write(value, `${indent} `, depth);
  }

  add(text, indent) {
    const cut = text.slice(0, MAX_LENGTH + 1);
    this.text += indent ? `${cut.replaceAll(/^/gm, indent)}\n` : `${cut}\n`;
  }
}

/** Remove colours, and shorten encoded data such as images. */
function readable(text) {
  const isData = text.length > MAX_WORD_LENGTH && !/\s/.test(text.slice(0, MAX_WORD_LENGTH));
  return isData ? `${text.slice(0, 60)}… ${formatSize(text.length)}` : text.replaceAll(SGR_SEQUENCE, "");
}
