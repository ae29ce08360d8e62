/** The different part of two texts. No DOM. */

/** Texts with less in common are not compared. */
const MIN_COMMON_SHARE = 0.4;
const WORD = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;

/**
 * The common beginning, the different middle and the common end of two texts; undefined if they have little in common.
 *
 * @param {string} one
 * @param {string} other
 * @returns {[before: string, one: string, other: string, after: string] | undefined}
 */
export function differentPart(one, other) {
  const [ones, others] = [one, other].map((text) => text.match(WORD) ?? []);
  const shortest = Math.min(ones.length, others.length);
  const head = countWhile(shortest, (place) => ones[place] === others[place]);
  const tail = countWhile(shortest - head, (place) => ones.at(-1 - place) === others.at(-1 - place));
  const middle = (words) => words.slice(head, words.length - tail).join("");
  const [before, after] = [ones.slice(0, head).join(""), ones.slice(ones.length - tail).join("")];
  const common = before.length + after.length;
  if (common < MIN_COMMON_SHARE * Math.max(one.length, other.length)) return undefined;
  return [before, middle(ones), middle(others), after];
}

function countWhile(max, isTrueAt) {
  let count = 0;
  while (count < max && isTrueAt(count)) count += 1;
  return count;
}
