/** Calls as plain text: what the page holds of those that are closed, so that its own search finds it. */
import { el } from "../../lib/dom.js";
import { size } from "./body-parts.js";
import { isSaid } from "./call-result.js";
import { isEmpty, isObject, isText, sizeOf, textAt } from "../../lib/json-fields.js";

const MOST = 20_000;
const SHOWN = 4_000;
const DEEPEST = 40;
const LONGEST_WORD = 1_000;
const COLOURS = /\x1b\[[\d;:]*m/g;

export function plainBody({ args, written, results, output }) {
  const asked = plain(written ?? args);
  const soFar = results.length ? "" : plain(output.map(({ chunk }) => chunk).join(""));
  return [
    asked && el("pre", { class: "tool-args" }, asked),
    ...results.map(plainResult),
    soFar && el("pre", { class: "tool-output" }, soFar),
  ];
}

function plainResult(result) {
  return el("pre", { class: "tool-result", "data-event-id": result.id }, plain(told(result)));
}

/** What the model was told, else what stands for it. */
function told({ value, structured, error }) {
  const message = textAt(error, "message");
  return [isEmpty(value) ? structured : value, ...(isSaid(message, value) ? [] : [message])];
}

function plain(value) {
  const writer = new Writer();
  writer.write(value, "", 0);
  if (writer.text.length <= MOST) return writer.text.trimEnd();
  return `${writer.text.slice(0, SHOWN)}…\n${size(sizeOf(value))} in all`;
}

class Writer {
  text = "";

  write(value, indent, depth) {
    if (isText(value)) this.add(readable(value), indent);
    else if (typeof value === "object" && depth > DEEPEST) this.add("…", indent);
    else if (Array.isArray(value)) this.members(value, indent, depth + 1);
    else if (isObject(value)) this.object(value, indent, depth + 1);
    else if (value !== undefined && value !== null) this.add(String(value), indent);
  }

  members(list, indent, depth) {
    for (const each of list) {
      if (this.text.length > MOST) return;
      this.write(each, indent, depth);
    }
  }

  object(value, indent, depth) {
    if (value.type === "text" && isText(value.text)) return this.add(readable(value.text), indent);
    for (const [name, inner] of Object.entries(value)) {
      if (this.text.length > MOST) return;
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
    const cut = text.slice(0, MOST + 1);
    this.text += indent ? `${cut.replaceAll(/^/gm, indent)}\n` : `${cut}\n`;
  }
}

/** Without colours, and without what no person reads, such as pictures. */
function readable(text) {
  const isWord = text.length > LONGEST_WORD && !/\s/.test(text.slice(0, LONGEST_WORD));
  return isWord ? `${text.slice(0, 60)}… ${size(text.length)}` : text.replaceAll(COLOURS, "");
}
