"""Sessions: create, find, list, change and delete.

Functions accept a connection in autocommit mode (`connections.pool.open_pool`); `SessionStore` has them as methods.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self, TypedDict, Unpack
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from ash_server.errors import (
    AshError,
    BodyTooLarge,
    InvalidParameter,
    InvalidUtf8,
    SequenceMismatch,
    SessionNotFound,
)
from ash_server.ids import uuid7
from ash_server.store import session_rows
from ash_server.store.access.shares import SessionEnd
from ash_server.store.borrowed import Resource, change, change_facts, change_session, read, write
from ash_server.store.connections.pool import change_row, one_transaction
from ash_server.store.connections.replication import has_reached
from ash_server.store.connections.tenants import Tenant, tenant_of
from ash_server.store.facts.replacements import lock_and_find_transcript, restore_prompts
from ash_server.store.facts.replacements import session_id_for as session_id_for
from ash_server.store.facts.report import read_facts
from ash_server.store.labels import (
    LabelChanges,
    Labels,
    get_labels,
    list_tags,
    set_labels,
    update_labels,
)
from ash_server.store.lists.projects import list_projects
from ash_server.store.lists.session_counts import count_sessions
from ash_server.store.lists.session_lists import list_sessions
from ash_server.store.log.activity import read_activities
from ash_server.store.log.tool_calls import delete_calls
from ash_server.store.retention.expired import (
    count_all_sessions,
    list_labelled,
    list_unchanged,
    read_session_trees,
)
from ash_server.store.session_facts import FROM_PERSON, FROM_TOOL, RENAMED, UNNAMED, shorten
from ash_server.store.session_rows import (
    existing_ids,
    find_sessions,
    get_session,
    get_sessions,
    get_tree,
    next_session_ids,
    recent_sessions,
    to_sessions,
)
from ash_server.store.statements import statements
from ash_server.store.text import check_text, storable
from ash_server.store.usage.answers import count_again, delete_answers
from ash_shared.model.blocks import MAX_DEPTH, nests_deeper
from ash_shared.model.keywords import check_keywords
from ash_shared.model.session import MAX_MACHINE, Session, SessionActivity, SessionResume, active_at
from ash_shared.parsing.resume import resume_command

MAX_METADATA_BYTES = 64 * 1024
"""Lists return the metadata of each session."""

_ACTIVE = timedelta(minutes=10)
"""An open turn without changes for this time counts as abandoned, as in viewer/lib/activity-text.js."""

_MAX_ACTIVITIES = 200
"""Sessions of a list with their activity."""

SQL = statements(__file__)


class SessionFields(TypedDict, total=False):
    """Fields of a new session. The id is computed from `source` and `external_id` if there is one."""

    id: UUID | None
    source: str
    external_id: str | None
    parent_id: UUID | None
    parent_external_id: str | None
    title: str | None
    metadata: dict[str, Any] | None
    machine: str | None
    """The host name of the client."""
    key_id: UUID | None
    """The key of the request."""


class Creator(NamedTuple):
    """The client that creates a session."""

    machine: str | None = None
    """Its host name."""
    key_id: UUID | None = None


class ChangedFields(TypedDict, total=False):
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
        """Return the error of a command. The message repeats the reference and the sources."""
        shown = ", ".join(map(_identify, matches[:3]))
        return cls(f"several sessions match {reference!r}: {shown}{' …' if matches[3:] else ''}")


async def get_resume(conn: AsyncConnection, session_id: UUID) -> SessionResume:
    """Return the command that continues the session in its agent, or the reason why there is none.

    Raises SessionNotFound.
    """
    return resume_command(await get_session(conn, session_id))


async def create_session(conn: AsyncConnection, **fields: Unpack[SessionFields]) -> Created:
    """Get or create a session. Of concurrent callers with one external id, exactly one creates it."""
    check_keywords("create_session", fields, SessionFields)
    params = _to_params(fields, tenant_of(conn))
    while True:  # repeat if it is deleted between the two statements
        stored = conn.cursor(row_factory=dict_row)
        async with one_transaction(conn):
            transcript = await lock_and_find_transcript(conn, params["source"], params["external_id"])
            new = {**params, "replaced_by": transcript}
            created = await (await conn.execute(SQL.create_session, new)).fetchone()
            if created:
                await conn.execute(SQL.create_counters, params)
                await conn.execute(SQL.create_progress, params)
            await stored.execute(session_rows.SQL.get_session, params)
        if rows := await to_sessions(conn, await stored.fetchall()):
            return Created(rows[0], created is not None)


async def find_named(conn: AsyncConnection, source: str, external_ids: Iterable[str]) -> dict[str, UUID]:
    """Return the ids of the stored sessions among these, by external id."""
    tenant = tenant_of(conn)
    names = {session_id_for(source, each, tenant): each for each in external_ids}
    return {names[id]: id for id in await existing_ids(conn, list(names))}


async def update_session(
    conn: AsyncConnection, session_id: UUID, **changes: Unpack[ChangedFields]
) -> Session:
    """Change the title, or replace the metadata as a whole. Raises SessionNotFound."""
    check_keywords("update_session", changes, ChangedFields)
    title, metadata = changes.get("title"), changes.get("metadata")
    check_text(title or "", "the title")
    params = {
        "id": session_id,
        "retitle": "title" in changes,
        "title": title,
        "title_priority": _rank(title),
        "metadata": None if metadata is None else _encode(metadata),
    }
    await change_row(conn, SQL.update_session, params)
    return await get_session(conn, session_id)


def merge_metadata(stored: str, changes: Mapping[str, Any]) -> str:
    """Return metadata with changes, as JSON. A new value of None removes the key. Raises BodyTooLarge."""
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
    await conn.execute(SQL.set_metadata, [metadata, session_id])


async def delete_session(
    conn: AsyncConnection, session_id: UUID, *, expected_sequence: int | None = None
) -> None:
    """Delete the session with its messages and events; subscriptions to it end.

    `expected_sequence` must be the last sequence of the session. Raises SessionNotFound, SequenceMismatch.
    """
    async with conn.transaction():
        row = await (await conn.execute(SQL.lock_counters, [session_id])).fetchone()
        if row is None:
            raise SessionNotFound
        check_sequence(expected_sequence, row[0])
        await _delete_rows(conn, session_id)


async def delete_unchanged_session(
    conn: AsyncConnection, session_id: UUID, updated_at: datetime, related: Sequence[UUID]
) -> bool:
    """Delete the session like `delete_session`, unless it has changed since a time or has a new subagent.

    `related` are its known subagents, and others. Return False if it stays.
    """
    async with conn.transaction():
        await conn.execute(SQL.lock_counters, [session_id])
        unchanged = await conn.execute(SQL.lock_unchanged, [session_id, updated_at])
        if await unchanged.fetchone() is None:
            return False
        if await (await conn.execute(SQL.find_new_child, [session_id, list(related)])).fetchone():
            return False
        await _delete_rows(conn, session_id)
    return True


async def _delete_rows(conn: AsyncConnection, session_id: UUID) -> None:
    await conn.execute(SQL.delete_progress, [session_id])
    await conn.execute(SQL.delete_events, [session_id])
    await conn.execute(SQL.delete_messages, [session_id])
    await delete_answers(conn, session_id)
    await delete_calls(conn, session_id)
    await _replace_original(conn, session_id)
    await restore_prompts(conn, session_id)
    await conn.execute(SQL.delete_session, [session_id])


async def _replace_original(conn: AsyncConnection, session_id: UUID) -> None:
    """Change the marks of the copies of a session, under their locks."""
    copies = await (await conn.execute(SQL.list_copies, {"id": session_id})).fetchall()
    for copy in copies:
        await conn.execute(SQL.lock_counters, copy)
    if copies:
        await conn.execute(SQL.replace_original, {"id": session_id})
    for (copy_id,) in copies:
        await count_again(conn, copy_id)


async def get_writer_fields(conn: AsyncConnection, session_id: UUID) -> SessionFields:
    """Return the fields set by a writer, without those derived from messages. Raises SessionNotFound."""
    cursor = await conn.execute(SQL.get_writer_fields, [FROM_PERSON, session_id])
    if not (row := await cursor.fetchone()):
        raise SessionNotFound
    parent_id, parent_external_id, title, metadata, machine, key_id = row
    return {
        "id": session_id,
        "parent_id": parent_id,
        "parent_external_id": parent_external_id,
        "title": title,
        "metadata": msgspec.json.decode(metadata),
        "machine": machine,
        "key_id": key_id,
    }


async def get_end(conn: AsyncConnection, session_id: UUID) -> SessionEnd:
    """Return the last sequences of a session. Raises SessionNotFound."""
    row = await (await conn.execute(SQL.get_end, [session_id])).fetchone()
    if row is None:
        raise SessionNotFound
    return SessionEnd(*row)


async def lacks_final_newline(conn: AsyncConnection, session_id: UUID) -> bool:
    """True if the imported file had no final newline. Raises SessionNotFound."""
    cursor = await conn.execute(SQL.lacks_final_newline, [session_id])
    if not (row := await cursor.fetchone()):
        raise SessionNotFound
    return bool(row[0])


async def set_lacks_final_newline(
    conn: AsyncConnection, session_id: UUID, lacks_newline: bool, last_message: str | None = None
) -> None:
    """Raises SessionNotFound. With `last_message`, nothing changes unless this is the id of the last message."""
    params = {"id": session_id, "lacks_newline": lacks_newline, "last_message": last_message}
    async with conn.transaction():
        await conn.execute(SQL.lock_counters, [session_id])  # so that the last message stays the last one
        changed = await change_row(conn, SQL.set_lacks_final_newline, params)
    if last_message is None and not changed:
        raise SessionNotFound


async def set_file_time(
    conn: AsyncConnection, session_id: UUID, modified_at: datetime, *, has_grown: bool
) -> bool:
    """Store when the imported file was modified; without new lines, the earliest time is kept: it may be a copy.

    Return True if that is another time.
    """
    params = {"id": session_id, "modified_at": modified_at, "has_grown": has_grown}
    return await change_row(conn, SQL.set_file_time, params) > 0


async def set_agent(conn: AsyncConnection, session_id: UUID, agent: str) -> bool:
    """Store which agent wrote the session, if it is not the one that its source names; the first one stays.

    Return True if it was stored.
    """
    return await change_row(conn, SQL.set_agent, {"id": session_id, "agent": agent}) > 0


async def set_tool_title(conn: AsyncConnection, session_id: UUID, title: str, *, is_typed: bool) -> bool:
    """Store a title that a tool keeps apart from its transcript, unless the session has one of a higher rank.

    Return True if the title has changed.
    """
    check_text(title, "the title")
    rank = RENAMED if is_typed else FROM_TOOL
    params = {"id": session_id, "title": shorten(title), "rank": rank}
    return await change_row(conn, SQL.set_tool_title, params) > 0


async def set_parent(
    conn: AsyncConnection, session_id: UUID, parent_id: UUID, external_id: str | None = None
) -> bool:
    """Link the session to the one it was started from, unless it has a parent.

    The parent need not be stored: until it is, the session shows its external id. Return True if the link has changed.
    """
    at_path = await _fetch_id(conn, SQL.find_at_path, [external_id, session_id])
    current = await _fetch_id(conn, SQL.get_parent, [session_id])
    is_replaced = at_path is not None and current is not None and not await existing_ids(conn, [current])
    params = {
        "id": session_id,
        "parent_id": parent_id,
        "parent_external_id": external_id,
        "at_path": at_path,
        "replaced": current if is_replaced else None,
    }
    return await change_row(conn, SQL.set_parent, params) > 0


async def recreate_session(
    conn: AsyncConnection, session_id: UUID, *, source: str, external_id: str
) -> Session:
    """Replace the session by an empty one with the same id, parent, metadata and labels, and the title set by a person.

    Two transactions: if the second fails, the session is deleted. Raises SessionNotFound.
    """
    fields = await get_writer_fields(conn, session_id)
    labels = await get_labels(conn, session_id)
    await delete_session(conn, session_id)
    named: SessionFields = {**fields, "source": source, "external_id": external_id}
    created = (await create_session(conn, **named)).session
    if labels == Labels():
        return created
    await set_labels(conn, session_id, labels)
    return await get_session(conn, session_id)


async def _fetch_id(conn: AsyncConnection, query: str, params: Sequence[Any]) -> UUID | None:
    row = await (await conn.execute(query, params)).fetchone()
    return row[0] if row else None


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
        "machine": storable(fields.get("machine") or "")[:MAX_MACHINE] or None,
        "key_id": fields.get("key_id"),
    }


def _rank(title: str | None) -> int:
    return UNNAMED if title is None else FROM_PERSON


def _encode(metadata: dict[str, Any]) -> str:
    """Return metadata as JSON, with the agent first: `with_sources` of `session_lists.sql` compares it as text."""
    if nests_deeper(metadata, MAX_DEPTH):
        raise InvalidParameter(f"the metadata is nested deeper than {MAX_DEPTH}")
    try:
        return msgspec.json.encode(_with_agent_first(metadata)).decode()
    except UnicodeEncodeError:
        raise InvalidUtf8("the metadata contains a lone surrogate, which UTF-8 cannot encode") from None


def _with_agent_first(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"agent": metadata["agent"], **metadata} if "agent" in metadata else metadata


class SessionStore(Resource):
    """Conversations, without their messages."""

    async def create(self, **fields: Unpack[SessionFields]) -> Session:
        """Create a session, or return the existing one.

        With an `external_id` the session's id is computed from `source` and `external_id`, so repeating the call
        returns the same session, unchanged. Without one each call creates another session. Raises NulByte,
        InvalidUtf8, InvalidParameter.
        """
        return (await self.get_or_create(**fields)).session

    async def get_or_create(self, **fields: Unpack[SessionFields]) -> Created:
        """Like `create`, and report whether the session is new. Of concurrent callers exactly one creates it."""
        async with self._connections.changes() as conn:
            result = await create_session(conn, **fields)
        if result.created:
            self._wake(result.session.id)
        return result

    get = read(get_session)
    get_resume = read(get_resume)
    has_reached = read(has_reached)
    get_many = read(get_sessions)
    existing_ids = read(existing_ids)
    find_named = read(find_named)
    list_sessions = read(list_sessions)
    count_sessions = read(count_sessions)
    list_projects = read(list_projects)
    list_changed = read(recent_sessions)
    find = read(find_sessions)
    get_facts = read(read_facts)
    update = change_session(update_session)
    get_end = read(get_end)
    list_tags = read(list_tags)
    _update_labels = change_session(update_labels)
    _read_activities = read(read_activities)
    set_file_time = change_facts(set_file_time)
    set_agent = change_facts(set_agent)
    set_tool_title = change_facts(set_tool_title)
    set_parent = change_facts(set_parent)
    delete = change_session(delete_session)
    delete_unchanged = change_session(delete_unchanged_session)
    list_unchanged = read(list_unchanged)
    read_session_trees = read(read_session_trees)
    list_labelled = read(list_labelled)
    count_all = read(count_all_sessions)
    recreate = write(recreate_session)
    lacks_final_newline = read(lacks_final_newline)
    set_lacks_final_newline = change(set_lacks_final_newline)

    async def update_labels(self, session_id: UUID, **changes: Unpack[LabelChanges]) -> Session:
        """Change labels. `archived` also applies to the sessions of subagents, at any depth.

        Raises SessionNotFound, InvalidParameter, NulByte, InvalidUtf8.
        """
        session = await self._update_labels(session_id, **changes)
        subagents = set(await self.list_tree(session_id)) - {session_id} if "archived" in changes else set()
        for id in subagents:
            with suppress(SessionNotFound):  # deleted meanwhile
                await self._update_labels(id, archived=changes["archived"])
        return session

    async def with_activity(self, sessions: Sequence[Session]) -> list[Session]:
        """Return the sessions, with the activity of at most 200 that changed within 10 minutes, the last first."""
        earliest = datetime.now(UTC) - _ACTIVE
        changed = [session for session in sessions if session.updated_at >= earliest]
        changed.sort(key=lambda session: session.updated_at, reverse=True)
        ids = [session.id for session in changed[:_MAX_ACTIVITIES]]
        activities: Mapping[UUID, SessionActivity] = {}
        if ids:
            activities = await self._read_activities(ids)
        return [
            session.model_copy(update={"activity": activities[session.id]})
            if session.id in activities
            else session
            for session in sessions
        ]

    async def list_all(self) -> AsyncGenerator[Session, None]:
        """Yield every session, most recent activity first."""
        after: str | None = None
        while True:
            page = await self.list_sessions(after=after, limit=1000, archived="include")
            for session in page.sessions:
                yield session
            if page.next_after is None:
                return
            after = page.next_after

    async def list_ids(self) -> AsyncGenerator[UUID, None]:
        """Yield the id of every session in ascending order; unlike `list_all`, activity does not change the order."""
        last = UUID(int=0)
        while True:
            async with self._connections.connection() as conn:
                ids = await next_session_ids(conn, last)
            if not ids:
                return
            for last in ids:
                yield last

    async def find_one(self, reference: str) -> Session:
        """Return the only session that `find` returns. Raises SessionNotFound, AmbiguousSession."""
        matches = await self.find(reference)
        if not matches:
            raise SessionNotFound(f"no session matches {reference!r}")
        if len(matches) > 1:
            raise AmbiguousSession.named(reference, matches)
        return matches[0]

    async def list_tree(self, session_id: UUID) -> list[UUID]:
        """Return the ids of the session and of the stored sessions of its subagents, at any depth."""
        async with self._connections.connection() as conn:
            return [each.id for each in await get_tree(conn, session_id)]
