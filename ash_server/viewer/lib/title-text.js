/** Titles of sessions and prompts as plain text. */

const MAX_LENGTH = 2_000;
/** @type {[mark: RegExp, replacement: string][]} */
const MARKS = [
  [/^\s*#{1,6}\s+/, ""],
  [/(?<!`)`([^`\n]+)`(?!`)/g, "$1"],
  [/\*\*(?=\S)([^*\n]+)\*\*/g, "$1"],
];

/** Remove the Markdown of headings, code and bold text; longer texts are returned unchanged. */
export function stripMarkdown(text) {
  if (text.length > MAX_LENGTH) return text;
  return MARKS.reduce((stripped, [mark, replacement]) => stripped.replace(mark, replacement), text);
}

/** The last segment of a path. */
export function baseName(path) {
  return /[^/\\]+(?=[/\\]*$)/.exec(path)?.[0] ?? path;
}
