/** Looks into values that may be of any form. */
import { ExactNumber } from "./json-view.js";

export function isObject(value) {
  const isNode = typeof value === "object" && value !== null;
  return isNode && !Array.isArray(value) && !(value instanceof ExactNumber);
}

/** What the first of these own keys has, of those that `fits`; else undefined. */
export function at(value, names, fits = (each) => each !== undefined && each !== null) {
  if (!isObject(value)) return undefined;
  const name = names.find((each) => Object.hasOwn(value, each) && fits(value[each]));
  return name === undefined ? undefined : value[name];
}

export function textAt(value, ...names) {
  return at(value, names, isText);
}

export function isText(value) {
  return typeof value === "string";
}

/** A text, or several. */
export function isTexts(value) {
  return isText(value) || (Array.isArray(value) && value.length > 0 && value.every(isText));
}

/** The first of these, several with commas between them. */
export function textsAt(value, names) {
  const found = at(value, names, isTexts);
  return found === undefined ? undefined : [found].flat().join(", ");
}

const MOST = 1_000;

/** A list that is not empty, and not so long that nobody would look at each of its parts. */
export function isSome(value) {
  return Array.isArray(value) && value.length > 0 && value.length <= MOST;
}

/** Something that is said in a word: a number, a truth value, a short text. */
export function isScalar(value) {
  return ["string", "number", "bigint", "boolean"].includes(typeof value) || value instanceof ExactNumber;
}

export function isEmpty(value) {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && !isScalar(value) && Object.keys(value).length === 0;
}

/** Gives what it is asked for, by key, and knows what nobody asked for: so nothing is lost. */
export class Reader {
  #taken = new Set();

  constructor(value) {
    this.whole = value;
  }

  /** The first of these keys that has such a value; it is taken. */
  take(names, fits) {
    if (!isObject(this.whole)) return undefined;
    const found = names.find((name) => Object.hasOwn(this.whole, name) && fits(this.whole[name]));
    if (found === undefined) return undefined;
    this.#taken.add(found);
    return this.whole[found];
  }

  text(...names) {
    return this.take(names, isText);
  }

  scalar(...names) {
    return this.take(names, isScalar);
  }

  list(...names) {
    return this.take(names, Array.isArray);
  }

  object(...names) {
    return this.take(names, isObject);
  }

  /** What was not asked for, but what says nothing; undefined where there is none. */
  rest() {
    if (!isObject(this.whole)) return isEmpty(this.whole) || this.#taken.has("") ? undefined : this.whole;
    const isLeft = ([name, value]) => !this.#taken.has(name) && !isEmpty(value);
    const left = Object.entries(this.whole).filter(isLeft);
    return left.length ? Object.fromEntries(left) : undefined;
  }

  /** The same, and it is taken. */
  takeRest() {
    const rest = this.rest();
    Object.keys(isObject(this.whole) ? this.whole : { "": true }).forEach((name) => this.#taken.add(name));
    return rest;
  }

  /** All of it, where it is no object but such a value. */
  all(fits) {
    if (isObject(this.whole) || !fits(this.whole)) return undefined;
    this.#taken.add("");
    return this.whole;
  }
}

const DEEPEST = 50;

/** Whether two values say the same; false where that would take too deep a look. */
export function same(one, other, depth = 0) {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || !one || !other || depth > DEEPEST) return false;
  const names = Object.keys(one);
  return (
    Array.isArray(one) === Array.isArray(other) &&
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name], depth + 1))
  );
}

/** How many characters its keys and leaves have. */
export function sizeOf(value) {
  let size = 0;
  const left = [value];
  while (left.length) {
    const each = left.pop();
    if (isText(each)) size += each.length;
    else if (each === null || each === undefined || isScalar(each)) size += String(each).length;
    else for (const [name, inner] of Object.entries(each)) left.push(name, inner);
  }
  return size;
}
