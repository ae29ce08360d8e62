"""Pages of what lies in order: keyset both ways, bounded in number and in bytes."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ash_server.errors import InvalidParameter
from ash_shared.model.message import LAST_SEQUENCE

END = LAST_SEQUENCE + 1
"""Ahead of which everything lies."""

MOST_IN_PAGE = 32 * 1024 * 1024
"""Bytes of text: a page is not much larger, whatever its limit. Its last entry may exceed it."""

_ALLOWED = {
    "after": range(END),
    "before": range(1, END),
    "at": range(1, END),
    "message": range(1, END),
    "limit": range(1, 1001),
}


class HasContent(Protocol):
    @property
    def content(self) -> str: ...


def bounded(columns: str, page: str, order: str = "sequence") -> str:
    """These columns of a query, in this order, of as many rows as `limit` allows and cut where their `content` exceeds
    `bytes`: sizes are known without reading them. The texts are SQL of Ash's own."""
    return f"""
        SELECT {columns}
        FROM (
            SELECT *,
                sum(octet_length(content)) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING)
                    - octet_length(content) AS ahead
            FROM ({page} ORDER BY {order} LIMIT %(limit)b) AS page
        ) AS sized
        WHERE ahead < %(bytes)b::bigint
        ORDER BY {order}
    """  # noqa: S608  # no word of it comes from outside


def named(page: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for of a page, without what was left out. Raises InvalidParameter."""
    given = {name: value for name, value in page.items() if value is not None}
    for name, allowed in _ALLOWED.items():
        if name in given and given[name] not in allowed:
            raise InvalidParameter(f"{name} is {allowed.start} to {allowed.stop - 1}")
    return given


def may_go_on(found: Sequence[HasContent], limit: int, most_bytes: int = MOST_IN_PAGE) -> bool:
    """Whether more may follow a page that was asked for with these limits."""
    return len(found) == limit or sum(len(entry.content) for entry in found) * 4 >= most_bytes
