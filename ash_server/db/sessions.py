"""Sessions: who they are, what they are called, and when something last happened in them.

Every function works on an open connection in autocommit mode (`engine.open_pool` gives such).
"""

import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from secrets import randbits
from typing import Any, NamedTuple, TypedDict, Unpack
from uuid import UUID, uuid5

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from pydantic import Field

from ash_server.db.session_facts import FROM_PERSON, UNNAMED
from ash_server.db.text import check_text
from ash_server.errors import AshError, InvalidParameter, InvalidUtf8, SessionNotFound
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.blocks import MAX_DEPTH, nests_deeper

DEFAULT_TENANT = UUID("36db4084-d553-42c7-8f6e-dc8e38a6a21a")
"""The namespace of the ids of sessions that come from elsewhere; never to be changed."""

MOST_MATCHES = 20
"""`find_sessions` answers no more than these."""

_COLUMNS = """
    id, source, external_id, parent_id, title, metadata, created_at, updated_at, first_at, last_at,
    client_version, provider_session_id,
    CASE WHEN first_prompt IS DISTINCT FROM title THEN first_prompt END AS prompt,
    message_sequence AS message_count, event_sequence - events_dropped AS event_count,
    errors AS error_count, unrecognised AS unrecognised_count
"""
_READ = f"SELECT {_COLUMNS} FROM sessions JOIN session_counters ON session_id = id"  # noqa: S608 (a constant)

_GET = _READ + " WHERE id = %(id)s"
_SOME = _READ + " WHERE id = ANY(%(ids)s)"
_RECENT = (
    "SELECT id, updated_at FROM sessions WHERE updated_at > statement_timestamp() - interval '10 seconds'"
)

_CREATE = """
    WITH made AS (
        INSERT INTO sessions (id, source, external_id, parent_id, title, title_rank, metadata)
        VALUES (%(id)s, %(source)s, %(external_id)s, %(parent_id)s, %(title)s, %(title_rank)s, %(metadata)s)
        ON CONFLICT (id) DO NOTHING
        RETURNING id
    ), counted AS (
        INSERT INTO session_counters (session_id) SELECT id FROM made
    )
    INSERT INTO search_progress (session_id) SELECT id FROM made
"""

_LIST = f"""
    {_READ}
    WHERE (least(last_at, updated_at), id) < (%(active_at)s::timestamptz, %(id)s::uuid)
      AND (%(source)s::text IS NULL OR source = %(source)s)
      AND (%(parent_id)s::uuid IS NULL OR parent_id = %(parent_id)s)
      AND (%(provider_session_id)s::text IS NULL OR provider_session_id = %(provider_session_id)s)
      AND (%(errors)s::bool IS NULL OR (errors > 0) = %(errors)s)
      AND (%(since)s::timestamptz IS NULL OR least(last_at, updated_at) >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR least(last_at, updated_at) < %(until)s)
      AND (%(q)s::text IS NULL OR strpos(lower(concat_ws(E'\n', title, external_id)), lower(%(q)s)) > 0)
    ORDER BY least(last_at, updated_at) DESC, id DESC
    LIMIT %(limit)s
"""

_UPDATE = """
    UPDATE sessions
    SET title = CASE WHEN %(retitle)s THEN %(title)s ELSE title END,
        title_rank = CASE WHEN %(retitle)s THEN %(title_rank)s ELSE title_rank END,
        metadata = coalesce(%(metadata)s, metadata),
        updated_at = statement_timestamp()
    WHERE id = %(id)s
"""

_GIVEN = "SELECT parent_id, CASE title_rank WHEN %s THEN title END, metadata FROM sessions WHERE id = %s"


# The lock that appends take is taken first here too: otherwise each could hold what the other waits for. It is a
# statement of its own, so that the next ones see what was committed while it was waited for.
_LOCK = "SELECT FROM session_counters WHERE session_id = %s FOR UPDATE"
_DELETE_EVENTS = "DELETE FROM events WHERE session_id = %s"
# Who holds this row may be writing to `search`, which takes a lock of the session.
_DELETE_PROGRESS = "DELETE FROM search_progress WHERE session_id = %s"
_DELETE = "DELETE FROM sessions WHERE id = %s"


class Session(AshModel):
    """A conversation, without its messages."""

    id: UUID
    source: str
    """The format most of it is written in; `unknown` until a message shows it."""
    external_id: Omittable[str] = Field(default=ABSENT, alias="externalId")
    """What it is called where it comes from."""
    parent_id: Omittable[UUID] = Field(default=ABSENT, alias="parentId")
    """The session it was forked from or started by."""
    title: Omittable[str] = ABSENT
    """The one that a person gave; else what the tool calls it; else the beginning of the first prompt."""
    prompt: Omittable[str] = ABSENT
    """The beginning of the first prompt, where that is not the title."""
    created_at: datetime = Field(alias="createdAt")
    updated_at: datetime = Field(alias="updatedAt")
    """When something was last stored in it, or it was changed."""
    first_at: Omittable[datetime] = Field(default=ABSENT, alias="firstAt")
    """When its first message was written, by its own account; absent where none tells."""
    last_at: Omittable[datetime] = Field(default=ABSENT, alias="lastAt")
    """When its last message was written, by its own account."""
    message_count: int = Field(alias="messageCount")
    event_count: int = Field(alias="eventCount")
    error_count: int = Field(alias="errorCount")
    """How many of the events tell of an error, or of a tool that failed."""
    unrecognised_count: int = Field(alias="unrecognisedCount")
    """How many of the events are records that no table knows (`raw`)."""
    metadata: dict[str, Any]
    """What the writer gave; and, where the writer gave no such keys, `sessionId`, the provider's own id of the
    session, and `cliVersion`, the version of the tool that wrote it, as its messages name them."""

    @property
    def name(self) -> str:
        """What people call it."""
        return next(name for name in (self.title, self.external_id, str(self.id)) if name is not None)


class SessionPage(AshModel):
    """Sessions, newest activity first."""

    sessions: list[Session]
    next_after: Omittable[str] = Field(default=ABSENT, alias="nextAfter")
    """Opaque; absent on the last page."""


class SessionFields(TypedDict, total=False):
    """What a writer may say of a new session. With an external id, the session's id follows from it."""

    id: UUID | None
    source: str
    external_id: str | None
    parent_id: UUID | None
    title: str | None
    metadata: dict[str, Any] | None


class SessionChanges(TypedDict, total=False):
    """What may be changed later; a key that is left out stays as it is."""

    title: str | None
    metadata: dict[str, Any]


class Created(NamedTuple):
    session: Session
    created: bool
    """False where the session was there already: it is answered as it is, whatever the writer says now."""


class AmbiguousSession(AshError):
    status, code, title = 409, "ambiguous_session", "Several sessions go by this name."

    def __init__(self, reference: str, found: Sequence[Session]) -> None:
        shown = ", ".join(map(_told_apart, found[:3]))
        super().__init__(f"several sessions go by {reference!r}: {shown}{' …' if found[3:] else ''}")


async def create_session(conn: AsyncConnection, **fields: Unpack[SessionFields]) -> Created:
    """Gets or creates: writers that race for one external id all get the session, one of them as created."""
    values = _checked(fields)
    while True:  # again where somebody deletes it between the two statements
        made = await conn.execute(_CREATE, values)
        if found := await _read(conn, _GET, values):
            return Created(found[0], made.rowcount == 1)


async def get_session(conn: AsyncConnection, session_id: UUID) -> Session:
    """Raises SessionNotFound."""
    found = await _read(conn, _GET, {"id": session_id})
    if not found:
        raise SessionNotFound
    return found[0]


class SessionFilter(TypedDict, total=False):
    """Which sessions a list has."""

    after: str | None
    """The `next_after` of the page before."""
    limit: int
    """100 where it is left out, at most 1,000."""
    source: str | None
    q: str | None
    """Is looked for in titles and external ids."""
    parent_id: UUID | None
    provider_session_id: str | None
    """The last one that a message names."""
    since: datetime | None
    """Only those that were active then or later."""
    until: datetime | None
    """Only those whose last activity was before."""
    errors: bool | None
    """Only those that tell of errors, or only the others."""


_ANY = dict.fromkeys(("source", "q", "parent_id", "provider_session_id", "since", "until", "errors"))


async def list_sessions(conn: AsyncConnection, **wanted: Unpack[SessionFilter]) -> SessionPage:
    """Newest activity first."""
    limit, after = wanted.get("limit", 100), wanted.get("after")
    for text in (wanted.get("source"), wanted.get("q"), wanted.get("provider_session_id")):
        check_text(text or "", "a filter")
    if not 1 <= limit <= 1000:
        raise InvalidParameter("limit is 1 to 1000")
    moment, last_id = _read_cursor(after) if after else ("infinity", UUID(int=2**128 - 1))
    place = {"active_at": moment, "id": last_id, "limit": limit + 1}
    found = await _read(conn, _LIST, {**_ANY, **wanted, **place})
    return _to_page(found, limit)


async def get_sessions(conn: AsyncConnection, session_ids: Collection[UUID]) -> list[Session]:
    """Those of them that are there."""
    return await _read(conn, _SOME, {"ids": list(session_ids)})


async def recent_sessions(conn: AsyncConnection) -> dict[UUID, datetime]:
    """Those in which something was stored, or that were changed, in the last seconds, and when."""
    return dict(await (await conn.execute(_RECENT)).fetchall())


def active_at(session: Session) -> datetime:
    """When its last message was written, by its own account, which is not after it was stored; else when something
    was last stored: what lists are ordered by."""
    return session.updated_at if session.last_at is None else min(session.last_at, session.updated_at)


async def update_session(
    conn: AsyncConnection, session_id: UUID, **changes: Unpack[SessionChanges]
) -> Session:
    """`metadata` is replaced as a whole."""
    title, metadata = changes.get("title"), changes.get("metadata")
    check_text(title or "", "the title")
    values = {
        "id": session_id,
        "retitle": "title" in changes,
        "title": title,
        "title_rank": _rank(title),
        "metadata": None if metadata is None else _encode(metadata),
    }
    await conn.execute(_UPDATE, values)
    return await get_session(conn, session_id)


async def delete_session(conn: AsyncConnection, session_id: UUID) -> None:
    """Takes its messages along, and its events, which no foreign key holds to it."""
    async with conn.transaction():
        if not (await conn.execute(_LOCK, [session_id])).rowcount:
            raise SessionNotFound
        await conn.execute(_DELETE_PROGRESS, [session_id])
        await conn.execute(_DELETE_EVENTS, [session_id])
        await conn.execute(_DELETE, [session_id])


async def find_sessions(conn: AsyncConnection, reference: str) -> list[Session]:
    """By what a person types: an external id or an id; where neither is known, the beginning of an id, or the
    provider's own id of the session, which its subagents may share."""
    check_text(reference, "the reference")
    named = await _read(
        conn, _READ + " WHERE external_id = %(name)s LIMIT %(limit)s", _limited(name=reference)
    )
    digits = reference.replace("-", "").lower()
    if not named and re.fullmatch("[0-9a-f]{1,32}", digits):
        bounds = _limited(low=UUID(digits.ljust(32, "0")), high=UUID(digits.ljust(32, "f")))
        named = await _read(conn, _READ + " WHERE id BETWEEN %(low)s AND %(high)s LIMIT %(limit)s", bounds)
    return named or await _find_by_provider(conn, reference)


async def _find_by_provider(conn: AsyncConnection, reference: str) -> list[Session]:
    found = await _read(
        conn, _READ + " WHERE provider_session_id = %(name)s LIMIT %(limit)s", _limited(name=reference)
    )
    started = [session for session in found if session.parent_id is None]
    return started if len(started) == 1 else found


async def is_unterminated(conn: AsyncConnection, session_id: UUID) -> bool:
    """Whether the text the session was imported from lacks a final newline."""
    cursor = await conn.execute("SELECT unterminated FROM sessions WHERE id = %s", [session_id])
    if not (row := await cursor.fetchone()):
        raise SessionNotFound
    return bool(row[0])


async def set_unterminated(conn: AsyncConnection, session_id: UUID, unterminated: bool) -> None:
    changed = await conn.execute(
        "UPDATE sessions SET unterminated = %s WHERE id = %s", [unterminated, session_id]
    )
    if not changed.rowcount:
        raise SessionNotFound


async def set_parent(conn: AsyncConnection, session_id: UUID, parent_id: UUID) -> None:
    """Where none is known yet."""
    await conn.execute(
        "UPDATE sessions SET parent_id = %s WHERE id = %s AND parent_id IS NULL", [parent_id, session_id]
    )


async def get_given(conn: AsyncConnection, session_id: UUID) -> SessionFields:
    """What people said of it: what its messages tell is left out. Raises SessionNotFound."""
    found = await conn.execute(_GIVEN, [FROM_PERSON, session_id])
    if not (row := await found.fetchone()):
        raise SessionNotFound
    parent_id, title, metadata = row
    return {
        "id": session_id,
        "parent_id": parent_id,
        "title": title,
        "metadata": msgspec.json.decode(metadata),
    }


async def stored_sessions(conn: AsyncConnection, session_ids: Sequence[UUID]) -> set[UUID]:
    """Those of them that are there."""
    found = await conn.execute("SELECT id FROM sessions WHERE id = ANY(%s)", [list(session_ids)])
    return {row[0] for row in await found.fetchall()}


def session_id_for(source: str, external_id: str) -> UUID:
    """The id of a session that comes from elsewhere: the same wherever and whenever it is computed."""
    return uuid5(uuid5(DEFAULT_TENANT, source), external_id)


def uuid7() -> UUID:
    """A random id that begins with the clock, so that rows made together lie together in an index."""
    milliseconds = time.time_ns() // 1_000_000
    unversioned = milliseconds << 80 | randbits(80)
    return UUID(int=unversioned & ~(0xF << 76 | 0x3 << 62) | 0x7 << 76 | 0x2 << 62)


def _told_apart(session: Session) -> str:
    moment = active_at(session).astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{session.id} ({session.source}, {moment})"


def _checked(fields: SessionFields) -> dict[str, Any]:
    source = fields.get("source", "unknown")
    external_id, title = fields.get("external_id"), fields.get("title")
    for name, text in (("source", source), ("externalId", external_id), ("title", title)):
        check_text(text or "", name)
    derived_id = uuid7() if external_id is None else session_id_for(source, external_id)
    return {
        "id": fields.get("id") or derived_id,
        "source": source,
        "external_id": external_id,
        "parent_id": fields.get("parent_id"),
        "title": title,
        "title_rank": _rank(title),
        "metadata": _encode(fields.get("metadata") or {}),
    }


def _rank(title: str | None) -> int:
    return UNNAMED if title is None else FROM_PERSON


def _limited(**wanted: Any) -> dict[str, Any]:
    return {**wanted, "limit": MOST_MATCHES}


async def _read(conn: AsyncConnection, query: str, wanted: Mapping[str, Any]) -> list[Session]:
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, wanted)
        return [_to_session(row) for row in await cursor.fetchall()]


def _to_session(row: DictRow) -> Session:
    present = {name: value for name, value in row.items() if value is not None}
    told = {key: present[name] for key, name in _TOLD.items() if name in present}
    return Session.model_validate({**present, "metadata": {**told, **msgspec.json.decode(row["metadata"])}})


_TOLD = {"sessionId": "provider_session_id", "cliVersion": "client_version"}


def _to_page(found: list[Session], limit: int) -> SessionPage:
    """Of one session more than asked for, which tells that there is a next page."""
    page = found[:limit]
    return SessionPage(sessions=page, nextAfter=_to_cursor(page[-1]) if len(found) > limit else None)


def _to_cursor(last: Session) -> str:
    return urlsafe_b64encode(f"{active_at(last).isoformat()} {last.id}".encode()).decode()


def _read_cursor(cursor: str) -> tuple[str, UUID]:
    try:
        moment, _, last_id = urlsafe_b64decode(cursor).decode().partition(" ")
        return datetime.fromisoformat(moment).astimezone(UTC).isoformat(), UUID(last_id)
    except (ValueError, OverflowError):
        raise InvalidParameter("after is not a cursor that a list of sessions gave") from None


def _encode(metadata: dict[str, Any]) -> str:
    if nests_deeper(metadata, MAX_DEPTH):
        raise InvalidParameter(f"the metadata is nested deeper than {MAX_DEPTH}")
    try:
        return msgspec.json.encode(metadata).decode()
    except UnicodeEncodeError:
        raise InvalidUtf8("the metadata holds half a surrogate pair, which UTF-8 cannot say") from None
