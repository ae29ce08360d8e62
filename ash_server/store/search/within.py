"""Search within one session: its matching events in the order of the log.

All hits are sorted and numbered in a session with at most `MAX_EVENTS` events, and for a rare word. In a longer
session, a page for a frequent word reads a limited number of events before or after a place. Functions accept a
connection in autocommit mode (`connections.pool.open_pool`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, Unpack
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row
from pydantic import Field

from ash_server.store.search.nearest import suggest_queries
from ash_server.store.search.newest import (
    MAX_COUNTED,
    MAX_ROWS,
    IndexedMatch,
    is_rare_in_session,
    list_few,
    read_bounds,
)
from ash_server.store.search.query import (
    CONDITIONS,
    MATCHING,
    READ_CONDITIONS,
    FoundEvent,
    SearchScope,
    describe,
    for_each_scope,
    other_readers,
)
from ash_server.store.search.tokens import ParsedQuery, read_query
from ash_server.store.session_rows import get_session
from ash_server.store.statements import Sql, statements
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.keywords import check_keywords
from ash_shared.model.pages import MatchedEvent

MAX_HITS = 100
"""The most hits of a page."""

SQL = statements(__file__)

_LIST_HITS = for_each_scope(SQL.list_hits)
_COUNT_HITS = for_each_scope(SQL.count_hits)
_LIST_HITS_OF_SHORT = {scope: SQL.list_hits.fill(condition=each) for scope, each in READ_CONDITIONS.items()}
_COUNT_HITS_OF_SHORT = {scope: SQL.count_hits.fill(condition=each) for scope, each in READ_CONDITIONS.items()}
"""For sessions of some thousand events: to read these is faster than all of the store's events with a frequent word."""
_LIST_NEXT = {scope: SQL.list_next.fill(condition=each) for scope, each in READ_CONDITIONS.items()}
_LIST_PREVIOUS = {scope: SQL.list_previous.fill(condition=each) for scope, each in READ_CONDITIONS.items()}
_COUNT_LAST = {scope: SQL.count_last.fill(condition=each) for scope, each in READ_CONDITIONS.items()}


class SessionHit(MatchedEvent):
    """A matching event of a session."""

    number: Omittable[int] = ABSENT
    """Its place among the hits, from 1; absent for a frequent word in a long session."""


class SessionHitPage(AshModel):
    """A page of hits, in the order of the log."""

    hits: list[SessionHit]
    total: int
    """Number of hits of the session; at most 1,000 with `atLeast`."""
    at_least: Omittable[bool] = Field(default=ABSENT, alias="atLeast")
    """True if the session may have more hits than `total`: in a long session, only the last events with a frequent word
    are counted."""
    next_after: Omittable[int] = Field(default=ABSENT, alias="nextAfter")
    """The `after` of the next page; absent on the last page. A page may be short, or empty, and have one."""
    prev_before: Omittable[int] = Field(default=ABSENT, alias="prevBefore")
    """The `before` of the previous page; absent on the first page. A page may be short, or empty, and have one."""
    pending: Omittable[int] = ABSENT
    """Number of stored events that are not indexed yet; absent if there are none."""
    suggestions: Omittable[list[str]] = ABSENT
    """Queries with similar words of the session, if there are no hits."""


class HitFilter(TypedDict, total=False):
    """Options of a search within a session."""

    place: SearchScope
    after: int
    """Only hits after this event sequence."""
    before: int | None
    """The last hits before this event sequence."""
    at: int
    """Select the page around the first hit at or after this event sequence, else the last hits."""
    limit: int
    redact: bool
    """Match and show redacted texts only."""


@dataclass(slots=True)
class _Hit(IndexedMatch):
    number: int | None
    total: int
    """0 if the hits are not numbered."""


class _Window(NamedTuple):
    """Hits among a limited number of events."""

    hits: list[_Hit]
    next_after: int | None
    prev_before: int | None
    last: int
    """The last event of the session."""


async def find_in_session(
    conn: AsyncConnection, session_id: UUID, q: str, **filters: Unpack[HitFilter]
) -> SessionHitPage:
    """Return a page of hits in the order of the log. Raises InvalidParameter, SessionNotFound."""
    check_keywords("find_in_session", filters, HitFilter)
    parsed = read_query(q)
    redacted = filters.get("redact", False)
    params: dict[str, Any] = {
        "session_id": session_id,
        "query": parsed.query,
        "others": other_readers(redacts=redacted),
        "after": filters.get("after", 0),
        "before": filters.get("before"),
        "at": filters.get("at", 0),
        "limit": filters.get("limit", 50),
    }
    place = filters.get("place", "everything")
    is_short = await list_few(conn, None, params) is not None
    if not is_short and not await is_rare_in_session(conn, CONDITIONS[place], READ_CONDITIONS[place], params):
        return await _find_near(conn, place, params, parsed, redacted=redacted)
    list_hits, count_hits = (
        (_LIST_HITS_OF_SHORT, _COUNT_HITS_OF_SHORT) if is_short else (_LIST_HITS, _COUNT_HITS)
    )
    rows = await _fetch_hits(conn, list_hits[place], params)
    if rows and (hits := await _to_hits(conn, rows, params, parsed, redacted=redacted)):
        return _to_page(hits, rows[0].total)
    await get_session(conn, session_id)
    counted = await conn.execute(count_hits[place], params, prepare=False)
    total = (await counted.fetchone() or [0])[0]
    suggestions = [] if total else await suggest_queries(conn, q, MATCHING[place], params)
    return SessionHitPage(hits=[], total=total, suggestions=suggestions or None)


async def _find_near(
    conn: AsyncConnection,
    scope: SearchScope,
    params: Mapping[str, Any],
    parsed: ParsedQuery,
    *,
    redacted: bool,
) -> SessionHitPage:
    """Return the hits among a limited number of events before and after a place."""
    window = await _read_window(conn, scope, params)
    hits = await _to_hits(conn, window.hits, params, parsed, redacted=redacted)
    cursors = {"next_after": window.next_after, "prev_before": window.prev_before}
    if 0 < len(hits) < len(window.hits):  # none are left of a log that is rebuilt meanwhile
        if params["before"] is None:
            cursors["next_after"] = hits[-1].event_sequence
        else:
            cursors["prev_before"] = hits[0].event_sequence
    last = {"low": window.last - MAX_ROWS, "high": window.last + 1, "most": MAX_COUNTED}
    counted = await conn.execute(_COUNT_LAST[scope], {**params, **last}, prepare=False)
    (count,) = await counted.fetchone() or (0,)
    return SessionHitPage(hits=hits, total=max(count, len(hits)), at_least=True, **cursors)


async def _read_window(conn: AsyncConnection, scope: SearchScope, params: Mapping[str, Any]) -> _Window:
    first, last = await read_bounds(conn, params["session_id"])
    end, limit, is_backward = last + 1, params["limit"], params["before"] is not None
    start = max(first, params["after"] + 1)
    middle = min(end, params["before"] if is_backward else max(start, params["at"]))
    low = max(start, middle - MAX_ROWS)
    high = middle if is_backward else min(end, middle + MAX_ROWS)
    bounds = {**params, "limit": limit + 1}
    following = await _fetch_hits(conn, _LIST_NEXT[scope], {**bounds, "low": middle, "high": high})
    preceding = await _fetch_hits(conn, _LIST_PREVIOUS[scope], {**bounds, "low": low, "high": middle})
    before = preceding[: limit // 2 if following else limit]
    after = following[: limit - len(before)]
    hits = [*reversed(before), *after]
    next_after = after[-1].sequence if len(after) < len(following) else high - 1
    prev_before = hits[0].sequence if len(before) < len(preceding) else low
    return _Window(
        hits,
        next_after if next_after < last else None,
        prev_before if prev_before > (start if is_backward else first) else None,
        last,
    )


async def _fetch_hits(conn: AsyncConnection, query: Sql, params: Mapping[str, Any]) -> list[_Hit]:
    async with conn.cursor(binary=True, row_factory=args_row(_Hit)) as cursor:
        await cursor.execute(query, params, prepare=False)
        return await cursor.fetchall()


async def _to_hits(
    conn: AsyncConnection,
    rows: Sequence[_Hit],
    params: Mapping[str, Any],
    parsed: ParsedQuery,
    *,
    redacted: bool,
) -> list[SessionHit]:
    """Return as many hits as fit into one page with their texts: the first ones, or the last ones before a place."""
    ordered = rows if params["before"] is None else rows[::-1]
    events = await describe(conn, ordered, parsed, redacted=redacted)
    hits = [_to_hit(ordered[event.place - 1], event) for event in events]
    return hits if params["before"] is None else hits[::-1]


def _to_page(hits: Sequence[SessionHit], total: int) -> SessionHitPage:
    first, last = hits[0], hits[-1]
    return SessionHitPage(
        hits=list(hits),
        total=total,
        next_after=last.event_sequence if last.number != total else None,
        prev_before=first.event_sequence if first.number != 1 else None,
    )


def _to_hit(row: _Hit, event: FoundEvent) -> SessionHit:
    return SessionHit(
        number=row.number,
        sequence=event.message_sequence,
        event_id=event.id,
        event_sequence=row.sequence,
        type=event.type,
        role=row.role,
        created_at=row.at,
        snippet=event.snippet.text,
        marks=event.snippet.utf16_marks(),
    )
