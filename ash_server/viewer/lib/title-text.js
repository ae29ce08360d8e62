/** Titles of sessions and prompts as plain text. */

const MAX_LENGTH = 2_000;
/** @type {[mark: RegExp, replacement: string][]} */
const MARKS = [
  [/^\s*Implement the following plan:\s*(?=\S)/, ""],
  [/^\s*#{1,6}\s+/, ""],
  [/(?<=\S)\s+#{2,6}\s+/g, " · "],
  [/(?<!`)`([^`\n]+)`(?!`)/g, "$1"],
  [/\*\*(?=\S)([^*\n]+)\*\*/g, "$1"],
  [/(?<=^|[\s("'“‘])\*(?=[\p{L}\p{N}])([^*\n]*[\p{L}\p{N}.!?])\*(?![\p{L}\p{N}*/])/gu, "$1"],
];

/**
 * Remove the Markdown of headings, code, bold and emphasised text, and the sentence before a plan that is used as a prompt;
 * longer texts are returned unchanged.
 */
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

/**
 * The external id of a session if it is a name that a person chose, such as `fix-3` of `ash ingest --session fix-3`.
 * Paths, files and random ids are none.
 *
 * @param {{externalId?: string, metadata?: {sessionId?: unknown}}} session
 */
export function chosenName({ externalId = "", metadata }) {
  const isChosen = externalId !== metadata?.sessionId && !NOT_CHOSEN.some((form) => form.test(externalId));
  return isChosen ? oneLine(externalId) : "";
}

/** Paths and files, UUIDs, other random ids, and times. */
const NOT_CHOSEN = [
  /[/\\]|\.(jsonl?|db|sqlite)(\.zst)?$/i,
  /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-/i,
  /(?=[a-z_]*\d)(?=[\d_]*[a-z])[0-9a-z]{16,}/i,
  /^\d{10,}$/,
];

const SUFFIX = /(?<=.)\.jsonl?(\.zst)?$/;
