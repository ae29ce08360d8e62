import { el } from "./dom.js";
export function jsonView(value) {
  return el("pre", { class: "json", tabindex: 0 }, JSON.stringify(value, null, 2));
}
