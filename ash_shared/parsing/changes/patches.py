"""Read patches: unified diffs, with or without headings of git, the format of `apply_patch`, blocks of SEARCH and
REPLACE. Models write them by hand, so numbers may be wrong."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat

from ash_shared.parsing.changes.hunks import Action, FileChange, Hunk
from ash_shared.parsing.changes.line_diff import MAX_COMPARED, MAX_EDITS, diff_lines, lines_of

_IS_PATCH = re.compile(r"^(?:@@|\*\*\* (?:Begin|Add|Update|Delete) |[-+]{3} |diff --)", re.MULTILINE)
_NUMBERS = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ROW = re.compile(r"[-+ ]|$")
_AFTER_HUNK = re.compile(r"--- |\+\+\+ |-- $|$")
_NO_FILE = ("/dev/null", "dev/null")
"""The second one with a prefix, as Copilot CLI writes it."""


def is_patch(text: str) -> bool:
    """True for a patch. Tools also put whole files into fields for patches."""
    return _IS_PATCH.search(text) is not None


def read_patch(text: str, path: str | None = None) -> list[FileChange]:
    """Return the changes of a patch; `path` is the file of hunks without a heading."""
    reader = _PatchReader(path)
    for line in lines_of(text):
        reader.read(line)
    return [file.change(file.path) for file in reader.files if file.path is not None and file.is_changed]


def read_hunks(text: str) -> tuple[Hunk, ...]:
    """Return all hunks of a patch for a single file."""
    return tuple(hunk for change in read_patch(text, "file") for hunk in change.hunks)


def signed_lines(text: str, after: str | None = None) -> tuple[Hunk, ...]:
    """Return a text as one hunk if each line begins with its sign; otherwise nothing.

    Cursor may write a space after each sign; `after` is the file after the change, which tells.
    """
    lines = lines_of(text)
    if not lines or not all(_ROW.match(line) for line in lines):
        return ()
    if after is not None and not _has_added(after, lines) and all(line[1:2] in ("", " ") for line in lines):
        lines = [line[:1] + line[2:] for line in lines]
    return (Hunk(None, None, tuple(line or " " for line in lines)),)


def _has_added(after: str, lines: list[str]) -> bool:
    known = set(lines_of(after))
    return all(line[1:] in known for line in lines if line[:1] == "+")


_BLOCK_MARKS = (
    ("search", re.compile(r"[-<]{5,9} ?(?:SEARCH>?|ORIGINAL)\s*$")),
    ("replace", re.compile(r"={5,9}\s*$")),
    ("", re.compile(r"[+>]{5,9} ?(?:REPLACE>?|UPDATED)\s*$")),
)
_BLOCK_NOTES = re.compile(r":(?:start|end)_line:.*$|-{5,9}\s*$")
_FIRST_MARK = re.compile(r"\s*[-<]{5,9} ?(?:SEARCH>?|ORIGINAL)\s*$", re.MULTILINE)


def has_blocks(text: str) -> bool:
    """True for a text with blocks of SEARCH and REPLACE, or of ORIGINAL and UPDATED."""
    return ("SEARCH" in text and "REPLACE" in text) or ("< ORIGINAL" in text and "> UPDATED" in text)


def is_block(text: str) -> bool:
    """True for a text that begins with such a block. The lines of a block may look like a patch."""
    return _FIRST_MARK.match(text) is not None and has_blocks(text)


_FILE_HEADING = re.compile(r"^=== PATH: (.+?) ===$", re.MULTILINE)
_ANY_FIRST_MARK = re.compile(r"^(?=<<<<<<< ORIGINAL$)", re.MULTILINE)


def split_blocks(text: str, paths: list[str]) -> list[tuple[str, str]]:
    """Return the blocks of gptme's `patch_many` by file: below headings, or else one for each path."""
    sections = _FILE_HEADING.split(text)
    if len(sections) > 1:
        return [*zip(sections[1::2], sections[2::2], strict=True)]
    return [*zip(paths, _ANY_FIRST_MARK.split(text)[1:], strict=False)]


def read_blocks(text: str) -> tuple[Hunk, ...]:
    """Return the hunks of blocks, as in the tools of Cline, Mistral Vibe and gptme."""
    limits = chain(repeat(MAX_EDITS, MAX_COMPARED), repeat(0))
    return tuple(
        Hunk(None, None, tuple(diff_lines(old, new, limit)))
        for (old, new), limit in zip(_blocks(lines_of(text)), limits, strict=False)
        if old != new
    )


def _blocks(lines: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    part, texts = "", {"search": list[str](), "replace": list[str]()}
    expected = 0
    for line in lines:
        following, mark = _BLOCK_MARKS[expected]
        if mark.match(line):
            part, expected = following, (expected + 1) % len(_BLOCK_MARKS)
            if not part:
                yield texts["search"], texts["replace"]
                texts = {"search": [], "replace": []}
        elif part and not (part == "search" and not texts["search"] and _BLOCK_NOTES.match(line)):
            texts[part].append(line)


@dataclass(slots=True)
class _OpenHunk:
    old_start: int | None
    new_start: int | None
    old_left: float
    new_left: float
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _File:
    path: str | None
    action: Action = "edit"
    new_path: str | None = None
    hunks: list[_OpenHunk] = field(default_factory=list)
    is_headed: bool = False

    @property
    def is_changed(self) -> bool:
        return self.action != "edit" or self.new_path is not None or any(map(_rows, self.hunks))

    def change(self, path: str) -> FileChange:
        rows = ((hunk, _rows(hunk)) for hunk in self.hunks)
        hunks = tuple(Hunk(hunk.old_start, hunk.new_start, lines) for hunk, lines in rows if lines)
        action = "move" if self.new_path is not None and not hunks else self.action
        if action == "write" and len(hunks) == 1:
            hunks = (Hunk(0, 1, hunks[0].lines),)
        return FileChange(path, action, hunks, self.new_path, action == "delete" and not hunks)


class _PatchReader:
    def __init__(self, path: str | None) -> None:
        self.files: list[_File] = []
        self._path = path
        self._hunk: _OpenHunk | None = None

    def read(self, line: str) -> None:
        hunk = self._hunk
        if hunk is not None and _ROW.match(line) and not (_is_complete(hunk) and _AFTER_HUNK.match(line)):
            _add_row(hunk, line)
        elif not line.startswith("\\"):
            self._read_heading(line.rstrip())

    def _read_heading(self, line: str) -> None:
        for start, read in _HEADINGS:
            if line.startswith(start):
                read(self, line[len(start) :])
                return

    def hunk(self, rest: str) -> None:
        match = _NUMBERS.match(f"@@{rest}")
        if match is None:
            self._open_hunk(_OpenHunk(None, None, float("inf"), float("inf")))
            return
        old_start, old_count, new_start, new_count = match.groups(default="1")
        self._open_hunk(_OpenHunk(int(old_start), int(new_start), int(old_count), int(new_count)))

    def _open_hunk(self, hunk: _OpenHunk) -> None:
        self._file().hunks.append(hunk)
        self._hunk = hunk

    def patched(self, action: Action, path: str) -> None:
        """Begin a file of `apply_patch`; its hunks need no heading."""
        self._start(path, action)
        self.hunk("")

    def git(self, rest: str) -> None:
        path = rest.rpartition(" b/")[2]
        self._start(path or None, "edit")

    def act(self, action: Action) -> None:
        self._file().action = action

    def moved_from(self, path: str) -> None:
        self._file().path = path

    def moved_to(self, path: str) -> None:
        self._file().new_path = path

    def patch_moved_to(self, path: str) -> None:
        self.moved_to(path.strip())
        self.hunk("")

    def before(self, name: str) -> None:
        if not self.files or self.files[-1].is_headed or self.files[-1].hunks:
            self._start(None, "edit")
        self._hunk = None
        file, path = self._file(), _path_of(name, "a/")
        file.is_headed = True
        if path in _NO_FILE:
            file.action = "write"
        elif file.path is None:
            file.path = path

    def after(self, name: str) -> None:
        file, path = self._file(), _path_of(name, "b/")
        if path in _NO_FILE:
            file.action = "delete"
        elif file.new_path is None:
            file.path = path

    def close(self, _rest: str) -> None:
        self._hunk = None

    def _start(self, path: str | None, action: Action) -> None:
        self.files.append(_File(path, action))
        self._hunk = None

    def _file(self) -> _File:
        if not self.files:
            self._start(self._path, "edit")
        return self.files[-1]


_HEADINGS: tuple[tuple[str, Callable[[_PatchReader, str], None]], ...] = (
    ("@@", _PatchReader.hunk),
    ("*** Add File: ", lambda reader, path: reader.patched("write", path)),
    ("*** Delete File: ", lambda reader, path: reader.patched("delete", path)),
    ("*** Update File: ", lambda reader, path: reader.patched("edit", path)),
    ("*** Move to: ", _PatchReader.patch_moved_to),
    ("*** ", _PatchReader.close),
    ("diff --git ", _PatchReader.git),
    ("create file mode", lambda reader, _: reader.act("write")),
    ("new file mode", lambda reader, _: reader.act("write")),
    ("deleted file mode", lambda reader, _: reader.act("delete")),
    ("rename from ", _PatchReader.moved_from),
    ("rename to ", _PatchReader.moved_to),
    ("--- ", _PatchReader.before),
    ("+++ ", _PatchReader.after),
)


def _is_complete(hunk: _OpenHunk) -> bool:
    return hunk.old_left <= 0 and hunk.new_left <= 0


def _add_row(hunk: _OpenHunk, line: str) -> None:
    hunk.old_left -= line[:1] != "+"
    hunk.new_left -= line[:1] != "-"
    hunk.lines.append(line)


def _rows(hunk: _OpenHunk) -> tuple[str, ...]:
    """Return the lines of a hunk; an empty one is context, except at the end."""
    end = len(hunk.lines)
    while end and hunk.lines[end - 1] == "":
        end -= 1
    return tuple(line or " " for line in hunk.lines[:end])


def _path_of(name: str, prefix: str) -> str:
    return name.partition("\t")[0].removeprefix(prefix)
