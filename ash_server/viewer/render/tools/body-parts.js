/** Parts of the bodies of tool calls. */
import { ansi, ansiParts, plainOutput, showControlCharacters } from "../../lib/ansi.js";
import { copyable } from "../../lib/clipboard.js";
import { el } from "../../lib/dom.js";
import { markHidden } from "../../lib/hidden-characters.js";
import { highlight } from "../../lib/highlight.js";
import { jsonView } from "../../lib/json-view.js";
import { longText } from "../../lib/long-text.js";
import { markdown } from "../../lib/markdown.js";
import { isWebUrl, webLink } from "../../lib/web-links.js";
import { isScalar, isString } from "../../lib/json-fields.js";

const MAX_LENGTH = 2_000_000;
const MAX_INLINE_LENGTH = 200;
const MAX_FACTS = 100;
const CALL_ID_FIELDS = new Set(["toolCallId", "tool_call_id"]);

/**
 * Code with a button that copies it.
 *
 * @param {string} text
 * @param {string | null} [language]
 */
export function code(text, language) {
  return copyable(codeBox(text, language), "code", () => text);
}

/** A command with a button that copies it. */
export function command(text, language) {
  return copyable(codeBox(text, language, "command"), "command", () => text);
}

/**
 * A code block, highlighted if the language is known.
 *
 * @param {string} text
 * @param {string | null} [language]
 * @param {string} [name] the class of the element
 * @param {(text: string) => any[]} [plain] shows a text that is not highlighted
 */
export function codeBox(text, language, name = "source", plain = longText) {
  const shown = truncate(text);
  const coloured = language ? highlight(shown, language) : null;
  const attributes = coloured === null ? {} : { class: `language-${language}`, "data-coloured": true };
  const inner = el("code", attributes, ...(coloured === null ? plain(shown) : [coloured]));
  return withDownload(text, el("pre", { class: name, tabindex: 0, dir: "ltr" }, inner));
}

/**
 * The output of a program.
 *
 * @param {string} text
 * @param {string} [stream]
 */
export function output(text, stream) {
  const attributes = { class: "output", tabindex: 0, dir: "auto", "data-stream": stream === "stderr" && stream };
  const paint = ansiParts();
  const box = el("pre", attributes, ...longText(truncate(text), (part) => [paint(part)]));
  return withDownload(text, copyable(box, "output", () => plainOutput(text)));
}

export function prose(text) {
  return el("div", { class: "text", dir: "auto" }, markdown(text));
}

export function label(text) {
  return el("div", { class: "tool-label" }, text);
}

export function note(...texts) {
  const parts = texts.flatMap((each) => (isString(each) ? markHidden(showControlCharacters(each)) : [each]));
  return el("p", { class: "tool-note", dir: "auto" }, ...parts);
}

/** A file name as a heading. */
export function filePath(...parts) {
  return el("div", { class: "file-path" }, ...markHidden(showControlCharacters(parts.filter(Boolean).join(" · "))));
}

/** Names and values as a definition list. */
export function facts(values) {
  if (Object.keys(values).length > MAX_FACTS) return jsonView(values);
  const pairs = Object.entries(values).flatMap(([name, value]) => [
    el("dt", {}, name),
    el("dd", {}, fact(value)),
  ]);
  return el("dl", { class: "facts" }, ...pairs);
}

/** Take the remaining scalar arguments and show them. */
export function settings(reader) {
  const names = Object.keys(reader.rest() ?? {}).filter((name) => !CALL_ID_FIELDS.has(name));
  const scalars = names.map((name) => [name, reader.scalar(name)]).filter(([, value]) => value !== undefined);
  return scalars.length > 0 && facts(Object.fromEntries(scalars));
}

function fact(value) {
  if (isString(value) && (value.length > MAX_INLINE_LENGTH || value.includes("\n"))) return output(value);
  return isScalar(value) || value === null || value === undefined ? ansi(String(value)) : jsonView(value);
}

/** A closed `<details>` for additional values, filled when it is opened. */
export function aside(title, value) {
  const details = el("details", { class: "aside" }, el("summary", {}, title));
  const fill = () => details.append(isString(value) ? output(value) : jsonView(value));
  details.addEventListener("toggle", fill, { once: true });
  return details;
}

/** A link to a web address; plain text for other addresses. */
export function link(address, text = address) {
  if (!isWebUrl(address)) return el("span", { class: "dead-link" }, text);
  return webLink(address, { dir: "auto" }, text);
}

/** A link that saves a data URL as a file. */
export function downloadLink(name, href, ...children) {
  return el("a", { class: "attachment", download: name, href }, ...children);
}

export function textDataUrl(text) {
  const wellFormed = new TextDecoder().decode(new TextEncoder().encode(text));
  return `data:application/octet-stream,${encodeURIComponent(wellFormed)}`;
}

function truncate(text) {
  return text.length > MAX_LENGTH ? text.slice(0, MAX_LENGTH) : text;
}

/** Append a download of the whole text if it is truncated. */
function withDownload(text, shown) {
  if (text.length <= MAX_LENGTH) return shown;
  const all = downloadLink("whole.txt", textDataUrl(text), "Save it");
  return el("div", {}, shown, note(`${formatSize(text.length)} in all. `, all));
}

const UNITS = ["kB", "MB", "GB"];

/** A number of bytes or characters with a unit. */
export function formatSize(count) {
  if (count < 1000) return `${count} B`;
  const power = Math.min(Math.floor(Math.log10(count) / 3), UNITS.length);
  const value = count / 1000 ** power;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[power - 1]}`;
}
