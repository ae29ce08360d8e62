"""Queries that messages and events have in common: a lookup by ids, and pages.

Pages are read by sequence in both directions, bounded by number of rows and by bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ash_server.errors import InvalidParameter
from ash_server.offload import HasContent
from ash_server.store.statements import Sql, statements
from ash_shared.model.message import LAST_SEQUENCE

SQL = statements(__file__)

END = LAST_SEQUENCE + 1
"""A sequence after every entry."""

MAX_PAGE_BYTES = 32 * 1024 * 1024
"""A page ends with the entry that exceeds this many bytes of text, regardless of `limit`."""

_RANGES = {
    "after": range(END),
    "before": range(1, END),
    "at": range(1, END),
    "message": range(1, END),
    "limit": range(1, 1001),
}


def bounded_query(
    columns: str, page: str, order: str = "sequence", size: str = "octet_length(entry.content)"
) -> Sql:
    """Return SQL for the first `limit` rows of a query, up to the row that makes the sum of `size` exceed `bytes`.

    Sizes are summed without reading the contents. The arguments are constant SQL for a row named `entry`; `columns`
    are computed only for the rows of the result.
    """
    parts = {"columns": columns, "page": page, "order": order, "size": size}
    return SQL.bounded_page.fill(**{name: Sql(part) for name, part in parts.items()})


def stored_query(table: str, id: str, content: str = "content") -> Sql:
    """Return `find_stored` for a table and its columns."""
    return SQL.find_stored.fill(table=Sql(table), id=Sql(id), content=Sql(content))


def check_options(page: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not None. Raises InvalidParameter for one out of range."""
    options = {name: value for name, value in page.items() if value is not None}
    for name, allowed in _RANGES.items():
        if name in options and options[name] not in allowed:
            raise InvalidParameter(f"{name} must be {allowed.start} to {allowed.stop - 1}")
    return options


class Bounds(NamedTuple):
    """The rows that a page with filters reads, from a session of any length."""

    after: int
    before: int
    next_after: int | None
    """Where the next page begins if this one is not full; None after the last row."""
    prev_before: int | None

    def cursors(self) -> dict[str, int]:
        """Return the cursors of a page that is not full, by their names in the API."""
        cursors = {"nextAfter": self.next_after, "prevBefore": self.prev_before}
        return {name: cursor for name, cursor in cursors.items() if cursor is not None}


def bound(after: int, before: int | None, last: int, most: int) -> Bounds:
    """Return bounds of `most` rows of a session with this last sequence, backwards from `before` if it is not None."""
    if before is None:
        end = min(after + most, max(last, after))
        return Bounds(after, end + 1, end if end < last else None, None)
    start = max(after, min(before, last + 1) - 1 - most)
    return Bounds(start, before, None, start + 1 if start > after else None)


def may_have_more(page: Sequence[HasContent], limit: int, max_bytes: int = MAX_PAGE_BYTES) -> bool:
    """True if more rows may follow a page that was read with these limits."""
    return len(page) == limit or sum(len(entry.content) for entry in page) * 4 >= max_bytes
