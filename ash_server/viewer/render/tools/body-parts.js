/** The parts that the bodies of calls are made of. */
import { ansi, visible } from "../../lib/ansi.js";
import { el } from "../../lib/dom.js";
import { highlight } from "../../lib/highlight.js";
import { jsonView } from "../../lib/json-view.js";
import { markdown } from "../../lib/markdown.js";
import { isScalar, isText } from "../../lib/json-fields.js";

const LONGEST = 2_000_000;
const SHORT = 200;
const MOST_FACTS = 100;
const NAMES_OF_CALLS = new Set(["toolCallId", "tool_call_id"]);

/** Code in its colours. */
export function code(text, language, name = "source") {
  const shown = within(text);
  const coloured = language ? highlight(shown, language) : null;
  const attributes = coloured === null ? {} : { class: `language-${language}`, "data-coloured": true };
  const inner = el("code", attributes, coloured ?? shown);
  return whole(text, el("pre", { class: name, tabindex: 0, dir: "ltr" }, inner));
}

/** What a program wrote. */
export function output(text, stream) {
  const isSecond = stream === "stderr" && stream;
  const shown = el("pre", { class: "output", tabindex: 0, dir: "auto", "data-stream": isSecond });
  shown.append(ansi(within(text)));
  return whole(text, shown);
}

export function prose(text) {
  return el("div", { class: "text", dir: "auto" }, markdown(text));
}

export function label(text) {
  return el("div", { class: "tool-label" }, text);
}

export function note(...texts) {
  const parts = texts.map((each) => (isText(each) ? visible(each) : each));
  return el("p", { class: "tool-note", dir: "auto" }, ...parts);
}

/** The name of a file over what is shown of it. */
export function filePath(...parts) {
  return el("div", { class: "file-path" }, visible(parts.filter(Boolean).join(" · ")));
}

/** Names and what they are set to. */
export function facts(values) {
  if (Object.keys(values).length > MOST_FACTS) return jsonView(values);
  const pairs = Object.entries(values).flatMap(([name, value]) => [
    el("dt", {}, name),
    el("dd", {}, fact(value)),
  ]);
  return el("dl", { class: "facts" }, ...pairs);
}

/** What else a call was set to, taken from its arguments, where that is told in a word. */
export function setting(reader) {
  const names = Object.keys(reader.rest() ?? {}).filter((name) => !NAMES_OF_CALLS.has(name));
  const words = names.map((name) => [name, reader.scalar(name)]).filter(([, value]) => value !== undefined);
  return words.length > 0 && facts(Object.fromEntries(words));
}

function fact(value) {
  if (isText(value) && (value.length > SHORT || value.includes("\n"))) return output(value);
  return isScalar(value) || value === null || value === undefined ? ansi(String(value)) : jsonView(value);
}

/** What is there too, for those who open it: made then, as failed calls are open and few look further. */
export function aside(title, value) {
  const details = el("details", { class: "aside" }, el("summary", {}, title));
  const fill = () => details.append(isText(value) ? output(value) : jsonView(value));
  details.addEventListener("toggle", fill, { once: true });
  return details;
}

/** A link to the web, or the text where the address leads elsewhere. */
export function link(address, text = address) {
  if (!isWeb(address)) return el("span", { class: "dead-link" }, text);
  return el("a", { href: address, rel: "noopener noreferrer nofollow", target: "_blank", dir: "auto" }, text);
}

export function isWeb(address) {
  return URL.canParse(address) && ["http:", "https:"].includes(new URL(address).protocol);
}

/** A file to save, made of what is here. */
export function download(name, href, ...children) {
  return el("a", { class: "attachment", download: name, href }, ...children);
}

export function textHref(text) {
  const wellFormed = new TextDecoder().decode(new TextEncoder().encode(text));
  return `data:application/octet-stream,${encodeURIComponent(wellFormed)}`;
}

function within(text) {
  return text.length > LONGEST ? text.slice(0, LONGEST) : text;
}

function whole(text, shown) {
  if (text.length <= LONGEST) return shown;
  const all = download("whole.txt", textHref(text), "Save it");
  return el("div", {}, shown, note(`${size(text.length)} in all. `, all));
}

const UNITS = ["kB", "MB", "GB"];

/** A count of bytes, or of characters, for a person. */
export function size(count) {
  if (count < 1000) return `${count} B`;
  const power = Math.min(Math.floor(Math.log10(count) / 3), UNITS.length);
  const value = count / 1000 ** power;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[power - 1]}`;
}
