import { getJson } from "../lib/api.js";

/** @type {Promise<any> | undefined} */
let known;

/** The key of the page: its scopes, and whether it redacts; undefined if the server does not answer. */
export function ownKey() {
  known ??= getJson("/api/key").catch(() => (known = undefined));
  return known;
}

/**
 * The reason why a key may not do something; undefined if it may, or if the key is unknown: the server then decides.
 *
 * @param {any} key
 * @param {"read" | "write" | "share"} scope
 */
export function refusalOf(key, scope) {
  if (!key || key.scopes.includes(scope)) return undefined;
  return `This key has no scope “${scope}”.`;
}
