/** Web pages that are fetched, and web searches. */
import { blocks, valueView } from "../content-blocks.js";
import { el } from "../../lib/dom.js";
import { pluralize } from "../../lib/number-format.js";
import { decodeJson } from "./call.js";
import { label, link, note, prose, settings } from "./body-parts.js";
import { splitText, structuredOf } from "./call-result.js";
import { fieldOf, isString, isStringOrStrings, joinedTextField, textField } from "../../lib/json-fields.js";
import { isWebUrl } from "../../lib/web-links.js";

const URL_KEYS = ["url", "uri", "link", "Url"];
const QUERY = ["query", "search_query", "search_term", "q", "queries", "urls", "pattern"];
const PROMPT = ["prompt", "objective", "instructions"];
const MAX_DEPTH = 6;
const MAX_HITS = 200;
const LINKS = /^Links: (\[.*\])[ \t]*(?:\n\s*|$)/gm;

/** @type {import("./registry.js").Tool} */
export const web = {
  gist(args) {
    const address = textField(args, ...URL_KEYS)?.replace(/^https?:\/\//, "");
    return address ?? joinedTextField(args, QUERY) ?? textField(args, ...PROMPT);
  },

  outcome({ last }) {
    const hits = hitsIn(last?.structured);
    const status = fieldOf(structuredOf(last), ["code", "status_code"], Number.isInteger);
    return [status >= 400 && `status ${status}`, hits.length > 0 && pluralize(hits.length, "result")];
  },

  args(reader) {
    const url = reader.text(...URL_KEYS);
    const query = joinedTextField(reader.value, QUERY);
    if (query !== undefined) reader.take(QUERY, isStringOrStrings);
    const prompt = reader.text(...PROMPT);
    if (url === undefined && query === undefined && prompt === undefined) return undefined;
    return [
      url !== undefined && note(link(url)),
      query !== undefined && note(query),
      prompt !== undefined && prose(prompt),
      settings(reader),
    ];
  },

  result(result) {
    const { text: whole, others } = splitText(result.value) ?? {};
    const { links, text } = splitLinks(whole);
    const isProse = text !== undefined && isString(decodeJson(whole));
    const ofStructure = hitsIn(result.structured);
    const hits = ofStructure.length ? ofStructure : links;
    const answer = isProse ? [text.trim() !== "" && prose(text), ...blocks(others)] : valueView(result.value);
    if (!hits.length) return answer;
    return [el("ul", { class: "links" }, ...hits.map(hitView)), isProse && label("Answer"), ...answer];
  },
};

/** The search hits in a value, at any depth. */
function hitsIn(value, depth = 0) {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return [];
  if (depth > 0 && textField(value, ...URL_KEYS) !== undefined) return [value];
  return Object.values(value).flatMap((each) => hitsIn(each, depth + 1)).slice(0, MAX_HITS);
}

/** Split the text of Claude Code's web search into the hits, which are lists in JSON, and the rest. */
function splitLinks(text) {
  const links = [];
  const rest = text?.replaceAll(LINKS, (line, json) => {
    const hits = decodeJson(json);
    if (!Array.isArray(hits) || !hits.every(isHit) || links.length + hits.length > MAX_HITS) return line;
    links.push(...hits);
    return "";
  });
  return { links, text: rest };
}

function isHit(value) {
  return textField(value, ...URL_KEYS) !== undefined && textField(value, "title") !== undefined;
}

function hitView(page) {
  const url = textField(page, ...URL_KEYS);
  const title = textField(page, "title", "name");
  const host = url !== undefined && title !== undefined && isWebUrl(url) && new URL(url).host;
  const more = [host, textField(page, "page_age", "snippet")].filter(Boolean);
  return el("li", {}, link(url, title ?? url), ...more.map((each) => ` · ${each}`));
}
