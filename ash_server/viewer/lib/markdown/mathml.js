/**
 * Formulas as MathML. The library parses TeX into a tree, which is built here from known elements, attributes and classes:
 * nothing in a formula becomes a link, a style, a class, an id or a handler.
 */

// @ts-ignore: a script, which becomes a module in the bundle
import { default as temml } from "../../vendor/temml-0.13.5/temml.min.js";

const NAMESPACE = "http://www.w3.org/1998/Math/MathML";

const MAX_EXPANSIONS = 200; // of the macros that the library defines
const MAX_ELEMENTS = 2_000;
const MAX_DEPTH = 60;
const MAX_EM = 20;
const WIDE_EM = 14; // a list on a phone
const CHARACTER_EM = 0.6;

/** With definitions, a short formula could become a long one. */
const DEFINITION = /\\(?:[gex]?def|let|futurelet|global|long|(?:re)?newcommand|providecommand|newenvironment|definecolor)(?![a-zA-Z])/;

const ELEMENTS = new Set(
  ("math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle mpadded mphantom msub msup msubsup munder mover " +
    "munderover mmultiscripts mprescripts none mtable mtr mtd menclose").split(" "),
);
const LENGTH = /^-?\d*\.?\d+(?:em|ex|pt|px|mm|cm|in|pc)?$/;
const BOOLEAN = /^(?:true|false)$/;
const ATTRIBUTES = {
  accent: BOOLEAN,
  accentunder: BOOLEAN,
  depth: LENGTH,
  display: /^block$/,
  displaystyle: BOOLEAN,
  fence: BOOLEAN,
  form: /^(?:prefix|infix|postfix)$/,
  height: LENGTH,
  largeop: BOOLEAN,
  linethickness: LENGTH,
  lspace: LENGTH,
  mathvariant: /^normal$/,
  maxsize: LENGTH,
  minsize: LENGTH,
  movablelimits: BOOLEAN,
  rspace: LENGTH,
  scriptlevel: /^[+-]?\d$/,
  separator: BOOLEAN,
  stretchy: BOOLEAN,
  symmetric: BOOLEAN,
  voffset: LENGTH,
  width: LENGTH,
};
/** Our classes (styles/math.css) by the class of the library. */
const CLASSES = {
  "tml-left": "math-left",
  "tml-right": "math-right",
  "tml-jot": "math-spread",
  "tml-small": "math-small",
  "tml-overline": "math-overline",
  "tml-underline": "math-underline",
  "tml-fbox": "math-box",
  "tml-cancel": "math-strike",
  upstrike: "math-up",
  downstrike: "math-down",
  sout: "math-across",
  "tml-xcancel": "math-cross",
  "tml-tag": "math-tag",
};
/** Classes of constructs that only the library's own style shows. */
const UNSUPPORTED = /^(?:menclose|longdiv|phasor|circle|textcircle|actuarial|tml-cancelto|tml-shift|tml-ref|tml-label|ff-)/;
/** Our classes for styles of the library, if their values have a form. @type {[name: string, value: RegExp, own: string][]} */
const STYLES = [
  ["textAlign", /left$/, "math-left"],
  ["textAlign", /right$/, "math-right"],
  ["border", /^1px solid$/, "math-box"],
  ["borderTop", /solid|dashed|double/, "math-line-above"],
  ["borderBottom", /solid|dashed|double/, "math-line-below"],
  ["borderLeft", /solid|dashed|double/, "math-line-left"],
  ["borderRight", /solid|dashed|double/, "math-line-right"],
  ["paddingLeft", /^0(?:em)?$/, "math-flush-left"],
  ["paddingRight", /^0(?:em)?$/, "math-flush-right"],
  ["paddingLeft", /^[1-9]\d*(?:\.\d+)?em$/, "math-gap-left"],
  ["fontWeight", /^bold$/, "math-bold"],
];

/** @typedef {{elements: number, em: number}} Size */

/**
 * The MathML of a formula, and whether it can be wider than a phone; undefined for a formula that is not supported.
 *
 * @param {string} tex without delimiters
 * @param {boolean} isBlock
 * @returns {{element: Element, isWide: boolean} | undefined}
 */
export function drawFormula(tex, isBlock) {
  if (DEFINITION.test(tex)) return undefined;
  const size = { elements: 0, em: 0 };
  try {
    const element = build(treeOf(tex, isBlock), size, 0);
    return { element, isWide: size.em > WIDE_EM };
  } catch {
    return undefined; // an error of the library, whatever its type, or a part that is not supported
  }
}

function treeOf(tex, displayMode) {
  const options = { displayMode, throwOnError: true, trust: false, wrap: "none", maxExpand: MAX_EXPANSIONS };
  return temml.__renderToMathMLTree(tex, { ...options, maxSize: [MAX_EM, MAX_EM * 10] });
}

/** @param {any} node @param {Size} size @param {number} depth */
function build(node, size, depth) {
  const { type, attributes, children } = node;
  if (!ELEMENTS.has(type) || depth > MAX_DEPTH || (size.elements += 1) > MAX_ELEMENTS) throw new Error("not supported");
  // Browsers show the notations of menclose differently, if at all.
  const element = document.createElementNS(NAMESPACE, type === "menclose" ? "mrow" : type);
  for (const [name, pattern] of Object.entries(ATTRIBUTES)) {
    const value = String(attributes[name] ?? "");
    if (pattern.test(value) && Math.abs(emOf(value)) <= MAX_EM) element.setAttribute(name, value);
  }
  const classes = classesOf(node);
  if (type === "menclose") classes.push("math-enclosed");
  if (classes.length) element.setAttribute("class", classes.join(" "));
  if (type === "mspace") size.em += emOf(element.getAttribute("width") ?? "");
  for (const child of children) appendChild(element, child, size, depth);
  return element;
}

function appendChild(element, child, size, depth) {
  if (typeof child.text === "string") {
    size.em += child.text.length * CHARACTER_EM;
    element.append(child.text);
  } else if (child.type) element.append(build(child, size, depth + 1));
  else if (child.href || child.src) throw new Error("not supported");
  else for (const each of child.children ?? []) appendChild(element, each, size, depth); // a fragment or a mark
}

function classesOf({ classes = [], style = {} }) {
  if (classes.some((name) => UNSUPPORTED.test(name))) throw new Error("not supported");
  const known = classes.filter((name) => Object.hasOwn(CLASSES, name)).map((name) => CLASSES[name]);
  const styled = STYLES.filter(([name, value]) => value.test(style[name] ?? "")).map(([, , own]) => own);
  return [...new Set([...known, ...styled])];
}

const UNITS = { em: 1, ex: 0.5, pt: 0.1, px: 0.1, mm: 0.3, cm: 3, in: 7.2, pc: 1.2 };

/** About how many em a length is; 0 for other values. */
function emOf(value) {
  return Number.parseFloat(value) * (UNITS[value.replace(/^[-\d.]+/, "")] ?? 1) || 0;
}
