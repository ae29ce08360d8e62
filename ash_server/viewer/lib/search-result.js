/** Search queries and results of the search API. */
import { button, el } from "./dom.js";
import { markHidden } from "./hidden-characters.js";

/** Time after which a search is repeated while there are events that cannot be searched yet. */
export const PENDING_MS = 1000;

/** True if the query contains a word to search for; punctuation and excluded words do not count. */
export function hasSearchWord(q) {
  return q.split(" ").some((term) => !/^(-|or$)/i.test(term) && /[\p{L}\p{N}]/u.test(term));
}

/** The permalink place of a result. Posted events have no message, so their event sequence is used. */
export function hitPlace({ eventId, sequence, eventSequence }) {
  return sequence === undefined ? { id: eventId, at: eventSequence } : { id: eventId, message: sequence };
}

/** The snippet with its marks, which are pairs of offsets. */
export function markedSnippet({ snippet, marks }) {
  const parts = [];
  let offset = 0;
  for (const [begin, end] of marks) {
    parts.push(...markHidden(snippet.slice(offset, begin)), el("mark", {}, ...markHidden(snippet.slice(begin, end))));
    offset = end;
  }
  return [...parts, ...markHidden(snippet.slice(offset))];
}

/**
 * The queries that the server suggests for one without hits; undefined if there are none.
 *
 * @param {string[] | undefined} queries
 * @param {(query: string) => any} search
 */
export function suggestedQueries(queries, search) {
  if (!queries?.length) return undefined;
  const buttons = queries.flatMap((query) => [" ", button({ class: "action" }, query, () => search(query))]);
  return el("p", { class: "suggestions", dir: "auto" }, "Did you mean", ...buttons);
}
