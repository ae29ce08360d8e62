"""Identity of imported transcripts: the session of a file by the names in it, and copies in other sessions.

Functions take a connection in autocommit mode (`connection.open_pool`); `ash_server.store.repositories` calls them.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.ids import uuid7
from ash_server.store.connections.pool import change_row
from ash_server.store.connections.tenants import tenant_of
from ash_server.store.sessions import create_session, existing_ids, session_id_for
from ash_server.store.text import storable
from ash_shared.model.message import RECORD_ID_PREFIX

MAX_RELATIVES = 100
"""Sessions that are compared with each other; further ones are not marked as copies."""

# One of several processes that import the same transcript creates its session; the others see it.
_LOCK_KEY = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"

# Sessions without names: imported before the first line with a name, or by an earlier version.
_CANDIDATE = f"""
    SELECT id, external_id, lineage IS NOT NULL, path, message_sequence, EXISTS (
        SELECT FROM messages WHERE session_id = sessions.id AND starts_with(messages.id, '{RECORD_ID_PREFIX}'))
    FROM sessions JOIN session_counters ON session_id = id
    WHERE id <> ALL(%(rejected)s) AND id IN (
        SELECT id FROM tenant_lineages WHERE lineage @> ARRAY[%(key)s::text]
        UNION ALL
        SELECT id FROM sessions WHERE lineage IS NULL AND id = ANY(%(ids)s)
        UNION ALL
        SELECT id FROM sessions
        WHERE lineage IS NULL AND path IS NULL AND provider_session_id = %(provider_session_id)s
    )
    ORDER BY lineage IS NULL AND id = ANY(%(ids)s) DESC, path = %(path)s DESC NULLS LAST, created_at, id
    LIMIT 1
"""  # noqa: S608  # constant SQL

_SET_NAMES = """
    UPDATE sessions SET path = %(path)s, lineage = coalesce(%(lineage)s::text[], lineage)
    WHERE id = %(id)s
      AND (path IS DISTINCT FROM %(path)s OR lineage IS DISTINCT FROM coalesce(%(lineage)s::text[], lineage))
"""
_SET_LINEAGE = "UPDATE sessions SET lineage = %s WHERE id = %s"
_ADOPT = (
    "UPDATE sessions SET lineage = %s, path = coalesce(path, external_id) WHERE id = %s AND lineage IS NULL"
)

# Subagents that were imported before their parent name the session that its path would have made.
_SET_PARENT = "UPDATE sessions SET parent_id = %s WHERE parent_id = %s"

_RELATIVES = f"""
    SELECT id, source, created_at, message_sequence, copy_of, copied_messages
    FROM sessions JOIN session_counters ON session_id = id
    WHERE id IN (
        SELECT id FROM tenant_lineages WHERE lineage && (SELECT lineage FROM sessions WHERE id = %s)
    )
    ORDER BY (SELECT count(*) FROM unnest(lineage) AS name WHERE name LIKE 'session:%%'),
        first_at NULLS LAST, created_at, id
    LIMIT {MAX_RELATIVES}
"""  # noqa: S608  # constant SQL

_SET_COPY = "UPDATE sessions SET copy_of = %s, copied_messages = %s WHERE id = %s"

_IMPORTED_PATHS = "SELECT path FROM sessions WHERE path = ANY(%s)"


class TranscriptNames(NamedTuple):
    """The names in a transcript, which do not depend on its path."""

    session: str
    """The provider's id of the session."""
    key: str
    """Digest of the provider's names of session, project and subagent."""
    lineage: tuple[str, ...]
    """The key, and digests of names that copies have in common: of the session, of the sessions of which it is a fork,
    and of the first record."""


class Claim(NamedTuple):
    """A stored session to compare with a file, or the new, empty session of the file."""

    session_id: UUID
    external_id: str | None
    has_names: bool
    """False if the names of its transcript are not known yet."""
    path: str | None = None
    """None if no import of it is complete."""
    message_count: int = 0
    is_mirror: bool = False
    """True if a program has stored records of the transcript one by one."""


class Copy(NamedTuple):
    """The mark of a copy or a fork."""

    original: UUID
    messages: int
    """The number of messages at the beginning that are copies."""


class Relative(NamedTuple):
    """A session that has a name in common with another one."""

    session_id: UUID
    source: str
    created_at: datetime
    message_count: int
    copy_of: UUID | None
    copied_messages: int | None


async def claim(
    conn: AsyncConnection, names: TranscriptNames, source: str, path: str, rejected: Collection[UUID]
) -> Claim:
    """Return a session that may be that of the file, other than the rejected ones, or else create it.

    The id of the new session is derived from its path, if that is free.
    """
    async with conn.transaction():
        await conn.execute(_LOCK_KEY, [names.key])
        candidate = await find_candidate(conn, names, source, path, rejected)
        return candidate or Claim(await _create(conn, names, source, path), path, has_names=True)


async def find_candidate(
    conn: AsyncConnection, names: TranscriptNames, source: str, path: str, rejected: Collection[UUID]
) -> Claim | None:
    """Return a session that may be that of the file, other than the rejected ones."""
    params = {
        "key": names.key,
        "ids": [session_id_for(each, path, tenant_of(conn)) for each in ("unknown", source)],
        "provider_session_id": storable(names.session),
        "path": path,
        "rejected": list(rejected),
    }
    row = await (await conn.execute(_CANDIDATE, params)).fetchone()
    return None if row is None else Claim(*row)


async def _create(conn: AsyncConnection, names: TranscriptNames, source: str, path: str) -> UUID:
    creation = await create_session(conn, source=source, external_id=path)
    if not creation.created:
        creation = await create_session(conn, id=uuid7(), source=source, external_id=path)
    await conn.execute(_SET_LINEAGE, [list(names.lineage), creation.session.id])
    return creation.session.id


async def set_names(
    conn: AsyncConnection, session_id: UUID, path: str, lineage: Sequence[str] | None = None
) -> None:
    """Store where the file was seen last, and the names in it."""
    names = None if lineage is None else list(lineage)
    await change_row(conn, _SET_NAMES, {"id": session_id, "path": path, "lineage": names})


async def adopt(conn: AsyncConnection, session_id: UUID, lineage: Sequence[str] | None) -> None:
    """Store the names of a session that has none yet."""
    await change_row(conn, _ADOPT, [None if lineage is None else list(lineage), session_id])


async def replace_parent(conn: AsyncConnection, old: UUID, new: UUID) -> None:
    """Change the parent of all sessions that name the old one."""
    await change_row(conn, _SET_PARENT, [new, old])


async def list_relatives(conn: AsyncConnection, session_id: UUID) -> list[Relative]:
    """Return the session and those that have a name in common with it, originals before their copies."""
    async with conn.cursor(row_factory=args_row(Relative)) as cursor:
        await cursor.execute(_RELATIVES, [session_id])
        return await cursor.fetchall()


async def set_copy(conn: AsyncConnection, session_id: UUID, copy: Copy | None) -> None:
    """Mark a session as a copy or a fork, or remove the mark."""
    await change_row(conn, _SET_COPY, [*(copy or (None, None)), session_id])


async def count_imported(conn: AsyncConnection, source: str, paths: Sequence[str]) -> int:
    """Return how many of these transcripts are stored."""
    ids = {path: session_id_for(source, path, tenant_of(conn)) for path in paths}
    stored = await existing_ids(conn, list(ids.values()))
    rows = await (await conn.execute(_IMPORTED_PATHS, [list(ids)])).fetchall()
    imported = {path for (path,) in rows}
    return sum(id in stored or path in imported for path, id in ids.items())
