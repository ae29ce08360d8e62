"""What became of the texts that were imported."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ash_server.transfer.importing.lines import LONGEST_LINE, Line

Outcome = Literal["new", "existing", "changed", "refused", "incomplete"]

MOST_PROBLEMS = 100
"""So many of a file are told one by one; all are counted."""


class Problem(NamedTuple):
    """A line of the file that is not in the store, or not as it reads now."""

    kind: Literal["changed", "refused"]
    line: int
    offset: int
    """In bytes: where the line begins, or the byte that cannot be stored."""
    reason: str
    file: str | None = None
    """As `Line` has it."""


@dataclass
class Tally:
    """What became of the lines of a file."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    """The first MOST_PROBLEMS of them."""

    def report(self, problem: Problem) -> None:
        self.counts[problem.kind] += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def add(self, other: "Tally") -> None:
        self.counts.update(other.counts)
        self.problems += other.problems[: MOST_PROBLEMS - len(self.problems)]


def text_of(line: Line) -> str | Problem:
    """The text of a line, or why PostgreSQL cannot keep it."""
    if line.data is None:
        return _refused(line, 0, f"longer than {LONGEST_LINE} bytes")
    if (nul := line.data.find(b"\0")) >= 0:
        return _refused(line, nul, "holds a NUL byte, which PostgreSQL cannot keep")
    try:
        return line.data.decode()
    except UnicodeDecodeError as error:
        return _refused(line, error.start, "is not valid UTF-8")


def _refused(line: Line, at: int, reason: str) -> Problem:
    return Problem("refused", line.place.number, line.place.offset + at, reason, line.file)
