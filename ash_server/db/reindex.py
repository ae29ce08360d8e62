"""Stored messages, read once more by the parser of today: what it reads differently, and writing that down.

Only what was derived from a text is ever written: never the text, its id, its sequence, or what its writer said of it.
Whether the writer said it is known of each message since schema 0002. Of older ones a role counts as said where the
source is known, and so does the source: an `unknown` one nobody said.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.db.drift import DescribedMessage, insert_drift
from ash_server.db.event_writer import lock
from ash_server.db.pagination import bounded_query
from ash_server.db.session_facts import REPLACE, SessionFacts, collect_facts
from ash_shared.model.message import Description, Kind, Role
from ash_shared.reading.parse import PARSER_VERSION, describe_message

_MOST_AT_ONCE = 500
_MOST_BYTES = 8 * 1024 * 1024
_SESSIONS_AT_ONCE = 1000

_IDS = "SELECT id FROM sessions WHERE id > %b ORDER BY id LIMIT %b"
_BEFORE_ALL = UUID(int=0)

_PAGE = bounded_query(
    "sequence, content, source, role, kind, block_types, parser_version, digest, role_given, source_given",
    "SELECT * FROM messages WHERE session_id = %(session_id)b AND sequence > %(after)b",
)

_DERIVE = """
    UPDATE messages
    SET source = new.source, role = new.role, kind = new.kind, digest = new.digest,
        block_types = string_to_array(new.block_types, ','), parser_version = %(parser_version)b
    FROM unnest(%(sequences)b::bigint[], %(sources)b::text[], %(roles)b::text[], %(kinds)b::text[],
        %(block_types)b::text[], %(digests)b::bytea[])
        AS new (sequence, source, role, kind, block_types, digest)
    WHERE messages.session_id = %(session_id)b AND messages.sequence = new.sequence
"""

_FORGET_DRIFT = "DELETE FROM drift WHERE session_id = %b AND sequence = ANY(%b)"

_TELL = f"UPDATE sessions SET {REPLACE} WHERE id = %(session_id)b"  # noqa: S608  # a constant of Ash


class WrittenMessage(Protocol):
    """What is stored of what a writer said, as `messages` has it."""

    @property
    def source(self) -> str: ...
    @property
    def role(self) -> Role: ...
    @property
    def role_given(self) -> bool | None: ...
    @property
    def source_given(self) -> bool | None: ...


class Stored(NamedTuple):
    """A message with what was derived from it when it was last read."""

    sequence: int
    content: str
    source: str
    role: Role
    kind: Kind
    block_types: list[str]
    parser_version: int
    digest: bytes | None
    role_given: bool | None
    source_given: bool | None


class Reread(NamedTuple):
    """A message as it was derived, and as it would be now."""

    stored: Stored
    now: Description
    """With what the writer said of it, as `NewMessage` has it."""

    def changed(self) -> tuple[str, ...]:
        """What reads differently. Without a digest it is not known whether only the `blocks` do."""
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
            and not self.changed()
        )


class Renewed(NamedTuple):
    """How many messages were read, and how many of them written."""

    read: int
    written: int


async def session_ids(conn: AsyncConnection) -> AsyncGenerator[UUID, None]:
    """All of them, in an order that no activity changes."""
    last = _BEFORE_ALL
    while ids := await next_session_ids(conn, last):
        for last in ids:
            yield last


async def next_session_ids(conn: AsyncConnection, after: UUID) -> list[UUID]:
    """Up to 1,000 session ids after this one, in ascending order."""
    rows = await (await conn.execute(_IDS, [after, _SESSIONS_AT_ONCE])).fetchall()
    return [row[0] for row in rows]


async def reread(
    conn: AsyncConnection, session_id: UUID, after: int = 0
) -> AsyncGenerator[list[Reread], None]:
    """The messages of a session behind this sequence, read anew, some at a time."""
    bounds = {"limit": _MOST_AT_ONCE, "bytes": _MOST_BYTES}
    while stored := await _read(conn, {"session_id": session_id, "after": after, **bounds}):
        yield [_read_again(each) for each in stored]
        after = stored[-1].sequence


async def renew(conn: AsyncConnection, session_id: UUID) -> Renewed:
    """Derives everything anew that is derived from the messages of a session. Raises SessionNotFound.

    Writers go on meanwhile: reading keeps nobody waiting, and the lock that appends take is held only while a page is
    written, and while what came in since the last one is read. Interrupted, it may be begun again.
    """
    work = _Renewal(conn, session_id)
    await work.renew_pages()
    async with conn.transaction():
        await lock(conn, session_id)
        await work.renew_pages()
        await conn.execute(_TELL, {"session_id": session_id, **work.told._asdict()})
    return Renewed(work.read, work.written)


class _Renewal:
    """One way through one session."""

    def __init__(self, conn: AsyncConnection, session_id: UUID) -> None:
        self.told = SessionFacts()
        self.read = 0
        self.written = 0
        self._conn = conn
        self._session_id = session_id
        self._last = 0

    async def renew_pages(self) -> None:
        """Goes on behind the last message it came to."""
        async for page in reread(self._conn, self._session_id, self._last):
            outdated = [each for each in page if not each.is_current()]
            if outdated:
                await self._write(outdated)
            self.told = self.told.merge(collect_facts([each.now for each in page]))
            self.read += len(page)
            self.written += len(outdated)
            self._last = page[-1].stored.sequence

    async def _write(self, page: Sequence[Reread]) -> None:
        async with self._conn.transaction():
            await lock(self._conn, self._session_id)
            await self._conn.execute(_DERIVE, {"session_id": self._session_id, **_columns(page)})
            sequences = [each.stored.sequence for each in page]
            await self._conn.execute(_FORGET_DRIFT, [self._session_id, sequences])
            placed = [DescribedMessage(each.stored.sequence, each.now) for each in page]
            await insert_drift(self._conn, self._session_id, placed)


def _columns(page: Sequence[Reread]) -> dict[str, Any]:
    return {
        "parser_version": PARSER_VERSION,
        "sequences": [each.stored.sequence for each in page],
        "sources": [each.now.source for each in page],
        "roles": [each.now.role for each in page],
        "kinds": [each.now.kind for each in page],
        "block_types": [",".join(each.now.block_types) for each in page],
        "digests": [each.now.digest for each in page],
    }


def _read_again(stored: Stored) -> Reread:
    source, role = said_by_writer(stored)
    now = describe_message(stored.content, source)
    return Reread(stored, now if role is None else now._replace(role=role))


def said_by_writer(stored: WrittenMessage) -> tuple[str | None, Role | None]:
    """The source and the role that the writer of a message named, where it did."""
    source = stored.source if stored.source_given is not False and stored.source != "unknown" else None
    keeps_role = source is not None if stored.role_given is None else stored.role_given
    return source, stored.role if keeps_role else None


async def _read(conn: AsyncConnection, wanted: Mapping[str, Any]) -> list[Stored]:
    async with conn.cursor(binary=True, row_factory=args_row(Stored)) as cursor:
        await cursor.execute(_PAGE, wanted)
        return await cursor.fetchall()
