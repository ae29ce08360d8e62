import { getJson, withQuery } from "../lib/api.js";
import { isFailure } from "../render/tools/call-result.js";

const TYPES = "error,tool_result";
const PAGE = 200;

/**
 * The first error after the loaded events (steps 1), or the last before them (-1).
 *
 * @param {string} api the address of the session
 * @param {{first?: number, last: number}} loaded
 * @param {number} steps
 */
export async function findError(api, { first, last }, steps) {
  let cursor = steps > 0 ? { after: last } : { before: first };
  while (Object.values(cursor)[0] !== undefined) {
    const page = await getJson(withQuery(`${api}/events`, { ...cursor, type: TYPES, limit: PAGE }));
    const event = steps > 0 ? page.events.find(isError) : page.events.findLast(isError);
    if (event) return event;
    cursor = steps > 0 ? { after: page.nextAfter } : { before: page.prevBefore };
  }
  return undefined;
}

/**
 * The first event that passes filters, on the first page that is not empty.
 *
 * @param {string} api the address of the session
 * @param {Record<string, unknown>} filters
 */
export async function firstEvent(api, filters) {
  let after = 0;
  while (after !== undefined) {
    const page = await getJson(withQuery(`${api}/events`, { ...filters, after, limit: 1 }));
    if (page.events.length) return page.events[0];
    after = page.nextAfter;
  }
  return undefined;
}

function isError({ type, payload }) {
  return type === "error" || isFailure(payload.error);
}
