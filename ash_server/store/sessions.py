"""Sessions: create, find, list, change and delete.

Functions take a connection in autocommit mode (`connection.open_pool`); `ash_server.store.repositories` calls them.
"""

import asyncio
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self, TypedDict, Unpack
from uuid import UUID, uuid5

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from ash_server.errors import (
    AshError,
    BodyTooLarge,
    InvalidParameter,
    InvalidUtf8,
    SequenceMismatch,
    SessionNotFound,
)
from ash_server.ids import uuid7
from ash_server.store.connections.pool import change_row, one_transaction
from ash_server.store.connections.tenants import DEFAULT, Tenant, tenant_of
from ash_server.store.search.redacted_matches import Match, project_patterns, redacted_match, select_matching
from ash_server.store.session_facts import FROM_PERSON, UNNAMED
from ash_server.store.text import check_text
from ash_shared.model.blocks import MAX_DEPTH, nests_deeper
from ash_shared.model.session import Session, SessionPage, active_at

MAX_METADATA_BYTES = 64 * 1024
"""Lists return the metadata of each session."""

MAX_MATCHES = 20
"""Sessions returned by `find_sessions`."""

_COLUMNS = """
    id, source, external_id, title, metadata, created_at, updated_at, first_at, last_at, file_modified_at,
    client_version, provider_session_id, parent_id, parent_external_id,
    CASE WHEN path IS DISTINCT FROM external_id THEN path END AS path, copy_of, copied_messages,
    nullif(agent_id, '') AS agent_id,
    CASE WHEN first_prompt IS DISTINCT FROM title THEN first_prompt END AS prompt,
    message_sequence AS message_count, event_sequence - last_dropped_sequence AS event_count,
    errors AS error_count, unrecognised AS unrecognised_count
"""
_READ = f"SELECT {_COLUMNS} FROM sessions JOIN session_counters ON session_id = id"  # noqa: S608  # constant SQL

_GET = _READ + " WHERE id = %(id)s"
_SOME = _READ + " WHERE id = ANY(%(ids)s)"
_RECENT = (
    "SELECT id, updated_at FROM sessions WHERE updated_at > statement_timestamp() - interval '10 seconds'"
)

_REDACTED_BATCH = 100
"""Sessions compared at a time."""

_TREE_COLUMNS = "id, nullif(agent_id, ''), copied_messages, copy_of"
_ROOT = f"SELECT {_TREE_COLUMNS} FROM sessions WHERE id = %b"  # noqa: S608  # constant SQL
# A session with a parent and an empty agent is a fork.
_CHILDREN = f"""
    SELECT {_TREE_COLUMNS} FROM sessions WHERE parent_id = ANY(%b) AND agent_id IS DISTINCT FROM ''
"""  # noqa: S608  # constant SQL

_CREATE = """
    INSERT INTO sessions (id, source, external_id, parent_id, parent_external_id, title, title_priority, metadata)
    VALUES (%(id)s, %(source)s, %(external_id)s, %(parent_id)s, %(parent_external_id)s, %(title)s, %(title_priority)s,
        %(metadata)s)
    ON CONFLICT (id) DO NOTHING
    RETURNING id
"""
_CREATE_COUNTERS = "INSERT INTO session_counters (session_id) VALUES (%(id)s)"
_CREATE_PROGRESS = "INSERT INTO search_progress (session_id) VALUES (%(id)s)"

_ACTIVE_AT = "least(coalesce(last_at, file_modified_at), updated_at)"
"""The time of the last activity, see `active_at`."""

_MAX_PROJECT_LINES, _MAX_PROJECT_CHARACTERS = 10, 20_000
"""Where a transcript names its folder: in the first characters of the first lines."""

_LIST = f"""
    {_READ}
    WHERE ({_ACTIVE_AT}, id) < (%(active_at)s::timestamptz, %(id)s::uuid)
      AND (%(source)s::text IS NULL OR source = %(source)s)
      AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s))
      AND (%(parent_id)s::uuid IS NULL OR sessions.parent_id = %(parent_id)s)
      AND (%(provider_session_id)s::text IS NULL OR provider_session_id = %(provider_session_id)s)
      AND (%(external_id)s::text IS NULL OR external_id = %(external_id)s)
      AND (%(external_id_prefix)s::text IS NULL OR (
          external_id ~>=~ %(external_id_prefix)s::text
          AND external_id ~<~ (%(external_id_prefix)s::text || chr(1114111))))
      AND (%(errors)s::bool IS NULL OR (errors > 0) = %(errors)s)
      AND (%(since)s::timestamptz IS NULL OR {_ACTIVE_AT} >= %(since)s)
      AND (%(until)s::timestamptz IS NULL OR {_ACTIVE_AT} < %(until)s)
      AND (%(folder)s::text IS NULL OR external_id ~ %(transcripts)s OR EXISTS (
          SELECT FROM messages
          WHERE session_id = sessions.id AND sequence <= {_MAX_PROJECT_LINES}
            AND left(content, {_MAX_PROJECT_CHARACTERS}) ~ %(folder)s))
      AND (%(q)s::text IS NULL OR strpos(lower(concat_ws(E'\n', title, external_id)), lower(%(q)s)) > 0
        OR starts_with(id::text, %(id_prefix)s::text))
    ORDER BY {_ACTIVE_AT} DESC, id DESC
    LIMIT %(limit)s
"""

_HEADS = f"""
    SELECT session_id, left(content, {_MAX_PROJECT_CHARACTERS})
    FROM messages WHERE session_id = ANY(%s) AND sequence <= {_MAX_PROJECT_LINES}
"""  # noqa: S608  # constant SQL

_UPDATE = """
    UPDATE sessions
    SET title = CASE WHEN %(retitle)s THEN %(title)s ELSE title END,
        title_priority = CASE WHEN %(retitle)s THEN %(title_priority)s ELSE title_priority END,
        metadata = coalesce(%(metadata)s, metadata),
        updated_at = statement_timestamp()
    WHERE id = %(id)s
"""

_SET_METADATA = "UPDATE sessions SET metadata = %s, updated_at = statement_timestamp() WHERE id = %s"

_AT_PATH = "SELECT id FROM sessions WHERE path = %s AND id <> %s ORDER BY created_at DESC LIMIT 1"
_GET_PARENT = "SELECT parent_id FROM sessions WHERE id = %s"
_SET_PARENT = """
    UPDATE sessions
    SET parent_id = coalesce(%(at_path)s::uuid, %(parent_id)s), parent_external_id = %(parent_external_id)s
    WHERE id = %(id)s AND (
        parent_id IS NULL
        OR (parent_id = %(parent_id)s AND parent_external_id IS NULL)
        OR parent_id = %(replaced)s::uuid)
"""

_SET_FILE_TIME = """
    UPDATE sessions
    SET file_modified_at = CASE
        WHEN %(has_grown)s THEN %(modified_at)s ELSE least(file_modified_at, %(modified_at)s) END
    WHERE id = %(id)s
"""

_SET_UNTERMINATED = """
    UPDATE sessions SET lacks_final_newline = %(unterminated)s
    WHERE id = %(id)s AND (%(last_message)s::text IS NULL OR EXISTS (
        SELECT FROM session_counters JOIN messages USING (session_id)
        WHERE session_id = %(id)s AND sequence = message_sequence AND messages.id = %(last_message)s))
"""

_SET_BY_WRITER = """
    SELECT parent_id, parent_external_id, CASE WHEN title_priority = %s THEN title END, metadata
    FROM sessions WHERE id = %s
"""


# Takes the lock that appends take first, which avoids deadlocks. A separate statement, so that the next ones see what
# was committed while it waited.
_LOCK = "SELECT message_sequence FROM session_counters WHERE session_id = %s FOR UPDATE"
_DELETE_EVENTS = "DELETE FROM events WHERE session_id = %s"
_DELETE_MESSAGES = "DELETE FROM messages WHERE session_id = %s"
# Deleted first, to wait for an indexer of the session: it locks this row, then the row in `sessions` by inserting
# into `search`.
_DELETE_PROGRESS = "DELETE FROM search_progress WHERE session_id = %s"
_DELETE = "DELETE FROM sessions WHERE id = %s"
# The copy with the most messages of a deleted session becomes the original of the other copies, whose shared messages
# so still count once; it stays a copy of what the deleted session was a copy of.
_REPLACE_ORIGINAL = """
    WITH deleted AS (SELECT lineage, copy_of, copied_messages FROM sessions WHERE id = %(id)s), copies AS (
        SELECT sessions.id, sessions.copied_messages, first_value(sessions.id) OVER (
            ORDER BY sessions.copied_messages DESC, first_at NULLS LAST, created_at, sessions.id
        ) AS original
        FROM sessions
        WHERE sessions.copy_of = %(id)s AND sessions.id IN (
            SELECT tenant_lineages.id FROM tenant_lineages, deleted WHERE tenant_lineages.lineage && deleted.lineage
        )
    )
    UPDATE sessions
    SET copy_of = CASE WHEN sessions.id = original THEN deleted.copy_of ELSE original END,
        copied_messages = CASE
            WHEN sessions.id <> original THEN copies.copied_messages
            WHEN deleted.copy_of IS NOT NULL THEN least(deleted.copied_messages, copies.copied_messages)
        END
    FROM copies, deleted WHERE sessions.id = copies.id
"""


class TreeSession(NamedTuple):
    """A session, or a session of one of its subagents at any depth."""

    id: UUID
    agent_id: str | None
    copied_messages: int
    """The number of messages at the beginning that are copies of those of another stored session."""


class SessionFields(TypedDict, total=False):
    """Fields of a new session. The id is computed from `source` and `external_id` if there is one."""

    id: UUID | None
    source: str
    external_id: str | None
    parent_id: UUID | None
    parent_external_id: str | None
    title: str | None
    metadata: dict[str, Any] | None


class SessionChanges(TypedDict, total=False):
    """Fields to change; absent fields stay as they are."""

    title: str | None
    metadata: dict[str, Any]


class Created(NamedTuple):
    session: Session
    created: bool
    """False if the session existed; it is returned unchanged."""


class AmbiguousSession(AshError):
    status, code, title = 409, "ambiguous_session", "Several sessions match this name."

    @classmethod
    def named(cls, reference: str, matches: Sequence[Session]) -> Self:
        """Return the error of a command, whose message repeats the reference and the sources."""
        shown = ", ".join(map(_identify, matches[:3]))
        return cls(f"several sessions match {reference!r}: {shown}{' …' if matches[3:] else ''}")


async def create_session(conn: AsyncConnection, **fields: Unpack[SessionFields]) -> Created:
    """Get or create a session. Of concurrent callers with one external id, exactly one creates it."""
    params = _to_params(fields, tenant_of(conn))
    while True:  # repeat if it is deleted between the two statements
        stored = conn.cursor(row_factory=dict_row)
        async with one_transaction(conn):
            created = await (await conn.execute(_CREATE, params)).fetchone()
            if created:
                await conn.execute(_CREATE_COUNTERS, params)
                await conn.execute(_CREATE_PROGRESS, params)
            await stored.execute(_GET, params)
        if rows := await _to_sessions(conn, await stored.fetchall()):
            return Created(rows[0], created is not None)


async def get_session(conn: AsyncConnection, session_id: UUID) -> Session:
    """Raises SessionNotFound."""
    rows = await _fetch_sessions(conn, _GET, {"id": session_id})
    if not rows:
        raise SessionNotFound
    return rows[0]


async def get_tree(conn: AsyncConnection, session_id: UUID) -> list[TreeSession]:
    """Return the session and the stored sessions of its subagents, each once. An unknown session has none."""
    tree: dict[UUID, tuple[Any, ...]] = {}
    level = await (await conn.execute(_ROOT, [session_id])).fetchall()
    while level:
        tree |= {row[0]: row for row in level}
        children = await (await conn.execute(_CHILDREN, [[row[0] for row in level]])).fetchall()
        level = [row for row in children if row[0] not in tree]  # a circle of parents ends
    originals = await existing_ids(conn, [row[3] for row in tree.values() if row[3] is not None])
    return [
        TreeSession(id, agent_id, copied if original in originals else 0)
        for id, agent_id, copied, original in (tree[id] for id in sorted(tree))
    ]


class SessionFilter(TypedDict, total=False):
    """Options of a page of sessions."""

    after: str | None
    """The `next_after` of the previous page."""
    limit: int
    """100 by default, at most 1,000."""
    source: str | None
    q: str | None
    """Text in the title or external id, in any case, or the beginning of the id."""
    parent_id: UUID | None
    provider_session_id: str | None
    """The provider's session id in the last message that names one."""
    since: datetime | None
    """Only sessions with activity at this time or later."""
    until: datetime | None
    """Only sessions whose last activity was before this time."""
    errors: bool | None
    """True: only sessions with errors; False: only those without."""
    external_id: str | None
    external_id_prefix: str | None
    """The beginning of the external id."""
    project: str | None
    """The folder in which the agent worked, or in which that folder is: its path, or only its name."""
    reference: str | None
    """Only sessions that `find_sessions` returns for this reference."""
    redact: bool
    """Compare parts of texts with redacted texts, so that a prefix of a secret finds nothing."""


_TEXT_FILTERS = ("source", "q", "provider_session_id", "external_id", "external_id_prefix", "project")
_NO_FILTERS = dict.fromkeys((*_TEXT_FILTERS, "parent_id", "since", "until", "errors"))


async def list_sessions(conn: AsyncConnection, **filters: Unpack[SessionFilter]) -> SessionPage:
    """Return a page, most recent activity first. Raises InvalidParameter."""
    limit, after = filters.get("limit", 100), filters.get("after")
    for name in _TEXT_FILTERS:
        check_text(str(filters.get(name) or ""), name)
    if not 1 <= limit <= 1000:
        raise InvalidParameter("limit must be 1 to 1000")
    moment, last_id = _read_cursor(after) if after else ("infinity", UUID(int=2**128 - 1))
    position = {"active_at": moment, "id": last_id, "limit": limit + 1}
    patterns = {**project_patterns(filters.get("project")), "id_prefix": _id_prefix(filters.get("q"))}
    reference = filters.get("reference")
    referenced = None if reference is None else await find_sessions(conn, reference)
    ids = None if referenced is None else [session.id for session in referenced]
    params = {**_NO_FILTERS, **filters, **position, **patterns, "ids": ids}
    matches = redacted_match(filters) if filters.get("redact") else None
    if matches is None:
        return _to_page(await _fetch_sessions(conn, _LIST, params), limit)
    return _to_page([row async for row in _list_redacted(conn, params, matches)], limit)


async def _list_redacted(
    conn: AsyncConnection, params: dict[str, Any], matches: Match
) -> AsyncGenerator[Session, None]:
    """Yield up to `limit` sessions that match by their redacted texts.

    Sessions that match only unredacted are skipped, however many there are: a short page would reveal them.
    """
    count = 0
    while rows := await _fetch_sessions(conn, _LIST, {**params, "limit": _REDACTED_BATCH}):
        heads = await _read_heads(conn, [row.id for row in rows]) if params["folder"] else {}
        shown = await asyncio.to_thread(select_matching, rows, heads, matches)
        for row in shown[: params["limit"] - count]:
            yield row
        count += len(shown)
        if count >= params["limit"] or len(rows) < _REDACTED_BATCH:
            return
        params = {**params, "active_at": active_at(rows[-1]).isoformat(), "id": rows[-1].id}


async def _read_heads(conn: AsyncConnection, session_ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    """Return the first lines of transcripts, which contain their folders."""
    heads: dict[UUID, list[str]] = {}
    for session_id, text in await (await conn.execute(_HEADS, [session_ids])).fetchall():
        heads.setdefault(session_id, []).append(text)
    return heads


def _id_prefix(q: str | None) -> str | None:
    """Return the text as the beginning of an id, if it is long enough to mean one."""
    prefix = (q or "").lower()
    return prefix if re.fullmatch(r"[0-9a-f]{4}[0-9a-f-]{0,32}", prefix) else None


async def get_sessions(conn: AsyncConnection, session_ids: Collection[UUID]) -> list[Session]:
    """Return the sessions with these ids; unknown ids are skipped."""
    return await _fetch_sessions(conn, _SOME, {"ids": list(session_ids)})


async def recent_sessions(conn: AsyncConnection) -> dict[UUID, datetime]:
    """Return the sessions changed within the last 10 seconds and the time of the change."""
    return dict(await (await conn.execute(_RECENT)).fetchall())


async def update_session(
    conn: AsyncConnection, session_id: UUID, **changes: Unpack[SessionChanges]
) -> Session:
    """Change a session; `metadata` is replaced as a whole. Raises SessionNotFound."""
    title, metadata = changes.get("title"), changes.get("metadata")
    check_text(title or "", "the title")
    params = {
        "id": session_id,
        "retitle": "title" in changes,
        "title": title,
        "title_priority": _rank(title),
        "metadata": None if metadata is None else _encode(metadata),
    }
    await change_row(conn, _UPDATE, params)
    return await get_session(conn, session_id)


def merge_metadata(stored: str, changes: Mapping[str, Any]) -> str:
    """Return metadata with changes, as JSON. A key whose new value is None is removed. Raises BodyTooLarge."""
    merged = {**msgspec.json.decode(stored), **changes}
    removed = {key for key, value in changes.items() if value is None}
    metadata = _encode({key: merged[key] for key in merged if key not in removed})
    if len(metadata.encode()) > MAX_METADATA_BYTES:
        raise BodyTooLarge(f"The metadata of a session has at most {MAX_METADATA_BYTES} bytes.")
    return metadata


def check_sequence(expected: int | None, last: int) -> None:
    """Raise SequenceMismatch unless the last sequence of a session is the expected one, or none is expected."""
    if expected not in (None, last):
        raise SequenceMismatch(f"the last sequence is {last}", currentSequence=last)


async def set_metadata(conn: AsyncConnection, session_id: UUID, metadata: str) -> None:
    await conn.execute(_SET_METADATA, [metadata, session_id])


async def delete_session(
    conn: AsyncConnection, session_id: UUID, *, expected_sequence: int | None = None
) -> None:
    """Delete a session with its messages and events, which have no foreign key.

    Raises SessionNotFound, SequenceMismatch.
    """
    async with conn.transaction():
        row = await (await conn.execute(_LOCK, [session_id])).fetchone()
        if row is None:
            raise SessionNotFound
        check_sequence(expected_sequence, row[0])
        await conn.execute(_DELETE_PROGRESS, [session_id])
        await conn.execute(_DELETE_EVENTS, [session_id])
        await conn.execute(_DELETE_MESSAGES, [session_id])
        await conn.execute(_REPLACE_ORIGINAL, {"id": session_id})
        await conn.execute(_DELETE, [session_id])


async def find_sessions(conn: AsyncConnection, reference: str) -> list[Session]:
    """Return the sessions that match a reference typed by a person.

    A reference is an external id or the path of a transcript, else an id or id prefix, else the provider's session id
    (shared by subagents).
    """
    check_text(reference, "the reference")
    matches = await _fetch_sessions(
        conn,
        _READ + " WHERE external_id = %(name)s OR path = %(name)s LIMIT %(limit)s",
        _limited(name=reference),
    )
    digits = reference.replace("-", "").lower()
    if not matches and re.fullmatch("[0-9a-f]{1,32}", digits):
        bounds = _limited(low=UUID(digits.ljust(32, "0")), high=UUID(digits.ljust(32, "f")))
        matches = await _fetch_sessions(
            conn, _READ + " WHERE id BETWEEN %(low)s AND %(high)s LIMIT %(limit)s", bounds
        )
    return matches or await _find_by_provider(conn, reference)


async def _find_by_provider(conn: AsyncConnection, reference: str) -> list[Session]:
    matches = await _fetch_sessions(
        conn, _READ + " WHERE provider_session_id = %(name)s LIMIT %(limit)s", _limited(name=reference)
    )
    roots = [each for each in matches if each.parent_id is None and each.parent_external_id is None]
    return roots if len(roots) == 1 else matches


async def is_unterminated(conn: AsyncConnection, session_id: UUID) -> bool:
    """True if the imported file had no final newline. Raises SessionNotFound."""
    cursor = await conn.execute("SELECT lacks_final_newline FROM sessions WHERE id = %s", [session_id])
    if not (row := await cursor.fetchone()):
        raise SessionNotFound
    return bool(row[0])


async def set_unterminated(
    conn: AsyncConnection, session_id: UUID, unterminated: bool, last_message: str | None = None
) -> None:
    """Raises SessionNotFound. With `last_message`, nothing changes unless this is the id of the last message."""
    params = {"id": session_id, "unterminated": unterminated, "last_message": last_message}
    changed = await change_row(conn, _SET_UNTERMINATED, params)
    if last_message is None and not changed:
        raise SessionNotFound


async def set_file_time(
    conn: AsyncConnection, session_id: UUID, modified_at: datetime, *, has_grown: bool
) -> None:
    """Store when the file was modified. For a file without new lines, the earlier time is kept: it may be a copy."""
    await change_row(
        conn, _SET_FILE_TIME, {"id": session_id, "modified_at": modified_at, "has_grown": has_grown}
    )


async def set_parent(
    conn: AsyncConnection, session_id: UUID, parent_id: UUID, external_id: str | None = None
) -> None:
    """Set the parent unless there is another one. It need not be stored; then its external id is shown."""
    at_path = await _fetch_id(conn, _AT_PATH, [external_id, session_id])
    current = await _fetch_id(conn, _GET_PARENT, [session_id])
    is_replaced = at_path is not None and current is not None and not await existing_ids(conn, [current])
    params = {
        "id": session_id,
        "parent_id": parent_id,
        "parent_external_id": external_id,
        "at_path": at_path,
        "replaced": current if is_replaced else None,
    }
    await change_row(conn, _SET_PARENT, params)


async def _fetch_id(conn: AsyncConnection, query: str, params: Sequence[Any]) -> UUID | None:
    row = await (await conn.execute(query, params)).fetchone()
    return row[0] if row else None


async def get_writer_fields(conn: AsyncConnection, session_id: UUID) -> SessionFields:
    """Return the fields set by a writer, without those derived from messages. Raises SessionNotFound."""
    cursor = await conn.execute(_SET_BY_WRITER, [FROM_PERSON, session_id])
    if not (row := await cursor.fetchone()):
        raise SessionNotFound
    parent_id, parent_external_id, title, metadata = row
    return {
        "id": session_id,
        "parent_id": parent_id,
        "parent_external_id": parent_external_id,
        "title": title,
        "metadata": msgspec.json.decode(metadata),
    }


async def existing_ids(conn: AsyncConnection, session_ids: Sequence[UUID]) -> set[UUID]:
    """Return the ids of existing sessions among these."""
    cursor = await conn.execute("SELECT id FROM sessions WHERE id = ANY(%s)", [list(session_ids)])
    return {row[0] for row in await cursor.fetchall()}


def session_id_for(source: str, external_id: str, tenant: Tenant = DEFAULT) -> UUID:
    """Compute the id of a session with an external id."""
    return uuid5(uuid5(tenant.id, source), external_id)


def _identify(session: Session) -> str:
    moment = active_at(session).astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{session.id} ({session.source}, {moment})"


def _to_params(fields: SessionFields, tenant: Tenant) -> dict[str, Any]:
    source = fields.get("source", "unknown")
    external_id, title = fields.get("external_id"), fields.get("title")
    for name, text in (("source", source), ("externalId", external_id), ("title", title)):
        check_text(text or "", name)
    derived_id = uuid7() if external_id is None else session_id_for(source, external_id, tenant)
    return {
        "id": fields.get("id") or derived_id,
        "source": source,
        "external_id": external_id,
        "parent_id": fields.get("parent_id"),
        "parent_external_id": fields.get("parent_external_id"),
        "title": title,
        "title_priority": _rank(title),
        "metadata": _encode(fields.get("metadata") or {}),
    }


def _rank(title: str | None) -> int:
    return UNNAMED if title is None else FROM_PERSON


def _limited(**params: Any) -> dict[str, Any]:
    return {**params, "limit": MAX_MATCHES}


async def _fetch_sessions(conn: AsyncConnection, query: str, params: Mapping[str, Any]) -> list[Session]:
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, params)
        return await _to_sessions(conn, await cursor.fetchall())


async def _to_sessions(conn: AsyncConnection, rows: Sequence[DictRow]) -> list[Session]:
    named = {row[name] for row in rows for name in ("parent_id", "copy_of")} - {None}
    stored = {row["id"] for row in rows} & named
    if named - stored:
        stored |= await existing_ids(conn, list(named - stored))
    return [_to_session(_without_missing(row, stored)) for row in rows]


def _without_missing(row: DictRow, stored: Collection[UUID]) -> DictRow:
    """Return the row with the id of the parent if the parent is stored, else its external id, else the id as text.

    Only a stored session is the original of a copy.
    """
    if row["parent_id"] in stored:
        row["parent_external_id"] = None
    elif row["parent_id"] is not None:
        if row["parent_external_id"] is None:
            row["parent_external_id"] = str(row["parent_id"])
        row["parent_id"] = None
    if row["copy_of"] not in stored:
        row["copy_of"] = row["copied_messages"] = None
    return row


def _to_session(row: DictRow) -> Session:
    present = {name: value for name, value in row.items() if value is not None}
    derived = {key: present[name] for key, name in _METADATA_COLUMNS.items() if name in present}
    return Session.model_validate(
        {**present, "metadata": {**derived, **msgspec.json.decode(row["metadata"])}}
    )


_METADATA_COLUMNS = {"sessionId": "provider_session_id", "cliVersion": "client_version"}


def _to_page(rows: list[Session], limit: int) -> SessionPage:
    """Build a page from up to `limit + 1` rows; an extra row shows that there is a next page."""
    page = rows[:limit]
    return SessionPage(sessions=page, nextAfter=_to_cursor(page[-1]) if len(rows) > limit else None)


def _to_cursor(last: Session) -> str:
    return urlsafe_b64encode(f"{active_at(last).isoformat()} {last.id}".encode()).decode()


def _read_cursor(cursor: str) -> tuple[str, UUID]:
    try:
        moment, _, last_id = urlsafe_b64decode(cursor).decode().partition(" ")
        return datetime.fromisoformat(moment).astimezone(UTC).isoformat(), UUID(last_id)
    except (ValueError, OverflowError):
        raise InvalidParameter("after is not the cursor of a list of sessions") from None


def _encode(metadata: dict[str, Any]) -> str:
    if nests_deeper(metadata, MAX_DEPTH):
        raise InvalidParameter(f"the metadata is nested deeper than {MAX_DEPTH}")
    try:
        return msgspec.json.encode(metadata).decode()
    except UnicodeEncodeError:
        raise InvalidUtf8("the metadata contains a lone surrogate, which UTF-8 cannot encode") from None
