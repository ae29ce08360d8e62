"""Identity of imported transcripts: the session of a file by the names in it, and copies in other sessions.

Functions accept a connection in autocommit mode (`connections.pool.open_pool`); `TranscriptStore` has them as methods.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.ids import uuid7
from ash_server.store.borrowed import Resource, change, change_session, read
from ash_server.store.connections.pool import change_row, change_rows, one_transaction
from ash_server.store.connections.tenants import tenant_of
from ash_server.store.facts.replacements import find_transcript, list_stored_names
from ash_server.store.log import writer
from ash_server.store.maintenance.own_prompts import name_by_own_prompt
from ash_server.store.session_rows import existing_ids
from ash_server.store.sessions import Creator, SessionFields, create_session, session_id_for
from ash_server.store.statements import statements
from ash_server.store.text import storable
from ash_server.store.usage.answers import count_again
from ash_shared.model.message import RECORD_ID_PREFIX

MAX_RELATIVES = 100
"""Sessions that are compared with each other; further ones are not marked as copies."""

SQL = statements(__file__, record_id_prefix=RECORD_ID_PREFIX, max_relatives=MAX_RELATIVES)


class TranscriptNames(NamedTuple):
    """The names in a transcript, which do not depend on its path."""

    session: str
    """The provider's id of the session."""
    key: str
    """Digest of the provider's names of session, project and subagent."""
    lineage: tuple[str, ...]
    """The key, and digests of names that copies share: the session, the sessions it was forked from, and the first
    record."""


class Claim(NamedTuple):
    """A stored session to compare with a file, or the new, empty session of the file."""

    session_id: UUID
    external_id: str | None
    has_names: bool
    """False if the names of its transcript are not known yet."""
    path: str | None = None
    """None until the first import is complete."""
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
    conn: AsyncConnection,
    names: TranscriptNames,
    source: str,
    path: str,
    rejected: Collection[UUID],
    creator: Creator = Creator(),  # noqa: B008  # immutable
) -> Claim:
    """Return a session to compare with the file, other than the rejected ones; without any, create one.

    Of concurrent callers with one transcript, exactly one creates a session. Its id is derived from its path, if that
    is free.
    """
    async with conn.transaction():
        await conn.execute(SQL.lock_key, [names.key])
        candidate = await find_candidate(conn, names, source, path, rejected)
        return candidate or Claim(await _create(conn, names, source, path, creator), path, has_names=True)


async def find_candidate(
    conn: AsyncConnection, names: TranscriptNames, source: str, path: str, rejected: Collection[UUID]
) -> Claim | None:
    """Like `claim`, but create no session."""
    params = {
        "key": names.key,
        "ids": [session_id_for(each, path, tenant_of(conn)) for each in ("unknown", source)],
        "provider_session_id": storable(names.session),
        "path": path,
        "rejected": list(rejected),
    }
    # A plan from an empty store would be kept until its statistics are updated.
    row = await (await conn.execute(SQL.find_candidate, params, prepare=False)).fetchone()
    return None if row is None else Claim(*row)


async def _create(
    conn: AsyncConnection, names: TranscriptNames, source: str, path: str, creator: Creator
) -> UUID:
    fields: SessionFields = {
        "source": source,
        "external_id": path,
        "machine": creator.machine,
        "key_id": creator.key_id,
    }
    creation = await create_session(conn, **fields)
    if not creation.created:
        fields["id"] = uuid7()
        creation = await create_session(conn, **fields)
    await conn.execute(SQL.set_lineage, [list(names.lineage), creation.session.id])
    return creation.session.id


async def set_names(
    conn: AsyncConnection, session_id: UUID, path: str, lineage: Sequence[str] | None = None
) -> None:
    """Store where the file was seen last, and the names in it."""
    names = None if lineage is None else list(lineage)
    await change_row(conn, SQL.set_names, {"id": session_id, "path": path, "lineage": names})


async def set_missing_names(conn: AsyncConnection, session_id: UUID, lineage: Sequence[str] | None) -> None:
    """Store the names of a session that has none yet."""
    await change_row(conn, SQL.set_missing_names, [None if lineage is None else list(lineage), session_id])


async def replace_parent(conn: AsyncConnection, old: UUID, new: UUID) -> list[UUID]:
    """Change the parent of all sessions that name the old one, and return their ids."""
    rows = await change_rows(conn, SQL.replace_parent, [new, old])
    return [id for (id,) in await rows.fetchall()]


async def list_relatives(conn: AsyncConnection, session_id: UUID) -> list[Relative]:
    """Return the session and those that have a name in common with it, originals before their copies."""
    async with conn.cursor(row_factory=args_row(Relative)) as cursor:
        await cursor.execute(SQL.list_relatives, [session_id])
        return await cursor.fetchall()


async def set_copy(conn: AsyncConnection, session_id: UUID, copy: Copy | None) -> None:
    """Mark a session as a copy or a fork, or remove the mark. A subagent gets the title of its own first prompt."""
    async with one_transaction(conn):
        await conn.execute(writer.SQL.lock_counters, [session_id])
        await conn.execute(SQL.set_copy, [*(copy or (None, None)), session_id])
        await count_again(conn, session_id)
    await name_by_own_prompt(conn, session_id)


async def list_imported(conn: AsyncConnection, source: str, paths: Sequence[str]) -> set[str]:
    """Return the paths with a stored transcript."""
    ids = {path: session_id_for(source, path, tenant_of(conn)) for path in paths}
    stored = await existing_ids(conn, list(ids.values()))
    rows = await (await conn.execute(SQL.list_imported_paths, [list(ids)])).fetchall()
    imported = {path for (path,) in rows}
    return {path for path, id in ids.items() if id in stored or path in imported}


class TranscriptStore(Resource):
    """The identity of imported transcripts, for imports."""

    claim = change(claim)
    find_candidate = read(find_candidate)
    set_names = change(set_names)
    set_missing_names = change(set_missing_names)
    _replace_parent = change(replace_parent)
    list_relatives = read(list_relatives)
    set_copy = change_session(set_copy)
    list_imported = read(list_imported)
    find_transcript = change(find_transcript)
    list_stored_names = read(list_stored_names)

    async def replace_parent(self, old: UUID, new: UUID) -> None:
        """Change the parent of all sessions that name the old one."""
        for child in await self._replace_parent(old, new):
            self._wake(child)
