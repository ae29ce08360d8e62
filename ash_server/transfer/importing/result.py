"""Outcome of an import: counts of lines, and the problems with single lines."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ash_server.transfer.importing.lines import MAX_LINE_BYTES, FileLine

ImportOutcome = Literal["new", "existing", "changed", "refused", "incomplete", "deleted"]

MAX_PROBLEMS = 100
"""Problems listed per file; further ones are only counted."""


class LineProblem(NamedTuple):
    """A line that is not stored, or is stored with another text."""

    kind: Literal["changed", "refused"]
    line: int
    offset: int
    """In bytes: the start of the line, or the byte that cannot be stored."""
    reason: str
    file: str | None = None
    """See `FileLine.file`."""


@dataclass
class ImportResult:
    """Outcome of each line of a file or several files."""

    counts: Counter[ImportOutcome] = field(default_factory=Counter)
    problems: list[LineProblem] = field(default_factory=list)
    """The first MAX_PROBLEMS."""
    incomplete_bytes: int = 0
    """The size of a last line that is still being written."""

    def add_problem(self, problem: LineProblem) -> None:
        self.counts[problem.kind] += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def add(self, other: "ImportResult") -> None:
        self.counts.update(other.counts)
        self.incomplete_bytes += other.incomplete_bytes
        self.problems += other.problems[: MAX_PROBLEMS - len(self.problems)]


def decode_line(line: FileLine) -> str | LineProblem:
    """Return the text of a line, or the reason why PostgreSQL cannot store it."""
    if line.data is None:
        return _refused(line, 0, f"longer than {MAX_LINE_BYTES} bytes")
    if (nul := line.data.find(b"\0")) >= 0:
        return _refused(line, nul, "contains a NUL byte, which PostgreSQL cannot store")
    try:
        return line.data.decode()
    except UnicodeDecodeError as error:
        return _refused(line, error.start, "is not valid UTF-8")


def _refused(line: FileLine, position: int, reason: str) -> LineProblem:
    return LineProblem("refused", line.place.number, line.place.offset + position, reason, line.file)
