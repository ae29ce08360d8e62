import { el } from "./dom.js";
export function markdown(text) {
  const fragment = document.createDocumentFragment();
  fragment.append(el("p", {}, text));
  return fragment;
}
