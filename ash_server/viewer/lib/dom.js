/**
 * Create an element. Strings become text; attributes and children that are false, null or undefined are omitted.
 *
 * @template {string} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 * @returns {Tag extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Tag] : HTMLElement}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const name in attributes) {
    const value = attributes[name];
    if (isPresent(value)) element.setAttribute(name, value === true ? "" : value);
  }
  // One by one: of several at once, the browser first makes a fragment, which it then empties.
  for (const child of children) if (isPresent(child)) element.append(child);
  return /** @type {any} */ (element);
}

function isPresent(value) {
  return value !== undefined && value !== null && value !== false;
}

/**
 * A button.
 *
 * @param {Record<string, any>} attributes
 * @param {string | null} label
 * @param {(event: MouseEvent) => any} run
 */
export function button(attributes, label, run) {
  const element = el("button", { ...attributes, type: "button" }, label);
  element.addEventListener("click", run);
  return element;
}

/** Remove the focus from the focused element. */
export function blurActiveElement() {
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
}

/** A button that shows an icon (styles/page.css) instead of its label. */
export function iconButton(action, label, run) {
  return button({ class: "icon-button", "data-action": action, "aria-label": label, title: label }, null, run);
}

/** Values of elements that are not in the DOM; morph() carries them over. @type {WeakMap<Element, any>} */
export const hiddenValues = new WeakMap();

/**
 * Update an element in place to equal a fresh one. Equal nodes are kept, with their selection, focus and open state.
 *
 * @param {any} element
 * @param {any} fresh
 * @param {{placeholder: Element, node: Element}} [kept] a child that stays, and its placeholder in the fresh element
 */
export function morph(element, fresh, kept) {
  const isOpen = element.open;
  if (hiddenValues.has(fresh)) hiddenValues.set(element, hiddenValues.get(fresh));
  [...element.getAttributeNames()].forEach((name) => element.removeAttribute(name));
  [...fresh.attributes].forEach(({ name, value }) => element.setAttribute(name, value));
  if (isOpen !== undefined) element.open = isOpen;
  setChildren(element, morphChildren([...element.childNodes], [...fresh.childNodes], kept));
}

/** Elements filled when opened: they may differ in values that are not in the DOM yet. */
const LAZY = ".aside, .json, .diff, .diffs, .text-rest";

/**
 * The fresh nodes, each replaced by the old node at its position if that can be updated in place.
 *
 * @param {any[]} before
 * @param {any[]} after
 * @param {{placeholder: Element, node: Element}} [kept]
 */
export function morphChildren(before, after, kept) {
  const old = before.map((node) => (node === kept?.node ? undefined : node));
  return after.map((fresh, index) => (kept && fresh === kept.placeholder ? kept.node : morphChild(old[index], fresh)));
}

function morphChild(old, fresh) {
  const isElement = fresh.nodeType === Node.ELEMENT_NODE;
  if (isElement && fresh.matches(LAZY)) {
    if (old?.open && old.tagName === fresh.tagName) fresh.open = true;
    return fresh;
  }
  const isComparable = !isElement || !fresh.querySelector(LAZY);
  if (isComparable && old?.isEqualNode(fresh)) return old;
  if (!isElement && growText(old, fresh)) return old;
  if (isElement && old?.tagName === fresh.tagName) {
    morph(old, fresh);
    return old;
  }
  return fresh;
}

/** Append the end of a longer text, so that its beginning keeps its layout and selection; false for another text. */
function growText(old, fresh) {
  if (old?.nodeType !== Node.TEXT_NODE || fresh.nodeType !== Node.TEXT_NODE) return false;
  if (!old.data || !fresh.data.startsWith(old.data)) return false;
  old.appendData(fresh.data.slice(old.data.length));
  return true;
}

/** Set the children of an element, without moving those that are already in order. */
export function setChildren(parent, children) {
  const { childNodes } = parent;
  if (childNodes.length === children.length && children.every((child, index) => child === childNodes[index])) return;
  const kept = new Set(children);
  [...parent.childNodes].forEach((child) => kept.has(child) || child.remove());
  let next = parent.firstChild;
  for (const child of children) {
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(child, next);
  }
}
