/** What is searched for, and what is found: where it is in its session, and the text around it. */
import { el } from "./dom.js";

/** Whether there is anything to look for: signs alone, and what is only excluded, are no words. */
export function hasWord(q) {
  return q.split(" ").some((term) => !/^(-|or$)/i.test(term) && /[\p{L}\p{N}]/u.test(term));
}

/** Of what was posted there is no message. */
export function placeOf({ eventId, sequence, eventSequence }) {
  return sequence === undefined ? { id: eventId, at: eventSequence } : { id: eventId, message: sequence };
}

/** The text with its marks, which are pairs of places in it. */
export function marked({ snippet, marks }) {
  const parts = [];
  let at = 0;
  for (const [begin, end] of marks) {
    parts.push(snippet.slice(at, begin), el("mark", {}, snippet.slice(begin, end)));
    at = end;
  }
  return [...parts, snippet.slice(at)];
}
