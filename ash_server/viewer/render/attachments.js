/** Images and other files in messages. No file is ever fetched. */
import { el } from "../lib/dom.js";
import { languageOf } from "../lib/highlight.js";
import { aside, code, downloadLink, formatSize, link, prose, textDataUrl } from "./tools/body-parts.js";
import { FieldReader, isEmpty, isString, textField } from "../lib/json-fields.js";
import { isWebUrl } from "../lib/web-links.js";

const MIN_IMAGE_LENGTH = 32;
const MAX_IMAGE_LENGTH = 14_000_000; // characters of base64
const MAX_TEXT_LENGTH = 200_000;
const MAX_ADDRESS_LENGTH = 200;

/** Signatures of the image types that are shown. SVG is excluded, since it can contain scripts. */
const IMAGE_SIGNATURES = new Map([
  ["image/png", /^\x89PNG\r\n\x1a\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF[^]{4}WEBP/],
]);
const MEDIA_TYPE_ALIASES = new Map([
  ["image/jpg", "image/jpeg"],
  ["image/pjpeg", "image/jpeg"],
]);
const EXTENSIONS = new Map([
  ["application/pdf", "pdf"],
  ["application/json", "json"],
  ["audio/mpeg", "mp3"],
  ["image/jpeg", "jpg"],
  ["image/svg+xml", "svg"],
  ["text/markdown", "md"],
  ["text/plain", "txt"],
]);
const TEXT_TYPES = /^(?:text\/|application\/(?:json|xml|yaml|toml|javascript)\b)/;
const DATA_URL = /^data:([^;,]*)((?:;[^;,]*)*),/;
const NOT_ALLOWED_IN_NAMES = /[\0-\x1f\x7f<>:"|?*\u202a-\u202e\u2066-\u2069]/g;
const BASE64 = /^[A-Za-z0-9+/]*$/;

/**
 * `data` is base64; `text`, `content`, `url` and `id` are the other forms of a file.
 * @typedef {{kind: string, name?: string, mediaType?: string, size?: any, text?: string, data?: string, content?: any,
 *   url?: string, id?: string}} FileInfo
 */

/**
 * Render a file: its data, a link to it, or its id at the provider.
 *
 * @param {FieldReader} reader
 * @param {(list: any) => any[]} renderBlocks renders the blocks that the file contains
 * @param {string} [kind]
 */
export function file(reader, renderBlocks, kind) {
  const source = new FieldReader(reader.take(["source"], (value) => !isEmpty(value)) ?? {});
  const info = readFileInfo(reader, source, kind);
  const form = Object.keys(FORMS).find((name) => info[name] !== undefined);
  const parts = form ? FORMS[form](info, renderBlocks) : [chip(info)];
  const description = reader.text("context", "transcript");
  const rest = source.rest();
  return [...parts, description && prose(description), rest !== undefined && aside("More of the source", rest)];
}

/**
 * The data URL and the name of an image block that can be shown; undefined for other blocks and for larger images.
 *
 * @param {any} block
 * @param {number} maxLength of the data, in characters of base64
 */
export function imageOf(block, maxLength) {
  if (textField(block, "type") !== "image") return undefined;
  const reader = new FieldReader(block);
  const { data = "", mediaType, name } = readFileInfo(reader, new FieldReader(reader.value.source), "image");
  const type = isImageStart(data) && data.length <= maxLength ? detectImageType(data) : undefined;
  if (!type || (mediaType !== undefined && mediaType !== type)) return undefined;
  return { name, url: () => `data:${type};base64,${normalizeBase64(data)}` };
}

function isImageStart(data) {
  return data.length >= MIN_IMAGE_LENGTH && BASE64.test(data.slice(0, MIN_IMAGE_LENGTH));
}

/** @returns {FileInfo} */
function readFileInfo(reader, source, kind) {
  const text = (...names) => source.text(...names) ?? reader.text(...names);
  const type = source.text("type");
  const url = source.takeWhole(isString) ?? text("url", "uri", "image_url", "fileUri");
  const [dataPrefix, mediaType, parameters] = url?.match(DATA_URL) ?? [];
  const data = dataPrefix === undefined ? text("data", "base64") : url.slice(dataPrefix.length);
  const isPlain = type === "text" || (dataPrefix !== undefined && !/;base64$/i.test(parameters));
  const declared = text("media_type", "mimeType", "mime_type", "mediaType") ?? mediaType;
  return {
    kind: kind ?? reader.text("mediaClass") ?? "file",
    name: text("filename", "fileName", "title", "name"),
    mediaType: MEDIA_TYPE_ALIASES.get(declared?.toLowerCase()) ?? declared?.toLowerCase(),
    size: reader.scalar("size"),
    text: isPlain ? data : undefined,
    data: isPlain ? undefined : data,
    content: source.take(["content"], (value) => !isEmpty(value)),
    url: dataPrefix === undefined ? url : undefined,
    id: text("file_id", "fileId", "storagePath", "id"),
  };
}

/**
 * Renderers by the form of the file; the first form present is used.
 *
 * @type {Record<string, (info: FileInfo, renderBlocks: (list: any) => any[]) => any[]>}
 */
const FORMS = {
  data: (info) => inlineFile({ ...info, data: normalizeBase64(info.data) }, info.data),
  text: (info) => textFile(info),
  content: ({ content, ...info }, renderBlocks) => [
    chip(info),
    ...(isString(content) ? [code(content)] : renderBlocks(content)),
  ],
  url: (info) => [remoteFile(info)],
  id: (info) => [chip(info, info.id)],
};

/** Convert base64 to the form that browsers decode: standard alphabet, no blanks, no padding. */
function normalizeBase64(data) {
  return data.replaceAll(/\s/g, "").replaceAll("-", "+").replaceAll("_", "/").replace(/={1,2}$/, "");
}

function inlineFile(info, original) {
  const { data, mediaType } = info;
  if (!BASE64.test(data) || data.length % 4 === 1) return [chip(info, "no base64", textDataUrl(original))];
  const href = `data:application/octet-stream;base64,${data}`;
  const imageType = detectImageType(data);
  const isAsDeclared = mediaType === undefined || mediaType === imageType;
  if (imageType && isAsDeclared && data.length <= MAX_IMAGE_LENGTH) {
    return [imageFigure({ ...info, mediaType: imageType }, href)];
  }
  const isText = TEXT_TYPES.test(mediaType ?? "") && data.length <= MAX_TEXT_LENGTH;
  if (isText) return textFile({ ...info, text: decodeText(data) });
  const isMislabelled = mediaType?.startsWith("image/") && mediaType !== imageType;
  return [chip(info, isMislabelled && `not shown: it is ${imageType ?? "no picture that can be shown"}`, href)];
}

function detectImageType(data) {
  const start = atob(data.slice(0, 24));
  return [...IMAGE_SIGNATURES].find(([, signature]) => signature.test(start))?.[0];
}

function decodeText(data) {
  return new TextDecoder().decode(Uint8Array.from(atob(data), (character) => character.charCodeAt(0)));
}

/** An image, small until it is opened. */
function imageFigure(info, href) {
  const src = `data:${info.mediaType};base64,${info.data}`;
  const shown = el("img", { src, alt: info.name ?? "A picture", loading: "lazy", decoding: "async" });
  return el(
    "figure",
    { class: "picture" },
    el("details", {}, el("summary", {}, shown)),
    el("figcaption", {}, chip(info, undefined, href)),
  );
}

function textFile(info) {
  const { text, name } = info;
  const view = code(text, name && languageOf(name));
  const folded = el("details", { class: "document" }, el("summary", {}, "Text of the file"), view);
  return [chip(info, undefined, textDataUrl(text)), folded];
}

/** @param {FileInfo} info */
function remoteFile({ url = "", kind, name, mediaType }) {
  const label = `${name ?? kind} at ${isWebUrl(url) ? new URL(url).host : url.slice(0, MAX_ADDRESS_LENGTH)}`;
  const shown = isWebUrl(url) ? link(url, label) : label;
  return el("span", { class: "attachment", "data-kind": kind }, shown, mediaType && ` · ${mediaType}`);
}

/**
 * The name and facts of a file; a download link if there is an address.
 *
 * @param {FileInfo} info
 * @param {string | false} [remark]
 * @param {string} [href]
 */
function chip({ kind, name, mediaType, data, text, size }, remark, href) {
  const bytes = data === undefined ? text?.length : Math.floor((data.length * 3) / 4);
  const facts = [mediaType, sizeText(size, bytes), remark].filter(Boolean).join(" · ");
  const parts = [
    el("span", { class: "attachment-name", dir: "auto" }, name ?? kind),
    facts && " ",
    facts && el("span", { class: "attachment-facts" }, facts),
  ];
  if (!href) return el("span", { class: "attachment", "data-kind": kind }, ...parts);
  const link = downloadLink(fileName({ kind, name, mediaType }), href, ...parts);
  link.dataset.kind = kind;
  return link;
}

/** The declared size, else the number of bytes. */
function sizeText(declared, bytes) {
  if (declared === undefined) return bytes !== undefined && formatSize(bytes);
  if (typeof declared !== "number") return String(declared);
  return declared < 1000 ? formatSize(declared) : `${formatSize(declared)} (${declared} bytes)`;
}

/** A file name for saving, without folders and characters that file systems reject. */
function fileName({ kind, name, mediaType }) {
  const own = name?.split(/[\\/]/).at(-1).replaceAll(NOT_ALLOWED_IN_NAMES, "").slice(-120);
  if (own) return own;
  return `${kind}.${EXTENSIONS.get(mediaType) ?? mediaType?.match(/^\w+\/(\w+)$/)?.[1] ?? "bin"}`;
}
