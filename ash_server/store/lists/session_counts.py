"""Counts of sessions by the values of filters.

An index finds the latest sessions, and only these are counted: the cost does not depend on the size of the store.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypedDict, Unpack
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.redaction import redact
from ash_server.store import session_rows
from ash_server.store.lists.session_lists import (
    Archived,
    Several,
    all_of,
    find_conditions,
    read_latest,
)
from ash_server.store.statements import Sql, statements
from ash_shared.model.keywords import check_keywords
from ash_shared.model.reports.session_counts import SessionCounts, ValueCount

MAX_COUNTED = 2_000
"""Sessions that are counted, the latest."""

MAX_COUNTED_VALUES = 100
"""Values of a filter, the most frequent."""

SQL = statements(__file__)


class CountFilter(TypedDict, total=False):
    """Options of `count_sessions`, as in `SessionFilter`."""

    source: Several[str] | None
    project: Several[str] | None
    branch: Several[str] | None
    model: Several[str] | None
    machine: Several[str] | None
    person: Several[str] | None
    tag: Several[str] | None
    starred: bool | None
    archived: Archived | None
    errors: bool | None
    since: datetime | None
    until: datetime | None
    redact: bool
    """Count values with the same redacted text together."""


async def count_sessions(conn: AsyncConnection, **filters: Unpack[CountFilter]) -> SessionCounts:
    """Count sessions by the values of each filter. A filter does not narrow its own counts.

    Only the latest 2,000 sessions are counted. Raises InvalidParameter, NulByte, InvalidUtf8.
    """
    check_keywords("count_sessions", filters, CountFilter)
    matching = await _read(conn, filters)
    counts = await _count(conn, matching.rows, _COUNTED)
    limited = [matching.is_limited]
    for name in _COUNTED:
        if filters.get(name):
            others = await _read(conn, {**filters, name: None})
            counts |= await _count(conn, others.rows, [name])
            limited.append(others.is_limited)
    shown: Callable[[str], str] = redact if filters.get("redact") else str
    return SessionCounts(
        sessions=len(matching.rows),
        is_limited=any(limited),
        **{plural: _to_values(counts[name], shown) for name, plural in _COUNTED.items()},
    )


_COUNTED = {
    "source": "sources",
    "project": "projects",
    "branch": "branches",
    "machine": "machines",
    "person": "persons",
    "model": "models",
}
"""Names of the counts, by filter."""

_COLUMNS = {"source": 1, "project": 2, "branch": 3, "machine": 4, "person": 5}


class _Latest(NamedTuple):
    rows: Sequence[Sequence[Any]]
    is_limited: bool


async def _read(conn: AsyncConnection, filters: Mapping[str, Any]) -> _Latest:
    """Read the values of the latest sessions that match filters."""
    conditions = await find_conditions(conn, filters)
    if conditions is None:
        return _Latest([], False)
    ids = await read_latest(conn, conditions, MAX_COUNTED + 1)
    params = {**conditions.params, "read_ids": ids[:MAX_COUNTED]}
    rows = await (await conn.execute(_read_values(conditions.further), params)).fetchall()
    return _Latest(rows, len(ids) > MAX_COUNTED)


@cache
def _read_values(names: frozenset[str]) -> Sql:
    return SQL.read_values.fill(conditions=all_of(names))


async def _count(
    conn: AsyncConnection, rows: Sequence[Sequence[Any]], names: Iterable[str]
) -> dict[str, Counter[str]]:
    return {name: await _count_values(conn, rows, name) for name in names}


async def _count_values(conn: AsyncConnection, rows: Sequence[Sequence[Any]], name: str) -> Counter[str]:
    if name == "model":
        cursor = await conn.execute(SQL.count_models, {"ids": [row[0] for row in rows]})
        return Counter(dict(await cursor.fetchall()))
    column = _COLUMNS[name]
    values = Counter(row[column] for row in rows if row[column] is not None)
    return await _by_key_name(conn, values) if name == "person" else values


async def _by_key_name(conn: AsyncConnection, counts: Counter[UUID]) -> Counter[str]:
    """Return the counts of keys by their names, which a revoked key may share with a later one."""
    if not counts:
        return Counter()
    rows = await (await conn.execute(session_rows.SQL.list_key_names, [list(counts)])).fetchall()
    by_name = Counter[str]()
    for id, name in rows:
        by_name[name] += counts[id]
    return by_name


def _to_values(counts: Mapping[str, int], shown: Callable[[str], str]) -> list[ValueCount]:
    by_text = Counter[str]()
    for value, count in counts.items():
        by_text[shown(value)] += count
    ranked = sorted(by_text.items(), key=lambda each: (-each[1], each[0]))
    return [ValueCount(value=value, sessions=count) for value, count in ranked[:MAX_COUNTED_VALUES]]
