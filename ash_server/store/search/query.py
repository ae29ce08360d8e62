"""Full-text search over indexed events, newest first.

The index has no texts: snippets are cut from the stored events of each page. Functions take a connection in autocommit
mode (`connections.pool.open_pool`).
"""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, TypedDict, Unpack
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.errors import InvalidParameter
from ash_server.store.connections.archived_texts import count_some_cold
from ash_server.store.lists.session_lists import (
    Archived,
    Conditions,
    Several,
    find_conditions,
    select_sessions,
)
from ash_server.store.log import stored_json
from ash_server.store.log.stored_json import event_json
from ash_server.store.pagination import bounded_query
from ash_server.store.search import newest
from ash_server.store.search.index import (
    MAX_INLINE,
    Readers,
    SearchedEvent,
    decode_event,
    passages_of,
    redacted_event,
)
from ash_server.store.search.nearest import QUERY, suggest_queries
from ash_server.store.search.newest import (
    NEWEST,
    NO_LIMIT,
    FoundMatch,
    IndexedMatch,
    NewestMatches,
    ResultKey,
    SearchSql,
    find_newest,
    list_few,
)
from ash_server.store.search.snippets import Snippet, snippet
from ash_server.store.search.tokens import Hits, ParsedQuery, read_query
from ash_server.store.session_rows import get_session
from ash_server.store.statements import Sql, statements
from ash_shared.model.event_types import Weight
from ash_shared.model.keywords import check_keywords
from ash_shared.model.message import LAST_SEQUENCE, Role
from ash_shared.model.pages import SearchPage, SearchResult
from ash_shared.model.session import agent_in

SearchScope = Literal["said", "conversation", "results", "everything"]
"""The texts to search. `said`: user and assistant messages; `conversation`: also thinking and tool calls; `results`:
tool results and all other texts."""

MAX_RESULTS = 100
MAX_COLD = 1_000
"""Cold sessions that a page counts."""


_MAX_SNIPPET_BYTES = 4 * 1024 * 1024
"""Bytes of events read to make the snippets of a page."""

SQL = statements(__file__)


MATCHING: Mapping[SearchScope, Sql] = {
    "said": SQL.is_said,
    "conversation": SQL.is_conversation,
    "results": SQL.is_result,
    "everything": SQL.is_anything,
}
"""True for the events of each scope that match `{query}`."""

CONDITIONS = {scope: matching.fill(query=QUERY) for scope, matching in MATCHING.items()}
"""The same for the query of a search."""

READ_CONDITIONS: Mapping[SearchScope, Sql] = {
    "said": SQL.read_said,
    "conversation": SQL.read_conversation,
    "results": SQL.read_results,
    "everything": SQL.read_anything,
}
"""The same conditions without an index, for a limited number of rows."""


def for_each_scope(statement: Sql) -> dict[SearchScope, Sql]:
    """Return a statement with the condition of each scope."""
    return {scope: statement.fill(condition=condition) for scope, condition in CONDITIONS.items()}


_PASSES = {scope: SQL.passes.fill(condition=each) for scope, each in READ_CONDITIONS.items()}
_READ_MATCHING_EVENTS = SQL.read_matching_events.fill(
    event_json=event_json("entry.session_id"),
    page=bounded_query(SQL.matching_keys, SQL.matching_events, "place", stored_json.SQL.event_json_size),
)


class SearchFilter(TypedDict, total=False):
    """Options of a search."""

    place: SearchScope
    source: Several[str] | None
    """The format, or the agent that wrote the session."""
    project: Several[str] | None
    """The root of the repository, the agent's working folder or a folder above them, by path or only by name."""
    branch: Several[str] | None
    machine: Several[str] | None
    person: Several[str] | None
    """The name of the key that stored the session."""
    model: Several[str] | None
    """Only sessions with answers of such a model."""
    tool: Several[str] | None
    """Only sessions that called such a tool."""
    edited: Several[str] | None
    """Only sessions that changed such a file: its path, the end of the path, or a folder above."""
    tag: Several[str] | None
    """Only sessions with all of these tags."""
    starred: bool | None
    archived: Archived
    """`include` by default."""
    errors: bool | None
    """Only sessions with errors, or without."""
    role: Role | None
    session_id: UUID | None
    since: datetime | None
    until: datetime | None
    per_session: int | None
    """Only this many results per session, the newest."""
    after: str | None
    limit: int
    redact: bool
    """Match and show redacted texts only."""


def other_readers(*, redacts: bool) -> Readers:
    """Return the kind of rows that a search excludes."""
    return "unredacted" if redacts else "redacted"


async def find(conn: AsyncConnection, q: str, **filters: Unpack[SearchFilter]) -> SearchPage:
    """Return a page, newest first. Raises InvalidParameter, SessionNotFound."""
    page = await _find(conn, q, **filters)
    if filters.get("session_id"):
        return page
    cold = await count_some_cold(conn, MAX_COLD)
    return page.model_copy(update={"cold_sessions": cold}) if cold else page


async def _find(conn: AsyncConnection, q: str, **filters: Unpack[SearchFilter]) -> SearchPage:
    check_keywords("search", filters, SearchFilter)
    parsed = read_query(q)
    limit = filters.get("limit", 20)
    if not 1 <= limit <= MAX_RESULTS:
        raise InvalidParameter(f"limit must be 1 to {MAX_RESULTS}")
    after = filters.get("after")
    sessions = await _find_sessions(conn, filters)
    if sessions is None:
        return SearchPage(results=[])
    first = _read_cursor(after) if after else NEWEST
    params = {
        **sessions.params,
        **dict.fromkeys(("session_id", "role", "since", "until")),
        **{name: value for name, value in filters.items() if name not in _OF_SESSIONS},
        "query": parsed.query,
        "others": other_readers(redacts=filters.get("redact", False)),
        "per_session": filters.get("per_session") or NO_LIMIT,
        "limit": limit + 1,
        **first._asdict(),
    }
    place = filters.get("place", "conversation")
    rows, end, are_nowhere = await _find_matches(conn, place, sessions, params, first)
    if not rows and params["session_id"]:
        await get_session(conn, params["session_id"])
    if not rows and not after and end is None:
        suggestions = await suggest_queries(conn, q, MATCHING[place], params, is_nowhere=are_nowhere)
        return SearchPage(results=[], suggestions=suggestions or None)
    return await _to_page(conn, rows, end, limit, parsed, redacted=filters.get("redact", False))


async def _find_matches(
    conn: AsyncConnection,
    scope: SearchScope,
    sessions: Conditions,
    params: Mapping[str, Any],
    after: ResultKey,
) -> NewestMatches:
    """Return the next matches: of a rare word, or of few sessions, all are sorted and counted."""
    is_limited = bool(sessions.indexed or sessions.further)
    selected = select_sessions(sessions) if is_limited else None
    in_sessions = SQL.is_in_any if selected is None else SQL.is_in_sessions.fill(sessions=selected)
    ids, condition = await list_few(conn, selected, params), CONDITIONS[scope]
    if ids is not None:
        in_sessions, condition = SQL.is_in_some, READ_CONDITIONS[scope]
    else:
        sql = SearchSql(condition, READ_CONDITIONS[scope], _PASSES[scope], in_sessions)
        if matches := await find_newest(conn, sql, params, after):
            return matches
    passes = SQL.passes.fill(condition=condition)
    # Results of one session are in the order of its log, as in `find_newest`, which may return the other pages.
    in_log = newest.SQL.last_first, SQL.is_earlier
    by_time = newest.SQL.newest_first, newest.SQL.is_older
    order, follows = in_log if params["session_id"] else by_time
    statement = SQL.find.fill(passing=passes, in_sessions=in_sessions, order=order, follows=follows)
    async with conn.cursor(binary=True, row_factory=args_row(FoundMatch)) as cursor:
        await cursor.execute(statement, {**params, "ids": ids}, prepare=False)
        return NewestMatches(await cursor.fetchall(), None)


_OF_SESSIONS = (
    "source",
    "project",
    "branch",
    "machine",
    "person",
    "model",
    "tool",
    "edited",
    "tag",
    "starred",
    "archived",
    "errors",
)
"""Filters on the sessions of events."""


async def _find_sessions(conn: AsyncConnection, filters: SearchFilter) -> Conditions | None:
    values: dict[str, Any] = {name: filters.get(name) for name in (*_OF_SESSIONS, "redact")}
    return await find_conditions(conn, {**values, "archived": values["archived"] or "include"})


class FoundEvent(NamedTuple):
    """The stored event of a match."""

    place: int
    """The place of the match, from 1."""
    message_sequence: int | None
    id: str
    type: str
    snippet: Snippet


async def _to_page(
    conn: AsyncConnection,
    matches: Sequence[FoundMatch],
    end: ResultKey | None,
    limit: int,
    parsed: ParsedQuery,
    *,
    redacted: bool,
) -> SearchPage:
    hits = await describe(conn, matches[:limit], parsed, redacted=redacted)
    results = [_to_result(matches[hit.place - 1], hit) for hit in hits]
    read = hits[-1].place if hits else limit
    if read < len(matches):
        last = matches[read - 1]
        end = ResultKey(last.at, last.session_id, last.sequence)
    return SearchPage(results=results, nextAfter=None if end is None else _to_cursor(end))


def _to_result(match: FoundMatch, hit: FoundEvent) -> SearchResult:
    return SearchResult(
        session_id=match.session_id,
        title=match.title,
        external_id=None if match.title else match.external_id,
        source=match.source,
        agent=agent_in(msgspec.json.decode(match.metadata)),
        sequence=hit.message_sequence,
        event_id=hit.id,
        event_sequence=match.sequence,
        type=hit.type,
        role=match.role,
        created_at=match.at,
        snippet=hit.snippet.text,
        marks=hit.snippet.utf16_marks(),
        matches=match.matches,
        at_least=match.at_least or None,
    )


async def describe(
    conn: AsyncConnection, matches: Sequence[IndexedMatch], parsed: ParsedQuery, *, redacted: bool
) -> list[FoundEvent]:
    """Return the events of the first matches, as many as may be read for one page.

    A match has no event if its log is replaced meanwhile, or its words have not been moved.
    """
    places = {
        "sessions": [each.session_id for each in matches],
        "sequences": [each.sequence for each in matches],
        "limit": len(matches),
        "bytes": _MAX_SNIPPET_BYTES,
    }
    rows = await (await conn.execute(_READ_MATCHING_EVENTS, places, binary=True)).fetchall()
    is_large = redacted or sum(len(content) for _, _, content in rows) > MAX_INLINE
    weights = [matches[place - 1].weights for place, _, _ in rows]
    work = partial(_describe_all, rows, weights, parsed.hits, redacted=redacted)
    return await asyncio.to_thread(work) if is_large else work()


def _describe_all(
    rows: Iterable[tuple[int, int | None, bytes]],
    weights: Iterable[list[Weight]],
    hits: Hits,
    *,
    redacted: bool,
) -> list[FoundEvent]:
    return [
        _describe(place, message_sequence, _decode_shown(content, redacted=redacted), allowed, hits)
        for (place, message_sequence, content), allowed in zip(rows, weights, strict=True)
    ]


def _decode_shown(content: bytes, *, redacted: bool) -> SearchedEvent:
    event = decode_event(content)
    return decode_event(redacted_event(event.type, content)) if redacted else event


def _describe(
    place: int, message_sequence: int | None, event: SearchedEvent, weights: list[Weight], hits: Hits
) -> FoundEvent:
    texts = (each.text for each in passages_of(event) if each.weight in weights)
    return FoundEvent(place, message_sequence, event.id, event.type, snippet(texts, hits))


def _to_cursor(last: ResultKey) -> str:
    at = last.at if isinstance(last.at, str) else last.at.isoformat()
    return urlsafe_b64encode(f"{at} {last.id} {last.sequence}".encode()).decode()


def _read_cursor(cursor: str) -> ResultKey:
    try:
        at, id, sequence = urlsafe_b64decode(cursor).decode().split(" ")
        moment = at if at == NEWEST.at else datetime.fromisoformat(at).astimezone(UTC).isoformat()
        if not 0 <= int(sequence) <= LAST_SEQUENCE:
            raise ValueError
        return ResultKey(moment, UUID(id), int(sequence))
    except (ValueError, OverflowError):
        raise InvalidParameter("after is not the cursor of a search") from None
