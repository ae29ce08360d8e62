"""Find out which edits wrote the lines of a file or of a commit, by content."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ash_shared.model.reports.changes import FileEdit, SessionChanges
from ash_shared.parsing.changes import FileChange
from ash_shared.parsing.changes.line_diff import lines_of
from ash_shared.parsing.changes.patches import read_hunks

MAX_PLACES = 1000
"""Equal lines of a file that a written line is compared with."""
MAX_LINES_WITH_PARTS = 10_000
"""In longer files, only whole written lines are found."""
_MIN_LETTERS, _MIN_LENGTH = 4, 8
_COMMON = re.compile(r"\s*(?:#include|#!|from|import|include|module|package|require|use|using)\b")
"""Beginnings of lines that files of many repositories have."""
MIN_LINES = 5
"""Distinctive lines of a commit that a session must have written, unless its paths name the repository."""
MIN_SHARE = 0.3
"""… and their share of all distinctive lines of the commit."""


class Author(NamedTuple):
    """The edit that wrote a line."""

    session_id: str
    turn: int
    prompt: str | None
    edit: FileEdit
    path: str
    """As the record states it."""


class WrittenLine(NamedTuple):
    """A line that an edit added, with its neighbours in the edit; None at the ends of a hunk."""

    text: str
    before: str | None
    after: str | None
    is_part: bool
    """True if the edit may have written a part of the line only."""
    author: Author


class Writer(NamedTuple):
    """A session that wrote lines of a commit."""

    session_id: str
    lines: int
    """Distinctive lines of the commit that the session wrote before it."""
    authors: tuple[Author, ...]
    """The edits with these lines, newest first."""


def is_distinctive(line: str) -> bool:
    """True for a line that hardly occurs by chance."""
    text = line.strip()
    return len(text) >= _MIN_LENGTH and sum(map(str.isalnum, text)) >= _MIN_LETTERS


def is_same_file(stated: str, path: str) -> bool:
    """True if two paths may be the same file: equal, or with the same last two segments, or all segments of one."""
    one, two = (list(filter(None, each.replace("\\", "/").split("/"))) for each in (stated, path))
    length = min(len(one), len(two), 2)
    return length > 0 and one[-length:] == two[-length:]


def written_lines(changes: SessionChanges, path: str) -> Iterator[WrittenLine]:
    """Yield the lines that a session wrote into a file, in the order of its edits."""
    prompts = {turn.turn: turn.prompt for turn in changes.turns}
    for file in changes.files:
        if not any(is_same_file(name, path) for name in (file.path, file.new_path) if name is not None):
            continue
        for edit in file.edits:
            if edit.outcome == "ok" and edit.diff is not None:
                author = Author(changes.session_id, edit.turn, prompts.get(edit.turn), edit, file.path)
                yield from _lines_of_edit(edit.diff, author)


def _lines_of_edit(diff: str, author: Author) -> Iterator[WrittenLine]:
    for hunk in read_hunks(diff):
        new = [line for line in hunk.lines if line[0] != "-"]
        ends = (0, len(new) - 1) if hunk.new_start is None else ()
        for index, line in enumerate(new):
            if line[0] == "+":
                before = new[index - 1][1:] if index else None
                after = new[index + 1][1:] if index + 1 < len(new) else None
                yield WrittenLine(line[1:].rstrip("\r"), before, after, index in ends, author)


def blame_lines(text: str, written: Iterable[WrittenLine]) -> list[list[Author]]:
    """Return the edits that wrote each line of a text, newest first; no edits for lines that no edit contains.

    A line that occurs often, such as a bracket, needs an equal neighbour.
    """
    lines = [line.rstrip("\r") for line in lines_of(text)]
    places: defaultdict[str, list[int]] = defaultdict(list)
    for index, line in enumerate(lines):
        places[line].append(index)
    authors: list[dict[tuple[str, int, str], Author]] = [{} for _ in lines]
    for each in written:
        key = (each.author.session_id, each.author.edit.sequence, each.author.path)
        for index in _places_of(each, lines, places):
            authors[index][key] = each.author
    return [sorted(found.values(), key=_age) for found in authors]


def _age(author: Author) -> tuple[float, int]:
    at = author.edit.at
    return (-at.timestamp() if at is not None else 0.0, -author.edit.sequence)


def _places_of(written: WrittenLine, lines: Sequence[str], places: Mapping[str, list[int]]) -> list[int]:
    equal = places.get(written.text, [])[:MAX_PLACES]
    if len(equal) == 1 and is_distinctive(written.text):
        return equal
    if equal:
        return [index for index in equal if _has_equal_neighbour(written, lines, index)]
    if not (written.is_part and is_distinctive(written.text) and len(lines) <= MAX_LINES_WITH_PARTS):
        return []
    containing = [index for index, line in enumerate(lines) if written.text.strip() in line]
    return containing if len(containing) == 1 else []


def _has_equal_neighbour(written: WrittenLine, lines: Sequence[str], index: int) -> bool:
    before = lines[index - 1] if index else None
    after = lines[index + 1] if index + 1 < len(lines) else None
    equal = [one for one, two in ((written.before, before), (written.after, after)) if one == two]
    return len(equal) == 2 or any(each is not None and is_distinctive(each) for each in equal)


def writer_of_commit(
    commit: Sequence[FileChange], at: datetime, changes: SessionChanges, repository: str
) -> Writer | None:
    """Return how many lines of a commit a session wrote before it; None for too few to tell.

    `repository` is the name of its folder. If the path of an edit names it, a single distinctive line is enough;
    otherwise `MIN_LINES` and `MIN_SHARE` apply, because other repositories have similar files.
    """
    added = {change.path: _distinctive_lines(change) for change in commit}
    total = sum(map(len, added.values()))
    found: dict[tuple[str, str], Author] = {}
    for path, lines in added.items():
        for each in written_lines(changes, path):
            is_before = each.author.edit.at is None or each.author.edit.at <= at
            if is_before and each.text in lines:
                found[path, each.text] = each.author
    is_named = any(_names_repository(author.path, path, repository) for (path, _), author in found.items())
    is_enough = len(found) >= MIN_LINES and len(found) >= MIN_SHARE * total
    if not found or not (is_named or is_enough):
        return None
    edits = {author.edit.sequence: author for author in found.values()}
    return Writer(changes.session_id, len(found), tuple(sorted(edits.values(), key=_age)))


def _distinctive_lines(change: FileChange) -> set[str]:
    added = (line[1:].rstrip("\r") for hunk in change.hunks for line in hunk.lines if line[0] == "+")
    return {line for line in added if is_distinctive(line) and not _COMMON.match(line)}


def count_distinctive_lines(commit: Iterable[FileChange]) -> int:
    return sum(len(_distinctive_lines(change)) for change in commit)


def _names_repository(stated: str, path: str, repository: str) -> bool:
    """True if a stated path ends with the folder of the repository and the path in it."""
    return bool(repository) and f"/{stated.lstrip('/')}".endswith(f"/{repository}/{path}")
