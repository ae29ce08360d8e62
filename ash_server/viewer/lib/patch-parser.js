// Parses patches: unified diffs, with or without git headings, and the format of `apply_patch`. Models write them by
// hand, so numbers may be wrong and lines misplaced: a line outside any hunk is kept as a note.

const ROW = /^(?:[-+ ]|$)/;
const AFTER_HUNK = /^(?:--- |\+\+\+ |-- $|$)/;
const KINDS = { "+": "added", "-": "removed" };

/** @typedef {{path?: string, rows: import("./diff-view.js").Row[]}} PatchFile */

/** @type {[pattern: RegExp, act: (reader: PatchReader, match: any) => any][]} */
const HEADINGS = [
  [/^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/, (reader, [, ...numbers]) => reader.hunk(...numbers)],
  [/^@@ ?(.*)$/, (reader, [, section]) => reader.unnumberedHunk(section)],
  [/^\*\*\* Update File: (.*)$/, (reader, [, path]) => reader.file(path).unnumberedHunk("")],
  [
    /^\*\*\* (Add|Delete) File: (.*)$/,
    (reader, [, verb, path]) => reader.file(path).note(CHANGES[verb]).unnumberedHunk(""),
  ],
  [/^\*\*\* Move to: (.*)$/, (reader, [line]) => reader.note(line.slice(4)).unnumberedHunk("")],
  [/^\*\*\* (?:Begin|End) (?:Patch|of File)$/, (reader) => reader.close()],
  [/^diff --git (?:.* )?b\/(.*)$/, (reader, [, path]) => reader.file(path)],
  [/^--- (.*)$/, (reader, [, path]) => reader.before(nameOf(path))],
  [/^\+\+\+ (.*)$/, (reader, [, path]) => reader.after(nameOf(path))],
];

const CHANGES = { Add: "New file", Delete: "Deleted file" };

/**
 * The files of a patch.
 *
 * @param {string} patch
 * @param {string} [path] for a hunk that names no file
 */
export function parsePatch(patch, path) {
  const lines = patch.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const reader = new PatchReader(path);
  lines.forEach((line) => reader.read(line));
  return reader.files;
}

/** The rows of hunks with lines that begin with their sign. */
export function parseHunks(hunks) {
  const reader = new PatchReader();
  for (const { oldStart, newStart, lines } of hunks) {
    reader.hunk(oldStart, lines.length, newStart, lines.length, "");
    lines.forEach((line) => reader.read(line));
  }
  return reader.files.flatMap(({ rows }) => rows);
}

class PatchReader {
  /** @type {PatchFile[]} */
  files = [];
  #path;
  /**
   * The next line numbers, and the lines left according to the hunk header.
   *
   * @type {{old?: number, fresh?: number, oldLeft: number, freshLeft: number} | null}
   */
  #hunk = null;

  /** @param {string} [path] */
  constructor(path) {
    this.#path = path;
  }

  read(line) {
    const isRow = ROW.test(line) && !(this.#isComplete() && AFTER_HUNK.test(line));
    if (this.#hunk && isRow) return this.#row(this.#hunk, line);
    const heading = line.trimEnd();
    for (const [pattern, act] of HEADINGS) {
      const match = heading.match(pattern);
      if (match) return act(this, match);
    }
    return heading && this.note(line);
  }

  file(path) {
    this.files.push({ path, rows: [] });
    this.#hunk = null;
    return this;
  }

  before(path) {
    if (!this.files.length || this.#hasLines) this.file(undefined);
    this.#hunk = null;
    if (path === null) this.note("New file");
    else this.#file.path ??= path;
  }

  after(path) {
    if (path === null) this.note("Deleted file");
    else this.#file.path = path;
  }

  hunk(old, oldLeft = 1, fresh, freshLeft = 1, section) {
    this.#separate(section);
    this.#hunk = {
      old: Number(old),
      oldLeft: Number(oldLeft),
      fresh: Number(fresh),
      freshLeft: Number(freshLeft),
    };
  }

  /** Begin a hunk without line numbers. */
  unnumberedHunk(section) {
    this.#separate(section);
    this.#hunk = { oldLeft: Infinity, freshLeft: Infinity };
    return this;
  }

  note(text) {
    this.#file.rows.push({ kind: "note", text });
    return this;
  }

  close() {
    this.#hunk = null;
  }

  get #file() {
    if (!this.files.length) this.file(this.#path);
    return this.files[this.files.length - 1];
  }

  get #hasLines() {
    return this.#file.rows.some(({ kind }) => kind !== "note");
  }

  #separate(section) {
    if (section || this.#hasLines) this.note(`… ${section}`.trim());
  }

  /** True if all lines announced by the hunk header were read. */
  #isComplete() {
    return this.#hunk !== null && this.#hunk.oldLeft <= 0 && this.#hunk.freshLeft <= 0;
  }

  #row(hunk, line) {
    const kind = KINDS[line[0]] ?? "kept";
    this.#file.rows.push({
      kind,
      text: line.slice(1),
      old: kind === "added" ? undefined : nextLineNumber(hunk, "old"),
      fresh: kind === "removed" ? undefined : nextLineNumber(hunk, "fresh"),
    });
  }
}

function nextLineNumber(hunk, side) {
  hunk[`${side}Left`] -= 1;
  return hunk[side] === undefined ? undefined : hunk[side]++;
}

function nameOf(path) {
  const name = path.replace(/\t.*$/, "");
  return name === "/dev/null" ? null : name.replace(/^[ab]\//, "");
}
