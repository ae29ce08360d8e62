"""Reports of usage as CSV."""

import csv
from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any

from ash_shared.model.usage.report import UsageCounts, UsageReport, UsageRow

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Spreadsheets run cells that begin with these."""

_VALUES: Mapping[str, Mapping[str, Callable[[UsageRow], Any]]] = {
    "session": {
        "session": lambda row: row.session and row.session.id,
        "title": lambda row: row.session and row.session.title,
    },
    "block": {
        "block": lambda row: row.block,
        "blockEnd": lambda row: row.window and row.window.end.isoformat(),
    },
}
"""The columns of dimensions that have several."""

_COUNTS = {field.alias or name: name for name, field in UsageCounts.model_fields.items()}
_DIFFERENCE = {"differenceUsd": "difference_usd"}
_STATED = {
    "statedCostUsd": "stated_cost_usd",
    "statedDifferenceUsd": "stated_difference_usd",
    "differenceReason": "difference_reason",
}


def to_csv(report: UsageReport) -> str:
    """Return the rows without the totals, with the names and numbers of the JSON; an unknown cost is empty.

    A text that a spreadsheet would run as a formula begins with an apostrophe.
    """
    columns: dict[str, Callable[[UsageRow], Any]] = {}
    for name in report.by:
        columns |= _VALUES.get(name) or {name: _reader(name)}
    fields = {
        **_COUNTS,
        **(_DIFFERENCE if "session" in report.by else {}),
        **(_STATED if list(report.by) == ["session"] else {}),
    }
    columns |= {column: _reader(name) for column, name in fields.items()}
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(read(row)) for read in columns.values()] for row in report.rows)
    return text.getvalue()


def _reader(name: str) -> Callable[[UsageRow], Any]:
    return lambda row: getattr(row, name)


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
