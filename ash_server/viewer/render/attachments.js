/** Pictures and other files that stand in a message. Nothing is ever fetched for them. */
import { blocks } from "./content-blocks.js";
import { el } from "../lib/dom.js";
import { languageOf } from "../lib/highlight.js";
import { aside, code, download, isWeb, link, prose, size, textHref } from "./tools/body-parts.js";
import { isEmpty, isText, Reader } from "../lib/json-fields.js";

const LARGEST = 14_000_000; // characters of base64
const LONGEST_TEXT = 200_000;
const ADDRESS_SHOWN = 200;

/** How each kind of picture that is shown begins. SVG is none of them: it can hold scripts. */
const PICTURES = new Map([
  ["image/png", /^\x89PNG\r\n\x1a\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF[^]{4}WEBP/],
]);
const SPELLINGS = new Map([
  ["image/jpg", "image/jpeg"],
  ["image/pjpeg", "image/jpeg"],
]);
const ENDINGS = new Map([
  ["application/pdf", "pdf"],
  ["application/json", "json"],
  ["audio/mpeg", "mp3"],
  ["image/jpeg", "jpg"],
  ["image/svg+xml", "svg"],
  ["text/markdown", "md"],
  ["text/plain", "txt"],
]);
const TEXTUAL = /^(?:text\/|application\/(?:json|xml|yaml|toml|javascript)\b)/;
const DATA_URL = /^data:([^;,]*)((?:;[^;,]*)*),/;
const NOT_IN_NAMES = /[\0-\x1f\x7f<>:"|?*\u202a-\u202e\u2066-\u2069]/g;
const BASE64 = /^[A-Za-z0-9+/]*$/;

export function image(reader, depth) {
  return file(reader, depth, "image");
}

/** What there is of a file, by where it is: in the block, at an address, or with a provider. */
export function file(reader, depth, kind) {
  const source = new Reader(reader.take(["source"], (value) => !isEmpty(value)) ?? {});
  const about = aboutOf(reader, source, kind);
  const found = FORMS.find(([name]) => about[name] !== undefined);
  const shown = found ? found[1](about, depth) : [chip(about)];
  const told = reader.text("context", "transcript");
  const rest = source.rest();
  return [...shown, told && prose(told), rest !== undefined && aside("More of the source", rest)];
}

function aboutOf(reader, source, kind) {
  const text = (...names) => source.text(...names) ?? reader.text(...names);
  const type = source.text("type");
  const url = source.all(isText) ?? text("url", "uri", "image_url", "fileUri");
  const [inAddress, mediaType, parameters] = url?.match(DATA_URL) ?? [];
  const data = inAddress === undefined ? text("data", "base64") : url.slice(inAddress.length);
  const isPlain = type === "text" || (inAddress !== undefined && !/;base64$/i.test(parameters));
  const declared = text("media_type", "mimeType", "mime_type", "mediaType") ?? mediaType;
  return {
    kind: kind ?? reader.text("mediaClass") ?? "file",
    name: text("filename", "fileName", "title", "name"),
    mediaType: SPELLINGS.get(declared?.toLowerCase()) ?? declared?.toLowerCase(),
    size: reader.scalar("size"),
    text: isPlain ? data : undefined,
    data: isPlain ? undefined : data,
    content: source.take(["content"], (value) => !isEmpty(value)),
    url: inAddress === undefined ? url : undefined,
    id: text("file_id", "fileId", "storagePath", "id"),
  };
}

/** The first that there is decides. */
const FORMS = [
  ["data", (about) => inline({ ...about, data: standard(about.data) }, about.data)],
  ["text", (about) => textFile(about)],
  ["content", ({ content, ...about }, depth) => [chip(about), ...inner(content, depth)]],
  ["url", (about) => [remote(about)]],
  ["id", (about) => [chip(about, about.id)]],
];

function inner(content, depth) {
  return isText(content) ? [code(content)] : blocks(content, depth + 1);
}

/** Base64 as browsers take it. */
function standard(data) {
  return data.replaceAll(/\s/g, "").replaceAll("-", "+").replaceAll("_", "/").replace(/={1,2}$/, "");
}

function inline(about, written) {
  const { data, mediaType } = about;
  if (!BASE64.test(data) || data.length % 4 === 1) return [chip(about, "no base64", textHref(written))];
  const href = `data:application/octet-stream;base64,${data}`;
  const real = pictureIn(data);
  const isTrue = mediaType === undefined || mediaType === real;
  if (real && isTrue && data.length <= LARGEST) return [picture({ ...about, mediaType: real }, href)];
  const isTextual = TEXTUAL.test(mediaType ?? "") && data.length <= LONGEST_TEXT;
  if (isTextual) return textFile({ ...about, text: decodedText(data) });
  const isLie = mediaType?.startsWith("image/") && mediaType !== real;
  return [chip(about, isLie && `not shown: it is ${real ?? "no picture that can be shown"}`, href)];
}

function pictureIn(data) {
  const start = atob(data.slice(0, 24));
  return [...PICTURES].find(([, begins]) => begins.test(start))?.[0];
}

function decodedText(data) {
  return new TextDecoder().decode(Uint8Array.from(atob(data), (character) => character.charCodeAt(0)));
}

/** A picture, small until it is opened. */
function picture({ data, mediaType, ...about }, href) {
  const src = `data:${mediaType};base64,${data}`;
  const shown = el("img", { src, alt: about.name ?? "A picture", loading: "lazy", decoding: "async" });
  return el(
    "figure",
    { class: "picture" },
    el("details", {}, el("summary", {}, shown)),
    el("figcaption", {}, chip({ data, mediaType, ...about }, undefined, href)),
  );
}

function textFile(about) {
  const { text, name } = about;
  const view = code(text, name && languageOf(name));
  const folded = el("details", { class: "document" }, el("summary", {}, "Its text"), view);
  return [chip(about, undefined, textHref(text)), folded];
}

function remote({ url, kind, name, mediaType }) {
  const words = `${name ?? kind} at ${isWeb(url) ? new URL(url).host : url.slice(0, ADDRESS_SHOWN)}`;
  const shown = isWeb(url) ? link(url, words) : words;
  return el("span", { class: "attachment", "data-kind": kind }, shown, mediaType && ` · ${mediaType}`);
}

/** The name of a file and what is known of it; with an address it can be saved. */
function chip({ kind, name, mediaType, data, text, size: told }, why, href) {
  const bytes = data === undefined ? text?.length : Math.floor((data.length * 3) / 4);
  const facts = [mediaType, sizeIn(told, bytes), why].filter(Boolean).join(" · ");
  const parts = [
    el("span", { class: "attachment-name", dir: "auto" }, name ?? kind),
    facts && " ",
    facts && el("span", { class: "attachment-facts" }, facts),
  ];
  if (!href) return el("span", { class: "attachment", "data-kind": kind }, ...parts);
  const link = download(nameOf({ kind, name, mediaType }), href, ...parts);
  link.dataset.kind = kind;
  return link;
}

function sizeIn(told, bytes) {
  if (typeof told !== "number") return told === undefined ? bytes !== undefined && size(bytes) : String(told);
  return told < 1000 ? size(told) : `${size(told)} (${told} bytes)`;
}

/** A name to save it by; folders in it, and what a disk would not take, are left out. */
function nameOf({ kind, name, mediaType }) {
  const own = name?.split(/[\\/]/).at(-1).replaceAll(NOT_IN_NAMES, "").slice(-120);
  if (own) return own;
  return `${kind}.${ENDINGS.get(mediaType) ?? mediaType?.match(/^\w+\/(\w+)$/)?.[1] ?? "bin"}`;
}
