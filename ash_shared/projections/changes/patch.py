"""Write differences as patches of git."""

from collections.abc import Iterable, Iterator, Sequence

from ash_shared.model.reports.changes import SessionChanges
from ash_shared.parsing.changes import Hunk
from ash_shared.projections.changes.composing import Section

_NO_FILE = "/dev/null"


def hunk_text(hunk: Hunk) -> str:
    """Return a hunk with its header; `@@ @@` without known line numbers."""
    return "\n".join([_header(hunk), *hunk.lines, ""])


def _header(hunk: Hunk) -> str:
    if hunk.old_start is None or hunk.new_start is None:
        return "@@ @@"
    old, new = (sum(line[:1] != sign for line in hunk.lines) for sign in "+-")
    return f"@@ -{_range(hunk.old_start, old)} +{_range(hunk.new_start, new)} @@"


def _range(start: int, count: int) -> str:
    return f"{start}" if count == 1 else f"{start},{count}"


def file_patch(path: str, new_path: str | None, sections: Sequence[Section]) -> str:
    """Return the patch of a file, with a header for each section."""
    return "".join(_section_patch(path, new_path or path, section) for section in sections)


def _section_patch(path: str, new_path: str, section: Section) -> str:
    if section.is_new and section.is_deleted:
        return ""
    old, new = (_quoted(each.lstrip("/")) for each in (path, new_path))
    lines = [f"diff --git a/{old} b/{new}", *_modes(old, new, section)]
    if section.hunks:
        lines += [
            f"--- {_NO_FILE if section.is_new else f'a/{old}'}",
            f"+++ {_NO_FILE if section.is_deleted else f'b/{new}'}",
        ]
    return "\n".join([*lines, ""]) + "".join(map(hunk_text, section.hunks))


def _modes(old: str, new: str, section: Section) -> Iterator[str]:
    if section.is_new:
        yield "new file mode 100644"
    elif section.is_deleted:
        yield "deleted file mode 100644"
    elif old != new:
        yield from (f"rename from {old}", f"rename to {new}")


def _quoted(path: str) -> str:
    """Return a path without control characters, which would begin other lines of the patch."""
    return "".join(each if each.isprintable() else "\ufffd" for each in path)


def to_patch(changes: SessionChanges) -> str:
    """Return the combined differences of all files as one patch. Notes stand before the files that they concern."""
    return "".join(_notes_and_diffs(changes))


def _notes_and_diffs(changes: SessionChanges) -> Iterator[str]:
    if changes.commands:
        yield f"# Shell commands that may have changed files, which are not in this patch: {len(changes.commands)}\n"
    for file in changes.files:
        if not file.is_composed:
            yield f"# The edits of {_quoted(file.path)} do not compose; they follow in order.\n"
        yield file.diff or ""


def joined_hunks(hunks: Iterable[Hunk]) -> str:
    return "".join(map(hunk_text, hunks))
