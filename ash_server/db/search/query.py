"""Searching what was said and done.

Found are events whose words were taken (`indexing`), newest first: of what somebody did, most looked for is what they
did last. What is shown of them is read when it is shown.

Every function works on an open connection in autocommit mode (`engine.open_pool` gives such).
"""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypedDict, Unpack
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row
from pydantic import Field

from ash_server.db.search.index import LARGE, passages_of, read_told
from ash_server.db.search.snippets import snippet
from ash_server.db.search.tokens import Wanted, read_query
from ash_server.db.sessions import get_session
from ash_server.db.text import check_text
from ash_server.errors import InvalidParameter
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.message import LAST_SEQUENCE, Role
from ash_shared.projections.search_text import Weight

Place = Literal["said", "conversation", "results", "everything"]
"""What is searched: what the user and the assistant said; that, what was thought, and which tools were called; what
tools gave, and all other texts; everything."""

MOST_RESULTS = 100

_MOST_SHOWN = 4 * 1024 * 1024
"""Bytes of events of which snippets are made for one page."""

_FOUND: Mapping[Place, str] = {
    "said": "weight = 'A' AND words @@ %(query)b::tsquery",
    "conversation": "weight <> 'D' AND words @@ %(query)b::tsquery",
    "results": "weight = 'D' AND words @@ %(query)b::tsquery",
    # Each side has an index of its own.
    "everything": "(weight <> 'D' AND words @@ %(query)b::tsquery OR weight = 'D' AND words @@ %(query)b::tsquery)",
}
_FIND = {
    place: f"""
        SELECT found.session_id, sequence, weights, role, at, matches, title, source
        FROM (
            SELECT session_id, sequence, array_agg(DISTINCT weight) AS weights, role, at,
                row_number() OVER (PARTITION BY session_id ORDER BY at DESC, sequence DESC) AS place,
                count(*) OVER (PARTITION BY session_id) AS matches
            FROM search
            WHERE {found}
              AND (%(session_id)b::uuid IS NULL OR session_id = %(session_id)b)
              AND (%(role)b::text IS NULL OR role = %(role)b)
              AND (%(since)b::timestamptz IS NULL OR at >= %(since)b)
              AND (%(until)b::timestamptz IS NULL OR at < %(until)b)
            GROUP BY session_id, sequence, role, at
        ) AS found JOIN sessions ON id = found.session_id
        WHERE place <= %(per_session)b
          AND (%(source)b::text IS NULL OR source = %(source)b)
          AND (at, found.session_id, sequence) < (%(at)b::timestamptz, %(id)b::uuid, %(sequence)b::bigint)
        ORDER BY at DESC, session_id DESC, sequence DESC
        LIMIT %(limit)b
    """  # noqa: S608  # no word of it comes from outside
    for place, found in _FOUND.items()
}

_SHOWN = """
    SELECT place, CASE origin WHEN 'line' THEN message_sequence END, content
    FROM (
        SELECT place, event.*, sum(octet_length(content)) OVER (ORDER BY place) - octet_length(content) AS ahead
        FROM unnest(%b::uuid[], %b::bigint[]) WITH ORDINALITY AS wanted (session_id, sequence, place)
        JOIN events AS event USING (session_id, sequence)
    ) AS sized
    WHERE ahead < %b
    ORDER BY place
"""


class SearchResult(AshModel):
    """Something that was said or done, and where."""

    session_id: UUID = Field(alias="sessionId")
    title: Omittable[str] = ABSENT
    """Of the session."""
    source: str
    """The format of the session."""
    sequence: Omittable[int] = ABSENT
    """The stored message it was derived from; absent where the event was posted."""
    event_id: str = Field(alias="eventId")
    event_sequence: int = Field(alias="eventSequence")
    """Its place in the log of the session."""
    type: str
    """Of the event: `user_message`, `assistant_done`, `tool_call` …"""
    role: Role
    """Whose words they are: `tool` what a tool gave, `system` what nobody said."""
    created_at: datetime = Field(alias="createdAt")
    """When it was said or done, by its own account."""
    snippet: str
    """The piece of its text around what was found, on one line."""
    marks: list[tuple[int, int]]
    """Where in the snippet what was found begins and ends, in UTF-16 code units, as JavaScript counts. There may be
    none, where it is written otherwise than it was looked for."""
    matches: int
    """How much of its session was found in all."""


class SearchPage(AshModel):
    """What was found, newest first."""

    results: list[SearchResult]
    next_after: Omittable[str] = Field(default=ABSENT, alias="nextAfter")
    """Opaque; absent on the last page."""
    pending: Omittable[int] = ABSENT
    """How many events are stored and cannot be found yet; absent where there are none."""


class Search(TypedDict, total=False):
    """Where to search, and how much to answer."""

    place: Place
    source: str | None
    role: Role | None
    session_id: UUID | None
    since: datetime | None
    until: datetime | None
    per_session: int | None
    """The newest of each session alone, so many of them."""
    after: str | None
    limit: int


async def find(conn: AsyncConnection, q: str, **wishes: Unpack[Search]) -> SearchPage:
    """Newest first. Raises InvalidParameter, and SessionNotFound for a session that there is not."""
    wanted = read_query(q)
    source, limit = wishes.get("source"), wishes.get("limit", 20)
    check_text(source or "", "source")
    if not 1 <= limit <= MOST_RESULTS:
        raise InvalidParameter(f"limit is 1 to {MOST_RESULTS}")
    after = wishes.get("after")
    values = {
        **dict.fromkeys(("session_id", "role", "since", "until", "source")),
        **wishes,
        "query": wanted.query,
        "per_session": wishes.get("per_session") or 2**31 - 1,
        "limit": limit + 1,
        **(_read_cursor(after) if after else _NEWEST),
    }
    async with conn.cursor(binary=True, row_factory=args_row(_Found)) as cursor:
        await cursor.execute(_FIND[wishes.get("place", "conversation")], values, prepare=False)
        found = await cursor.fetchall()
    if not found and values["session_id"]:
        await get_session(conn, values["session_id"])
    return await _to_page(conn, found, limit, wanted)


@dataclass(slots=True)
class _Found:
    """An event that was found."""

    session_id: UUID
    sequence: int
    weights: list[Weight]
    role: Role
    at: datetime
    matches: int
    title: str | None
    source: str


async def _to_page(conn: AsyncConnection, found: Sequence[_Found], limit: int, wanted: Wanted) -> SearchPage:
    page = found[:limit]
    places = [[each.session_id for each in page], [each.sequence for each in page], _MOST_SHOWN]
    rows = await (await conn.execute(_SHOWN, places, binary=True)).fetchall()
    is_large = sum(len(content) for _, _, content in rows) > LARGE
    shown = [(page[place - 1], message_sequence, content) for place, message_sequence, content in rows]
    work = partial(_results, shown, wanted)
    results = await asyncio.to_thread(work) if is_large else work()
    last = rows[-1][0] if rows else 0
    goes_on = 0 < last < len(found)
    return SearchPage(results=results, nextAfter=_to_cursor(page[last - 1]) if goes_on else None)


def _results(shown: Iterable[tuple[_Found, int | None, str]], wanted: Wanted) -> list[SearchResult]:
    return [_result(found, message_sequence, content, wanted) for found, message_sequence, content in shown]


def _result(found: _Found, message_sequence: int | None, content: str, wanted: Wanted) -> SearchResult:
    told = read_told(content)
    texts = passages_of(told)
    piece = snippet((each.text for each in texts if each.weight in found.weights), wanted.hits)
    return SearchResult(
        session_id=found.session_id,
        title=found.title,
        source=found.source,
        sequence=message_sequence,
        event_id=told.id,
        event_sequence=found.sequence,
        type=told.type,
        role=found.role,
        created_at=found.at,
        snippet=piece.text,
        marks=piece.utf16_marks(),
        matches=found.matches,
    )


def _to_cursor(last: _Found) -> str:
    return urlsafe_b64encode(f"{last.at.isoformat()} {last.session_id} {last.sequence}".encode()).decode()


def _read_cursor(cursor: str) -> dict[str, Any]:
    try:
        at, id, sequence = urlsafe_b64decode(cursor).decode().split(" ")
        moment = datetime.fromisoformat(at).astimezone(UTC).isoformat()
        if not 0 <= int(sequence) <= LAST_SEQUENCE:
            raise ValueError
        return {"at": moment, "id": UUID(id), "sequence": int(sequence)}
    except (ValueError, OverflowError):
        raise InvalidParameter("after is not a cursor that a search gave") from None


_NEWEST = {"at": "infinity", "id": UUID(int=2**128 - 1), "sequence": LAST_SEQUENCE}
