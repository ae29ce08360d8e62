/** Content blocks that are more than text. */
import { el } from "./dom.js";
import { jsonView } from "./json-view.js";

export function blocks(list) {
  return list.map((block) => el("div", { class: "raw", "data-block": "raw" }, jsonView(block)));
}
