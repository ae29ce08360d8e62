"""The goals that a run missed, with the reasons."""

from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.table import Details, Row


class _Reason(NamedTuple):
    goal: str
    what: str
    """The beginning of the row's `what`."""
    reason: str


_REASONS: tuple[_Reason, ...] = (
    _Reason(
        "P10",
        "pages of",
        "PostgreSQL decompresses the texts of the messages. Events stored whole are faster than they were, since pages "
        "are joined as bytes: the pages take 1.0 to 1.1 times the CPU of those before events referred to texts.",
    ),
    _Reason(
        "P7",
        "session of 200 B rows",
        "The event loop wakes up for every 8 KB that PostgreSQL sends, a quarter of the CPU; COPY is read without one. "
        "The rest is objects, and the sum of sizes by which a page ends.",
    ),
)


def missed_goals(rows: Iterable[Row]) -> Details:
    cells = [(row.goal, row.what, _reason(row)) for row in rows if row.missed]
    return Details("Missed goals", ("goal", "what", "reason"), cells)


def _reason(row: Row) -> str:
    reasons = (each.reason for each in _REASONS if each.goal == row.goal and row.what.startswith(each.what))
    return next(reasons, "not known")
