// Patches as text: unified diffs, with or without the headings of git, and what `apply_patch` takes. Models
// write them by hand, so that numbers may be wrong and lines astray: what is in no hunk is kept as a note.

const ROW = /^(?:[-+ ]|$)/;
const AFTER_HUNK = /^(?:--- |\+\+\+ |-- $|$)/;
const KINDS = { "+": "added", "-": "removed" };

const HEADINGS = [
  [/^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/, (reader, [, ...numbers]) => reader.hunk(...numbers)],
  [/^@@ ?(.*)$/, (reader, [, section]) => reader.place(section)],
  [/^\*\*\* Update File: (.*)$/, (reader, [, path]) => reader.file(path).place("")],
  [
    /^\*\*\* (Add|Delete) File: (.*)$/,
    (reader, [, verb, path]) => reader.file(path).note(CHANGES[verb]).place(""),
  ],
  [/^\*\*\* Move to: (.*)$/, (reader, [line]) => reader.note(line.slice(4)).place("")],
  [/^\*\*\* (?:Begin|End) (?:Patch|of File)$/, (reader) => reader.close()],
  [/^diff --git (?:.* )?b\/(.*)$/, (reader, [, path]) => reader.file(path)],
  [/^--- (.*)$/, (reader, [, path]) => reader.before(nameOf(path))],
  [/^\+\+\+ (.*)$/, (reader, [, path]) => reader.after(nameOf(path))],
];

const CHANGES = { Add: "New file", Delete: "Deleted file" };

/** The files of a patch: `{path, rows}`. */
export function filesOf(patch, path) {
  const lines = patch.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const reader = new Reader(path);
  lines.forEach((line) => reader.read(line));
  return reader.files;
}

/** The rows of hunks as objects: `{oldStart, newStart, lines}`, where each line begins with its sign. */
export function rowsOfHunks(hunks) {
  const reader = new Reader();
  for (const { oldStart, newStart, lines } of hunks) {
    reader.hunk(oldStart, lines.length, newStart, lines.length, "");
    lines.forEach((line) => reader.read(line));
  }
  return reader.files.flatMap(({ rows }) => rows);
}

class Reader {
  files = [];
  #path;
  #hunk = null; // {old, fresh}: the next numbers; {oldLeft, freshLeft}: the lines that were promised

  constructor(path) {
    this.#path = path;
  }

  read(line) {
    if (this.#hunk && ROW.test(line) && !(this.#isRead() && AFTER_HUNK.test(line))) return this.#row(line);
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
    const [first, second] = [Number(old), Number(fresh)];
    this.#jump(section);
    this.#hunk = { old: first, oldLeft: Number(oldLeft), fresh: second, freshLeft: Number(freshLeft) };
  }

  /** A hunk whose lines have no numbers. */
  place(section) {
    this.#jump(section);
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
    return this.files.at(-1);
  }

  get #hasLines() {
    return this.#file.rows.some(({ kind }) => kind !== "note");
  }

  #jump(section) {
    if (section || this.#hasLines) this.note(`… ${section}`.trim());
  }

  #isRead() {
    return this.#hunk.oldLeft <= 0 && this.#hunk.freshLeft <= 0;
  }

  #row(line) {
    const kind = KINDS[line[0]] ?? "kept";
    this.#file.rows.push({
      kind,
      text: line.slice(1),
      old: kind === "added" ? undefined : this.#next("old"),
      fresh: kind === "removed" ? undefined : this.#next("fresh"),
    });
  }

  #next(side) {
    this.#hunk[`${side}Left`] -= 1;
    return this.#hunk[side] === undefined ? undefined : this.#hunk[side]++;
  }
}

function nameOf(path) {
  const name = path.replace(/\t.*$/, "");
  return name === "/dev/null" ? null : name.replace(/^[ab]\//, "");
}
