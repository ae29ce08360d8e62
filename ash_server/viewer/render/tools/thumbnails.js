/** Small pictures of the images that a call read or made, in its summary line. */
import { imageOf } from "../attachments.js";
import { isBlockList } from "./call-result.js";
import { el } from "../../lib/dom.js";
import { formatNumber } from "../../lib/number-format.js";

const MAX_THUMBNAILS = 4;
const MAX_THUMBNAIL_LENGTH = 6_000_000; // characters of base64; larger images are shown when the call is open

/**
 * The images in the results of a call; `url` returns the data URL.
 *
 * @param {any[]} results
 * @returns {{name?: string, url: () => string}[]}
 */
export function thumbnailsOf(results) {
  return results.filter(isBlockList).flat().flatMap((block) => imageOf(block, MAX_THUMBNAIL_LENGTH) ?? []);
}

/** Boxes of a fixed size. The page sets the source of an image when it is near the screen (session/thumbnails.js). */
export function thumbnails(results) {
  const images = thumbnailsOf(results);
  const rest = images.length - MAX_THUMBNAILS;
  const shown = images.slice(0, MAX_THUMBNAILS);
  const boxes = shown.map(({ name }) => el("img", { class: "thumbnail", alt: name ?? "Picture" }));
  if (!boxes.length) return undefined;
  return el("span", { class: "thumbnails" }, ...boxes, rest > 0 && el("span", {}, `+${formatNumber(rest)}`));
}
