"""Search within one session: its matching events by their place in the log, numbered from 1.

Functions take a connection in autocommit mode (`connections.pool.open_pool`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row
from pydantic import Field

from ash_server.store.search.nearest import suggest_queries
from ash_server.store.search.newest import IndexedMatch, list_few
from ash_server.store.search.query import (
    CONDITIONS,
    READ_CONDITIONS,
    FoundEvent,
    SearchScope,
    describe,
    for_each_scope,
    other_readers,
)
from ash_server.store.search.tokens import read_query
from ash_server.store.session_rows import get_session
from ash_server.store.statements import statements
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


class SessionHit(MatchedEvent):
    """A matching event of a session."""

    number: int
    """Its place among the hits, from 1."""


class SessionHitPage(AshModel):
    """A page of hits, in the order of the log."""

    hits: list[SessionHit]
    total: int
    """Number of all hits of the session."""
    next_after: Omittable[int] = Field(default=ABSENT, alias="nextAfter")
    """The `after` of the next page; absent on the last page."""
    pending: Omittable[int] = ABSENT
    """Number of stored events that are not indexed yet; absent if there are none."""
    suggestions: Omittable[list[str]] = ABSENT
    """Queries with similar words of the session, if there are no hits."""


class HitFilter(TypedDict, total=False):
    """Options of a search within a session."""

    place: SearchScope
    after: int
    """Only hits after this number."""
    at: int
    """Select the page around the first hit at or after this event sequence, else the last hits."""
    limit: int
    redact: bool
    """Match and show redacted texts only."""


@dataclass(slots=True)
class _Hit(IndexedMatch):
    number: int
    total: int


async def find_in_session(
    conn: AsyncConnection, session_id: UUID, q: str, **filters: Unpack[HitFilter]
) -> SessionHitPage:
    """Return a page of hits in the order of the log. Raises InvalidParameter, SessionNotFound."""
    check_keywords("find_in_session", filters, HitFilter)
    parsed = read_query(q)
    params: dict[str, Any] = {
        "session_id": session_id,
        "query": parsed.query,
        "others": other_readers(redacts=filters.get("redact", False)),
        "after": filters.get("after", 0),
        "at": filters.get("at", 0),
        "limit": filters.get("limit", 50),
    }
    place = filters.get("place", "everything")
    is_short = await list_few(conn, None, params) is not None
    list_hits, count_hits = (
        (_LIST_HITS_OF_SHORT, _COUNT_HITS_OF_SHORT) if is_short else (_LIST_HITS, _COUNT_HITS)
    )
    async with conn.cursor(binary=True, row_factory=args_row(_Hit)) as cursor:
        await cursor.execute(list_hits[place], params, prepare=False)
        rows = await cursor.fetchall()
    if rows:
        return _to_page(rows, await describe(conn, rows, parsed, redacted=filters.get("redact", False)))
    await get_session(conn, session_id)
    counted = await conn.execute(count_hits[place], params, prepare=False)
    total = (await counted.fetchone() or [0])[0]
    suggestions = [] if total else await suggest_queries(conn, q, CONDITIONS[place], params)
    return SessionHitPage(hits=[], total=total, suggestions=suggestions or None)


def _to_page(rows: Sequence[_Hit], events: Sequence[FoundEvent]) -> SessionHitPage:
    hits = [_to_hit(row, event) for row, event in zip(rows, events, strict=False)]
    total, last = rows[0].total, hits[-1].number
    return SessionHitPage(hits=hits, total=total, nextAfter=last if last < total else None)


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
