import { likePage, withQuery } from "./api.js";

/**
 * The address of the comparison of two sessions; with one of them, the page offers others to choose from.
 *
 * @param {{a?: string, b?: string}} sessions
 */
export function compareAddress({ a, b }) {
  return likePage(withQuery("/compare", { a, b }));
}
