/** What is fetched from the web, and searches in it. */
import { blocks } from "../content-blocks.js";
import { el } from "../../lib/dom.js";
import { counted } from "../../lib/number-format.js";
import { decoded } from "./call.js";
import { isWeb, label, link, note, prose, setting } from "./body-parts.js";
import { formOf, shown, textual } from "./call-result.js";
import { at, isText, isTexts, textAt, textsAt } from "../../lib/json-fields.js";

const URL_KEYS = ["url", "uri", "link"];
const QUERY = ["query", "search_query", "search_term", "q", "queries", "urls", "pattern"];
const WISH = ["prompt", "objective", "instructions"];
const DEEPEST = 6;
const MOST = 200;

export const web = {
  gist(args) {
    return textAt(args, ...URL_KEYS)?.replace(/^https?:\/\//, "") ?? textsAt(args, QUERY) ?? textAt(args, ...WISH);
  },

  outcome({ last }) {
    const found = hitsIn(last?.structured);
    const status = at(formOf(last), ["code", "status_code"], Number.isInteger);
    return [status >= 400 && `status ${status}`, found.length > 0 && counted(found.length, "result")];
  },

  args(reader) {
    const url = reader.text(...URL_KEYS);
    const query = textsAt(reader.whole, QUERY);
    if (query !== undefined) reader.take(QUERY, isTexts);
    const wish = reader.text(...WISH);
    if (url === undefined && query === undefined && wish === undefined) return undefined;
    return [
      url !== undefined && note(link(url)),
      query !== undefined && note(query),
      wish !== undefined && prose(wish),
      setting(reader),
    ];
  },

  result(result) {
    const { text, beside } = textual(result.value) ?? {};
    const isProse = text && isText(decoded(text));
    const hits = hitsIn(result.structured);
    const answer = isProse ? [prose(text), ...blocks(beside)] : shown(result.value);
    if (!hits.length) return answer;
    return [el("ul", { class: "links" }, ...hits.map(hit)), isProse && label("Answer"), ...answer];
  },
};

/** The pages that a search found, wherever its answer has them. */
function hitsIn(value, depth = 0) {
  if (typeof value !== "object" || value === null || depth > DEEPEST) return [];
  if (depth > 0 && textAt(value, ...URL_KEYS) !== undefined) return [value];
  return Object.values(value).flatMap((each) => hitsIn(each, depth + 1)).slice(0, MOST);
}

function hit(page) {
  const url = textAt(page, ...URL_KEYS);
  const title = textAt(page, "title", "name");
  const host = title !== undefined && isWeb(url) && new URL(url).host;
  const more = [host, textAt(page, "page_age", "snippet")].filter(Boolean);
  return el("li", {}, link(url, title ?? url), ...more.map((each) => ` · ${each}`));
}
