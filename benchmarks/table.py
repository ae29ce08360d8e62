"""Tables as text for the terminal and for RESULTS.md."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple


class Row(NamedTuple):
    """A measured value and its goal."""

    goal: str
    """P1 to P18."""
    what: str
    ratio: float | None
    """The measured value in `unit`; None if it could not be measured (see the note)."""
    floor: float | None = None
    aim: float | None = None
    bound: Literal[">=", "<="] = ">="
    """`>=` for speeds, `<=` for times."""
    note: str = ""
    unit: str = "x"

    @property
    def missed(self) -> bool:
        if self.ratio is None or self.floor is None:
            return False
        return self.ratio < self.floor if self.bound == ">=" else self.ratio > self.floor


class Details(NamedTuple):
    """An additional table."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


_HEADINGS = ("goal", "what", "floor", "measured", "result", "note")


def goals(rows: Iterable[Row]) -> str:
    return table(_HEADINGS, [_cells(row) for row in rows])


def details(extra: Details) -> str:
    return f"{extra.title}\n\n{table(extra.headings, extra.rows)}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned Markdown table."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = [headings, ["-" * width for width in widths], *rows]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def factor(ratio: float) -> str:
    return f"{ratio:.2f}x"


def share(part: float) -> str:
    return f"{part:.1%}"


def _cells(row: Row) -> tuple[str, ...]:
    floor = "" if row.floor is None else f"{_SIGNS[row.bound]} {row.floor:g}{row.unit}"
    aim = f" (aim {row.aim:g}x)" if row.aim else ""
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}{row.unit}"
    return (row.goal, row.what, floor + aim, ratio, _result(row), row.note)


_SIGNS = {">=": "≥", "<=": "≤"}


def _result(row: Row) -> str:
    if row.ratio is None:
        return "not measured"
    if row.floor is None:
        return ""
    if row.missed:
        return f"missed by {abs(row.ratio / row.floor - 1):.1%}" if row.floor else "missed"
    return "aim met" if row.aim and row.ratio >= row.aim else "met"
