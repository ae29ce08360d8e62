"""Search of frequent words: the newest events are read until a page is full, and counts have a limit.

The indexes of words return all events that match, which for a frequent word are most of the store. Instead, these
functions read the index of times, a limited number of rows at a time: a page that is not full afterwards ends there,
with a cursor. Functions accept a connection in autocommit mode (`connections.pool.open_pool`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.store.connections.pool import is_distributed
from ash_server.store.statements import Sql, statements
from ash_shared.model.event_types import Weight
from ash_shared.model.message import LAST_SEQUENCE, Role

MAX_COUNTED = 1000
"""Matches of a session that are counted one by one."""

MAX_SORTED = 5_000
"""Matching rows that are sorted; of more, only the newest are read."""

FIRST_ROWS, MAX_ROWS = 2_000, 20_000
"""Rows that are read for a page: at first, and if these do not fill it."""

MAX_EVENTS = 30_000
"""Events of chosen sessions that are all read."""

_MAX_FEW = 200
"""Sessions that are read one by one."""

NO_LIMIT = 2**31 - 1
"""The `per_session` of a search that shows all results of a session."""

_RARE = 10
"""Matching rows among the first ones for words that may be rare."""

_MAX_SKIPPED = 300_000
"""Rows of sessions with enough results that are skipped at once."""

_COUNTED_ROWS, _MAX_COUNTED_ROWS = 5_000, 20_000
"""Events that are read to count the matches of a session, and of all sessions of a page."""

SQL = statements(__file__)


@dataclass(slots=True)
class IndexedMatch:
    """A matching event, as far as the index knows it."""

    session_id: UUID
    sequence: int
    weights: list[Weight]
    role: Role
    at: datetime


@dataclass(slots=True)
class WindowMatch(IndexedMatch):
    place: int
    """Its place among the matches of its session in the window, from 1."""


@dataclass(slots=True)
class FoundMatch(IndexedMatch):
    """A result of a search."""

    matches: int
    title: str | None
    external_id: str | None
    source: str
    metadata: str
    """As JSON."""
    at_least: bool = False
    """True if the session may have more matches."""


class ResultKey(NamedTuple):
    """A place in the order of results."""

    at: datetime | str
    id: UUID
    sequence: int


NEWEST = ResultKey("infinity", UUID(int=2**128 - 1), LAST_SEQUENCE)
"""A place before all results."""


class NewestMatches(NamedTuple):
    matches: list[FoundMatch]
    end: ResultKey | None
    """Where the rows that were read end; None after the last ones."""
    are_nowhere: bool = False
    """True if no row of the store has the words."""


class SearchSql(NamedTuple):
    """The conditions of a search."""

    by_index: Sql
    """True for rows with the words, from an index."""
    contains: Sql
    """The same for rows that are read."""
    passes: Sql
    """True for rows that also pass the filters on events."""
    in_sessions: Sql


class _Window(NamedTuple):
    """Consecutive rows in the order of results."""

    matches: list[WindowMatch]
    end: ResultKey | None
    rows: Sql
    """The condition of all of its rows."""
    params: Mapping[str, Any]


async def list_few(
    conn: AsyncConnection, sessions: Sql | None, params: Mapping[str, Any]
) -> list[UUID] | None:
    """Return the sessions to search if all of their events can be read; None if these are too many.

    `sessions` selects their ids; None for all sessions.
    """
    ids = [params["session_id"]]
    if sessions is not None:
        query = SQL.list_few.fill(sessions=sessions)
        rows = await conn.execute(query, {**params, "most": _MAX_FEW + 1}, prepare=False)
        chosen = {id for (id,) in await rows.fetchall()}
        ids = [id for id in chosen if params["session_id"] in (None, id)]
        if len(chosen) > _MAX_FEW:
            return None
    is_few = ids != [None] and await _fetch_number(conn, SQL.count_events, [ids]) <= MAX_EVENTS
    return ids if is_few else None


async def find_newest(
    conn: AsyncConnection, sql: SearchSql, params: Mapping[str, Any], after: ResultKey
) -> NewestMatches | None:
    """Return the next matches; None if the words are so rare that all matches can be sorted."""
    read = _read_session if params["session_id"] else _read_all
    window = await read(conn, sql, params, after, FIRST_ROWS)
    matches, end = window.matches, window.end
    if end is not None and len(matches) < params["limit"]:
        rows = await _count_if_rare(conn, sql, params, window)
        if rows is not None:
            return None if rows else NewestMatches([], None, are_nowhere=True)
        window = await read(conn, sql, params, await _skip_full(conn, params, matches, end), MAX_ROWS)
        matches, end = [*matches, *window.matches], window.end
    return NewestMatches(await _describe(conn, sql, params, matches), end)


async def is_rare_in_session(
    conn: AsyncConnection, by_index: Sql, contains: Sql, params: Mapping[str, Any]
) -> bool:
    """True if few rows of the store have the words.

    The index is not asked for words that the last events of the session or of the store often have.
    """
    _, last = await read_bounds(conn, params["session_id"])
    bounds = {"sequence": last + 1, "last_sequence": last + 1 - FIRST_ROWS}
    if await _is_frequent(conn, contains, SQL.in_window_of_session, {**params, **bounds}):
        return False
    _, newest = await _bound_all(conn, {**params, "since": None}, NEWEST, FIRST_ROWS)
    if await _is_frequent(conn, contains, SQL.in_window.fill(in_sessions=Sql("TRUE")), newest):
        return False
    return await _count_few_rows(conn, by_index, params) is not None


async def read_bounds(conn: AsyncConnection, session_id: UUID) -> tuple[int, int]:
    """Return the first and the last event of a session."""
    row = await (await conn.execute(SQL.bounds_of_log, [session_id])).fetchone()
    return row or (1, 0)


async def _skip_full(
    conn: AsyncConnection, params: Mapping[str, Any], matches: Sequence[WindowMatch], end: ResultKey
) -> ResultKey:
    """Return the next place that is not of a session with all of its results: a long one would fill many pages."""
    results = Counter(each.session_id for each in matches)
    full = [id for id, count in results.items() if count >= params["per_session"]]
    if not full or params["session_id"] or is_distributed(conn):
        return end
    values = {**params, **end._asdict(), "full": full, "rows": _MAX_SKIPPED}
    row = await (await conn.execute(SQL.find_other, values, prepare=False)).fetchone()
    return ResultKey(row[0], row[1], row[2] + 1) if row else end


async def _read_all(
    conn: AsyncConnection, sql: SearchSql, params: Mapping[str, Any], after: ResultKey, rows: int
) -> _Window:
    end, bounds = await _bound_all(conn, params, after, rows)
    parts = _Parts(SQL.in_window, SQL.newest_first, SQL.is_newer)
    return await _read(conn, sql, bounds, parts, end)


async def _bound_all(
    conn: AsyncConnection, params: Mapping[str, Any], after: ResultKey, rows: int
) -> tuple[ResultKey | None, Mapping[str, Any]]:
    """Return where a window of the store ends, and the parameters of `in_window`."""
    values = {**params, **after._asdict(), "rows": rows}
    bound = await (await conn.execute(SQL.find_bound, values, prepare=False)).fetchone()
    end = ResultKey(*bound) if bound else None
    last = end or ResultKey("-infinity", UUID(int=0), 0)
    return end, {**values, "last_at": last.at, "last_id": last.id, "last_sequence": last.sequence}


async def _read_session(
    conn: AsyncConnection, sql: SearchSql, params: Mapping[str, Any], after: ResultKey, rows: int
) -> _Window:
    first, last = await read_bounds(conn, params["session_id"])
    before = min(after.sequence, last + 1)
    end = after._replace(sequence=before - rows) if before - rows > first else None
    bounds = {"sequence": before, "last_sequence": before - rows}
    parts = _Parts(SQL.in_window_of_session, SQL.last_first, SQL.is_later)
    return await _read(conn, sql, {**params, **bounds}, parts, end)


class _Parts(NamedTuple):
    """SQL that depends on the number of sessions."""

    window: Sql
    order: Sql
    newer: Sql


async def _read(
    conn: AsyncConnection, sql: SearchSql, params: Mapping[str, Any], parts: _Parts, end: ResultKey | None
) -> _Window:
    in_sessions = {"in_sessions": sql.in_sessions} if "{in_sessions}" in parts.window else {}
    window = parts.window.fill(**in_sessions)
    statement = SQL.find_in_window.fill(passes=sql.passes, window=window, order=parts.order)
    async with conn.cursor(binary=True, row_factory=args_row(WindowMatch)) as cursor:
        # Results of sessions that have enough on earlier pages are removed afterwards, and do not fill this page.
        most = params["limit"] if params["per_session"] == NO_LIMIT else NO_LIMIT
        await cursor.execute(statement, {**params, "limit": most}, prepare=False)
        matches = await cursor.fetchall()
    if matches and params["per_session"] < NO_LIMIT:
        ids = {"ids": list({each.session_id for each in matches})}
        statement = SQL.count_newer.fill(passes=sql.passes, newer=parts.newer)
        rows = await conn.execute(statement, {**params, **ids}, prepare=False)
        newer: dict[UUID, int] = dict(await rows.fetchall())
        most = params["per_session"]
        matches = [each for each in matches if each.place + newer.get(each.session_id, 0) <= most]
    anywhere = parts.window.fill(**{name: Sql("TRUE") for name in in_sessions})
    return _Window(matches, end, anywhere, params)


async def _count_if_rare(
    conn: AsyncConnection, sql: SearchSql, params: Mapping[str, Any], window: _Window
) -> int | None:
    """Return the number of rows of the store with the words; None if these are many.

    The index is not asked for words that the window often has.
    """
    if await _is_frequent(conn, sql.contains, window.rows, window.params):
        return None
    return await _count_few_rows(conn, sql.by_index, params)


async def _is_frequent(conn: AsyncConnection, contains: Sql, window: Sql, params: Mapping[str, Any]) -> bool:
    return (
        await _fetch_number(conn, SQL.count_in_window.fill(condition=contains, window=window), params) > _RARE
    )


async def _count_few_rows(conn: AsyncConnection, by_index: Sql, params: Mapping[str, Any]) -> int | None:
    """Return the number of matching rows; None if they are not sorted."""
    statement = SQL.count_matching_rows.fill(condition=by_index)
    rows = await _fetch_number(conn, statement, {**params, "rows": MAX_SORTED + 1})
    return rows if rows <= MAX_SORTED else None


async def _describe(
    conn: AsyncConnection, sql: SearchSql, params: Mapping[str, Any], matches: Sequence[WindowMatch]
) -> list[FoundMatch]:
    """Return the matches with the fields of their sessions, and with counts of a limited number of events."""
    shown = matches[: params["limit"]]
    ids = list({each.session_id for each in shown})
    if not ids:
        return []
    described = await (await conn.execute(SQL.describe_sessions, [ids])).fetchall()
    sessions = {row[0]: row for row in described}
    rows = min(_COUNTED_ROWS, _MAX_COUNTED_ROWS // len(ids))
    statement = SQL.count_matches.fill(passes=sql.passes)
    counted = await conn.execute(statement, {**params, "ids": ids, "rows": rows}, prepare=False)
    counts: dict[UUID, int] = dict(await counted.fetchall())
    for id, several in Counter(each.session_id for each in shown).items():
        counts[id] = max(counts.get(id, 0), several)
    return [
        _to_match(each, counts[each.session_id], rows, *sessions[each.session_id][1:])
        for each in shown
        if each.session_id in sessions
    ]


def _to_match(match: WindowMatch, count: int, rows: int, *session: Any) -> FoundMatch:
    title, external_id, source, metadata, events = session
    return FoundMatch(
        match.session_id,
        match.sequence,
        match.weights,
        match.role,
        match.at,
        min(count, MAX_COUNTED),
        title,
        external_id,
        source,
        metadata,
        at_least=count > MAX_COUNTED or events > rows,
    )


async def _fetch_number(conn: AsyncConnection, query: Sql, params: Any) -> int:
    row = await (await conn.execute(query, params, prepare=False)).fetchone()
    return int(row[0]) if row else 0
