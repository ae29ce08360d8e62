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

export function oneLine(text) {
  return (text ?? "").replace(/\s+/g, " ").trim();
}

/** True if a title is the beginning of a prompt. Truncated titles end with an ellipsis. */
export function isBeginningOf(title, prompt) {
  return oneLine(prompt).startsWith(oneLine(title).replace(/\s*(…|\.\.\.)$/, ""));
}

/**
 * The name of a session without a title, from the path of its transcript: the file without its suffix, and the project.
 * Claude Code and Cursor name the folder of a project's transcripts after the path of the project. In other folders of
 * CLIs, the path does not name the project. All transcripts of Copilot CLI are called `events.jsonl`, in a folder named
 * after the session. The same as `transcript_name` in ash_shared/model/session.py.
 */
export function transcriptName(path) {
  const segments = path.split(/[/\\]+/).filter(Boolean);
  const [folder, project] = segments;
  if (folder === "session-state" && segments.slice(2).join("/") === "events.jsonl") return project;
  const file = segments.at(-1)?.replace(SUFFIX, "") || path;
  const isAbsolute = /^([/\\]|[A-Za-z]:[/\\])/.test(path);
  const named = isAbsolute ? segments.at(-2) : folder === "projects" && segments.length > 2 && project;
  return [file, named && named.replace(/^-+/, "")].filter(Boolean).join(" · ");
}

const SUFFIX = /(?<=.)\.jsonl?(\.zst)?$/;
