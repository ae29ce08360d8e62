"""Read stored messages again with the current parser, to compare or to update the columns derived from them.

Never writes texts, ids, sequences, or fields that the writer set (`has_explicit_role`,
`has_explicit_source`). Rows older than schema 0002 do not record the latter: a source other than `unknown` counts as
set, together with the role of that message.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.store import session_facts
from ash_server.store.drift import DescribedMessage, insert_drift
from ash_server.store.log.writer import lock
from ash_server.store.maintenance.own_prompts import name_by_own_prompt
from ash_server.store.message_pages import set_by_writer
from ash_server.store.pagination import bounded_query
from ash_server.store.session_facts import FROM_TOOL, RENAMED, RecordFacts, collect_facts
from ash_server.store.statements import statements
from ash_shared.model.message import Description, Kind, Role
from ash_shared.parsing.parse import PARSER_VERSION, BlocksPlace, describe_with_place
from ash_shared.parsing.parsed_text import parse_raw
from ash_shared.records.inherited import InheritedRecords

_PAGE_SIZE = 500
_PAGE_BYTES = 8 * 1024 * 1024

SQL = statements(__file__, replaced_facts=session_facts.SQL.replace, from_tool=FROM_TOOL, renamed=RENAMED)

_READ_MESSAGES = bounded_query(SQL.message_columns, SQL.messages_after)


class Stored(NamedTuple):
    """A stored message with its derived columns."""

    sequence: int
    content: str
    source: str
    role: Role
    kind: Kind
    block_types: list[str]
    parser_version: int
    digest: bytes | None
    has_explicit_role: bool | None
    has_explicit_source: bool | None
    blocks_start: int | None
    blocks_size: int | None


class Reread(NamedTuple):
    """The stored columns of a message, and the columns that the current parser derives."""

    stored: Stored
    now: Description
    """Includes the role and the source that the writer set."""
    blocks: BlocksPlace | None

    def changed(self) -> tuple[str, ...]:
        """Return the names of what changed. Changes of `blocks` alone are detected only with a stored digest."""
        stored, now = self.stored, self.now
        pairs = {
            "source": (stored.source, now.source),
            "kind": (stored.kind, now.kind),
            "role": (stored.role, now.role),
            "types": (tuple(stored.block_types), now.block_types),
        }
        names = tuple(name for name, (before, after) in pairs.items() if before != after)
        return names or (("blocks",) if stored.digest not in (None, now.digest) else ())

    def is_current(self) -> bool:
        return (
            self.stored.parser_version == PARSER_VERSION
            and self.stored.digest == self.now.digest
            and (self.stored.blocks_start, self.stored.blocks_size) == (self.blocks or (None, None))
            and not self.changed()
        )


class Reindexed(NamedTuple):
    """Numbers of messages."""

    read: int
    written: int


async def outdated_sessions(conn: AsyncConnection) -> list[UUID]:
    """Return the sessions with messages that another version of the parser read."""
    rows = await conn.execute(SQL.list_outdated_sessions, [PARSER_VERSION])
    return [row[0] for row in await rows.fetchall()]


async def reread(
    conn: AsyncConnection, session_id: UUID, after: int = 0
) -> AsyncGenerator[list[Reread], None]:
    """Yield pages of the messages after a sequence, read by the current parser."""
    bounds = {"limit": _PAGE_SIZE, "bytes": _PAGE_BYTES}
    while stored := await _fetch_page(conn, {"session_id": session_id, "after": after, **bounds}):
        yield [_reread_message(each) for each in stored]
        after = stored[-1].sequence


async def reindex_messages(conn: AsyncConnection, session_id: UUID) -> Reindexed:
    """Derive everything but events again from the messages of a session. Raises SessionNotFound.

    Blocks writers only while it writes a page and while it reads the last page. Can be repeated if interrupted.
    """
    work = _Reindexing(conn, session_id)
    await work.process_pages()
    async with conn.transaction():
        await lock(conn, session_id)
        await work.process_pages()
        outside_title = await (await conn.execute(SQL.get_outside_title, [session_id])).fetchone()
        await conn.execute(SQL.replace_facts, {"session_id": session_id, **work.facts._asdict()})
        await name_by_own_prompt(conn, session_id)
        if outside_title is not None:
            title, rank = outside_title
            await conn.execute(
                SQL.keep_title, {"session_id": session_id, "title": title, "title_priority": rank}
            )
    return Reindexed(work.read, work.written)


class _Reindexing:
    """One pass over one session."""

    def __init__(self, conn: AsyncConnection, session_id: UUID) -> None:
        self.facts = RecordFacts()
        self.read = 0
        self.written = 0
        self._conn = conn
        self._session_id = session_id
        self._last = 0
        self._inherited = InheritedRecords()

    async def process_pages(self) -> None:
        """Continue after the last message processed."""
        async for page in reread(self._conn, self._session_id, self._last):
            outdated = [each for each in page if not each.is_current()]
            if outdated:
                await self._write_page(outdated)
            self.facts = self.facts.merge(collect_facts([each.now for each in page], self._inherited))
            self.read += len(page)
            self.written += len(outdated)
            self._last = page[-1].stored.sequence

    async def _write_page(self, page: Sequence[Reread]) -> None:
        async with self._conn.transaction():
            await lock(self._conn, self._session_id)
            await self._conn.execute(SQL.update_messages, {"session_id": self._session_id, **_columns(page)})
            sequences = [each.stored.sequence for each in page]
            await self._conn.execute(SQL.delete_drift, [self._session_id, sequences])
            described = [DescribedMessage(each.stored.sequence, each.now) for each in page]
            await insert_drift(self._conn, self._session_id, described)


def _columns(page: Sequence[Reread]) -> dict[str, Any]:
    return {
        "parser_version": PARSER_VERSION,
        "sequences": [each.stored.sequence for each in page],
        "sources": [each.now.source for each in page],
        "roles": [each.now.role for each in page],
        "kinds": [each.now.kind for each in page],
        "block_types": [",".join(each.now.block_types) for each in page],
        "digests": [each.now.digest for each in page],
        "blocks_starts": [each.blocks and each.blocks.start for each in page],
        "blocks_sizes": [each.blocks and each.blocks.size for each in page],
    }


def _reread_message(stored: Stored) -> Reread:
    source, role = set_by_writer(stored)
    now, blocks = describe_with_place(stored.content, parse_raw(stored.content, source), source)
    return Reread(stored, now if role is None else now._replace(role=role), blocks)


async def _fetch_page(conn: AsyncConnection, params: Mapping[str, Any]) -> list[Stored]:
    async with conn.cursor(binary=True, row_factory=args_row(Stored)) as cursor:
        await cursor.execute(_READ_MESSAGES, params)
        return await cursor.fetchall()
