/** What a session or a prompt is called, in words: without the marks of Markdown. */

const LONGEST = 2_000;
const MARKS = [
  [/^\s*#{1,6}\s+/, ""],
  [/(?<!`)`([^`\n]+)`(?!`)/g, "$1"],
  [/\*\*(?=\S)([^*\n]+)\*\*/g, "$1"],
];

export function plainly(text) {
  if (text.length > LONGEST) return text;
  return MARKS.reduce((shown, [mark, word]) => shown.replace(mark, word), text);
}

/** Of a path what it ends with. */
export function lastPart(path) {
  return /[^/\\]+(?=[/\\]*$)/.exec(path)?.[0] ?? path;
}
