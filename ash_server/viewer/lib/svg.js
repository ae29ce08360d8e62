const NAMESPACE = "http://www.w3.org/2000/svg";

/**
 * Create an SVG element. Numbers are rounded to a hundredth; strings become text; absent children are omitted.
 *
 * @param {string} tag
 * @param {Record<string, string | number | undefined>} [attributes]
 * @param {...any} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(NAMESPACE, tag));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined) continue;
    element.setAttribute(name, String(typeof value === "number" ? Math.round(value * 100) / 100 : value));
  }
  element.append(...children.filter((child) => child !== undefined && child !== false));
  return element;
}
