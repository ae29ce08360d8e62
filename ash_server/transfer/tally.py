"""What became of the texts that were imported."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ash_server.transfer.lines import LONGEST_LINE, Line

MOST_PROBLEMS = 100
"""So many of a file are told one by one; all are counted."""

REWRITTEN = "reads differently than when it was imported"


class Problem(NamedTuple):
    """A line of the file that is not in the store, or not as it reads now."""

    kind: Literal["changed", "refused"]
    line: int
    offset: int
    """In bytes: where the line begins, or the byte that cannot be stored."""
    reason: str
    file: str | None = None
    """The one that is meant of a session that is kept in many files."""


@dataclass
class Tally:
    """What became of the lines of a file."""

    counts: Counter[Literal["new", "existing", "changed", "refused"]] = field(default_factory=Counter)
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
    number, offset = line.place
    if line.data is None:
        return Problem("refused", number, offset, f"longer than {LONGEST_LINE} bytes")
    if (nul := line.data.find(b"\0")) >= 0:
        return Problem("refused", number, offset + nul, "holds a NUL byte, which PostgreSQL cannot keep")
    try:
        return line.data.decode()
    except UnicodeDecodeError as error:
        return Problem("refused", number, offset + error.start, "is not valid UTF-8")
