/** Reads fields of JSON values of unknown form. */
import { ExactNumber } from "./json-view.js";

export function isObject(value) {
  const isNode = typeof value === "object" && value !== null;
  return isNode && !Array.isArray(value) && !(value instanceof ExactNumber);
}

const isPresent = (value) => value !== undefined && value !== null;

/**
 * The first accepted value among these own keys, else undefined.
 *
 * @param {any} value
 * @param {readonly string[]} names
 * @param {(value: any) => any} [accepts]
 * @returns {any}
 */
export function fieldOf(value, names, accepts = isPresent) {
  if (!isObject(value)) return undefined;
  const name = names.find((each) => Object.hasOwn(value, each) && accepts(value[each]));
  return name === undefined ? undefined : value[name];
}

/** @returns {string | undefined} */
export function textField(value, ...names) {
  return fieldOf(value, names, isString);
}

export function isString(value) {
  return typeof value === "string";
}

/** True for a string and for a list of strings that is not empty. */
export function isStringOrStrings(value) {
  return isString(value) || (Array.isArray(value) && value.length > 0 && value.every(isString));
}

/** The first of these fields that is a string or a list of strings, which are joined by commas. */
export function joinedTextField(value, names) {
  const text = fieldOf(value, names, isStringOrStrings);
  return text === undefined ? undefined : [text].flat().join(", ");
}

const MAX_LIST_LENGTH = 1_000;

/** True for a list that is not empty and short enough to show each element. */
export function isDisplayableList(value) {
  return Array.isArray(value) && value.length > 0 && value.length <= MAX_LIST_LENGTH;
}

/** True for strings, numbers and booleans. */
export function isScalar(value) {
  return ["string", "number", "bigint", "boolean"].includes(typeof value) || value instanceof ExactNumber;
}

export function isEmpty(value) {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && !isScalar(value) && Object.keys(value).length === 0;
}

/** Reads fields by key and tracks which keys were not read, so that a card can show the rest. */
export class FieldReader {
  #taken = new Set();

  /** @param {any} value */
  constructor(value) {
    this.value = value;
  }

  /**
   * Take the first of these keys with an accepted value.
   *
   * @param {readonly string[]} names
   * @param {(value: any) => any} accepts
   * @returns {any}
   */
  take(names, accepts) {
    if (!isObject(this.value)) return undefined;
    const name = names.find((each) => Object.hasOwn(this.value, each) && accepts(this.value[each]));
    if (name === undefined) return undefined;
    this.#taken.add(name);
    return this.value[name];
  }

  /** @returns {string | undefined} */
  text(...names) {
    return this.take(names, isString);
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

  /** The fields that were not taken and are not empty; undefined if there are none. */
  rest() {
    if (!isObject(this.value)) return isEmpty(this.value) || this.#taken.has("") ? undefined : this.value;
    const isLeft = ([name, value]) => !this.#taken.has(name) && !isEmpty(value);
    const left = Object.entries(this.value).filter(isLeft);
    return left.length ? Object.fromEntries(left) : undefined;
  }

  /** Take the rest. */
  takeRest() {
    const rest = this.rest();
    Object.keys(isObject(this.value) ? this.value : { "": true }).forEach((name) => this.#taken.add(name));
    return rest;
  }

  /** Take the whole value if it is not an object and is accepted. */
  takeWhole(accepts) {
    if (isObject(this.value) || !accepts(this.value)) return undefined;
    this.#taken.add("");
    return this.value;
  }
}

const MAX_DEPTH = 50;

/** True if two values are deeply equal; false below a depth limit. */
export function isEqual(one, other, depth = 0) {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || !one || !other || depth > MAX_DEPTH) return false;
  const names = Object.keys(one);
  return (
    Array.isArray(one) === Array.isArray(other) &&
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isEqual(one[name], other[name], depth + 1))
  );
}

/** The number of characters in keys and leaves. */
export function sizeOf(value) {
  let size = 0;
  const pending = [value];
  while (pending.length) {
    const each = pending.pop();
    if (isString(each)) size += each.length;
    else if (each === null || each === undefined || isScalar(each)) size += String(each).length;
    else for (const [name, inner] of Object.entries(each)) pending.push(name, inner);
  }
  return size;
}
