/** An element with these attributes and children. Strings are text; what is false, null or undefined is left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** A button that does something when it is pressed. */
export function button(attributes, label, run) {
  const element = el("button", { ...attributes, type: "button" }, label);
  element.addEventListener("click", run);
  return element;
}

/** One that shows a symbol (styles/page.css) in place of its label. */
export function iconButton(action, label, run) {
  return button({ class: "icon-button", "data-action": action, "aria-label": label, title: label }, null, run);
}

/**
 * Makes an element what a fresh one is, and leaves alone what is alike: the person's selection, focus, and what was
 * opened by hand stay where they are.
 */
export function become(element, fresh) {
  const isOpen = element.open;
  [...element.getAttributeNames()].forEach((name) => element.removeAttribute(name));
  [...fresh.attributes].forEach(({ name, value }) => element.setAttribute(name, value));
  if (isOpen !== undefined) element.open = isOpen;
  place(element, becoming([...element.childNodes], [...fresh.childNodes]));
}

/** They hold values that cannot be seen in them yet, so what looks alike need not be. */
const FILLED_LATER = ".aside, .json, .diff, .diffs";

function becoming(before, after) {
  return after.map((fresh, place) => {
    const old = before[place];
    const isElement = fresh.nodeType === Node.ELEMENT_NODE;
    if (isElement && fresh.matches(FILLED_LATER)) {
      if (old?.open && old.tagName === fresh.tagName) fresh.open = true;
      return fresh;
    }
    const isKnown = !isElement || !fresh.querySelector(FILLED_LATER);
    if (isKnown && old?.isEqualNode(fresh)) return old;
    if (isElement && old?.tagName === fresh.tagName) {
      become(old, fresh);
      return old;
    }
    return fresh;
  });
}

/** Gives an element these children, in this order. Those that stay, in the order they have, are not moved. */
export function place(parent, children) {
  const wanted = new Set(children);
  [...parent.childNodes].forEach((child) => wanted.has(child) || child.remove());
  let at = parent.firstChild;
  for (const child of children) {
    if (child === at) at = at.nextSibling;
    else parent.insertBefore(child, at);
  }
}
