"""Messages: append in one order, read by sequence.

An append locks the counters of its session before it reads them and until it commits. So sequences have no gap and
become visible in ascending order: a reader that continues after a sequence misses nothing.

Functions take a connection in autocommit mode (`connection.open_pool`); `ash_server.store.repositories` calls them.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, count, starmap
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack
from uuid import UUID

from msgspec import Struct
from psycopg import AsyncConnection

from ash_server.errors import (
    DuplicateInBatch,
    IdConflict,
    InvalidId,
    MessageDeleted,
    MessageNotFound,
    SessionChanged,
)
from ash_server.offload import offload_each
from ash_server.store.connections.pool import Connect, fetch_all, one_transaction
from ash_server.store.drift import DescribedMessage, insert_drift
from ash_server.store.log.events import Appended
from ash_server.store.log.writer import (
    LOCK,
    LOCK_WITH_METADATA,
    Counters,
    PreparedEvent,
    StreamIds,
    columns,
    derive,
    ending,
    last_posted,
    milliseconds,
    read_counters,
    read_counters_and_metadata,
    resolve_id_conflicts,
    stored_query,
    with_normalizer,
    without_nulls,
    write_events,
)
from ash_server.store.pagination import END, MAX_PAGE_BYTES, bounded_query, check_options
from ash_server.store.session_facts import MERGE, collect_facts
from ash_server.store.sessions import check_sequence, get_session, merge_metadata, set_metadata
from ash_server.store.text import check_text
from ash_shared.eventlog import Line, Normalizer
from ash_shared.eventlog.emitter import EMPTY_LINE
from ash_shared.model.message import Description, Message, Role, StoredKind
from ash_shared.parsing.parse import (
    PARSER_VERSION,
    BlocksPlace,
    copy_blocks,
    parse_message_content,
    parse_message_content_json,
)
from ash_shared.records.contract import CHUNK_PATTERN

T = TypeVar("T")

_HEAD_LINES = 20

_FETCH_SIZE = 1000
"""Messages of a stream in memory at a time, or fewer if they are large (`MAX_PARSE_BYTES`)."""

# Runs after LOCK as a separate statement, to see what was committed while LOCK waited.
_STORED = stored_query("messages", "id", "CASE WHEN kind = 'deleted' THEN NULL ELSE content END")

_WRITE = f"""
    WITH inserted AS (
        INSERT INTO messages
            (session_id, sequence, id, content, role, kind, source, block_types, parser_version, created_at,
            digest, has_explicit_role, has_explicit_source, blocks_start, blocks_size)
        SELECT session_id, %(last)b::bigint + place, id, content, role, kind, source,
            string_to_array(block_types, ','), %(parser_version)b, statement_timestamp(),
            digest, has_explicit_role, has_explicit_source, blocks_start, blocks_size
        FROM session_counters, unnest(%(ids)b::text[], %(contents)b::text[], %(roles)b::text[], %(kinds)b::text[],
            %(sources)b::text[], %(block_types)b::text[], %(digests)b::bytea[], %(have_explicit_roles)b::bool[],
            %(have_explicit_sources)b::bool[], %(blocks_starts)b::int[], %(blocks_sizes)b::int[])
            WITH ORDINALITY AS new (id, content, role, kind, source, block_types, digest, has_explicit_role,
                has_explicit_source, blocks_start, blocks_size, place)
        WHERE session_id = %(session_id)b
    )
    UPDATE sessions
    SET updated_at = statement_timestamp(), metadata = coalesce(%(metadata)b::text, metadata), {MERGE}
    WHERE id = %(session_id)b
"""  # noqa: S608  # constant SQL

_COMPARE = """
    SELECT messages.id, CASE WHEN kind = 'deleted' THEN NULL
        ELSE sha256(convert_to(content, 'UTF8')) = sent.digest END
    FROM messages JOIN unnest(%(ids)b::text[], %(digests)b::bytea[]) AS sent (id, digest) ON messages.id = sent.id
    WHERE session_id = %(session_id)b
"""

_COLUMNS = "id, role, kind, source, content, sequence, created_at"
_READ = f"SELECT {_COLUMNS} FROM messages WHERE session_id = "  # noqa: S608  # constant SQL

_PAGE = (
    f"SELECT {_COLUMNS}, parser_version, blocks_start, blocks_size FROM messages WHERE session_id = "  # noqa: S608
    """%(session_id)b
      AND sequence > %(after)b AND sequence < %(before)b
      AND (kind = ANY(%(kinds)b) OR (kind = 'chunk' AND content ~ %(chunks)b::text))
      AND (%(role)b::text IS NULL OR role = %(role)b)
      AND (%(type)b::text IS NULL OR %(type)b = ANY(block_types))
    """
)

MAX_PARSE_BYTES = 4 * 1024 * 1024
"""Bytes of text parsed together. Parsing takes ten times this size in memory, and 40 times for many small blocks."""


_FIRST = bounded_query(_COLUMNS, _PAGE)
_LAST = bounded_query(_COLUMNS, _PAGE, "sequence DESC")

_IS_COPIED = f"(entry.parser_version = {PARSER_VERSION} AND entry.blocks_start IS NOT NULL)"
_BLOCKS = f"""
    id, role, kind, source,
    CASE WHEN {_IS_COPIED} THEN substr(convert_to(content, 'UTF8'), blocks_start + 1, blocks_size)
        ELSE convert_to(content, 'UTF8') END AS content,
    {_IS_COPIED} AS is_copied, sequence, created_at
"""
_BLOCKS_SIZE = f"CASE WHEN {_IS_COPIED} THEN entry.blocks_size ELSE octet_length(entry.content) END"
_FIRST_BLOCKS = bounded_query(_BLOCKS, _PAGE, size=_BLOCKS_SIZE)
_LAST_BLOCKS = bounded_query(_BLOCKS, _PAGE, "sequence DESC", _BLOCKS_SIZE)

# The time of storing is that of the statement that stores.
_END = "SELECT message_sequence, clock_timestamp() FROM session_counters WHERE session_id = %b"
_ONE = _READ + "%b AND sequence = %b"
_LAST_MESSAGE = _READ + "%b AND kind IN ('message', 'record') ORDER BY sequence DESC LIMIT 1"

_ALL_KINDS: tuple[StoredKind, ...] = ("message", "record", "chunk", "deleted")


class PreparedMessage(NamedTuple):
    """A message ready for storage: its id, its text, and the values derived from the text."""

    id: str
    id_given: bool
    """True if the writer set the id, False if it was derived."""
    content: str
    described: Description
    """Includes the role and the source that the writer set."""
    has_explicit_role: bool = False
    """True if the writer set the role, False if it was derived."""
    has_explicit_source: bool = False
    line: Line = EMPTY_LINE
    """The text as input of the event log."""
    blocks: BlocksPlace | None = None
    """The place of the blocks in the text, if they are copied from it."""


class StoredMessage(Struct, gc=False):
    """A row of a session's messages."""

    id: str
    role: Role
    kind: StoredKind
    source: str
    content: str
    sequence: int
    created_at: datetime

    def blocks_json(self) -> bytes:
        """Return the typed blocks as a JSON array."""
        return parse_message_content_json(self.content, self.source)


class MessageBlocks(Struct, gc=False):
    """A row of a session's messages without its text, to read its blocks."""

    id: str
    role: Role
    kind: StoredKind
    source: str
    content: bytes
    """The part of the text that the blocks are copied from; the whole text if they are parsed."""
    is_copied: bool
    sequence: int
    created_at: datetime

    def blocks_json(self) -> bytes:
        """Return the typed blocks as a JSON array, the same as for the text."""
        if self.is_copied:
            return copy_blocks(self.content)
        return parse_message_content_json(self.content, self.source)


class MessageFilter(TypedDict, total=False):
    """Options of a page of messages: a cursor in either direction, and filters. Pages are in ascending order."""

    after: int
    """Only messages after this sequence; 0 by default."""
    before: int | None
    """The last messages before this sequence."""
    limit: int
    """100 by default, at most 1,000. Large texts make a page shorter (`may_have_more`)."""
    kinds: Sequence[StoredKind]
    """Messages and records by default."""
    role: Role | None
    type: str | None
    """Only messages that have a block of this type."""


class _Context(NamedTuple):
    """Values shared by the events of an append."""

    ids: StreamIds
    now: int
    """Time of events whose record names none, in milliseconds."""


_DEFAULTS = {
    "after": 0,
    "before": END,
    "limit": 100,
    "role": None,
    "type": None,
    "bytes": MAX_PAGE_BYTES,
    "chunks": None,
}

_CONVERSATION = {
    **_DEFAULTS,
    "kinds": ["message", "record"],
    "chunks": CHUNK_PATTERN,
}
"""Filters that select the input of standard messages."""


async def append(  # noqa: PLR0913  # one argument per option
    conn: AsyncConnection,
    session_id: UUID,
    messages: Sequence[PreparedMessage],
    *,
    expected_sequence: int | None = None,
    end: bool = False,
    ids: StreamIds = StreamIds(),  # noqa: B008  # immutable
    now: int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> list[Appended]:
    """Store all messages or none, with their events, in one transaction.

    A message that is already stored, or was deleted, keeps its sequence. `end` also closes everything open, as
    `events.end_session` does. `now` is the time of events whose record names none. `metadata` is merged into that of
    the session, key by key, only if all messages are new. `expected_sequence` is checked if one is new, or if there is
    none.
    """
    context = _Context(ids, milliseconds() if now is None else now)
    _check(messages, ids)
    async with one_transaction(conn):
        counters, stored, current = await _lock(
            conn, session_id, messages, with_metadata=metadata is not None
        )
        last = counters.message_sequence
        places = _assign_sequences(messages, last, stored)
        new = [message for message, place in zip(messages, places, strict=True) if place.created]
        merged = None
        if new or not messages:
            check_sequence(expected_sequence, last)
            if metadata is not None and len(new) == len(messages):
                merged = merge_metadata(current, metadata)
        if new or end:
            # PostgreSQL writes the messages while their events are derived.
            await _write_messages(conn, session_id, last, new, merged)
            await _write_events(conn, session_id, counters, new, context, end=end)
        elif merged is not None:
            await set_metadata(conn, session_id, merged)
    return places


async def list_messages(
    conn: AsyncConnection, session_id: UUID, **page: Unpack[MessageFilter]
) -> list[StoredMessage]:
    """Raises SessionNotFound."""
    return await _list_page(conn, StoredMessage, (_FIRST, _LAST), session_id, page)


async def list_blocks(
    conn: AsyncConnection, session_id: UUID, **page: Unpack[MessageFilter]
) -> list[MessageBlocks]:
    """Return the same page as `list_messages`, or a longer one of large texts. Raises SessionNotFound."""
    return await _list_page(conn, MessageBlocks, (_FIRST_BLOCKS, _LAST_BLOCKS), session_id, page)


async def _list_page(
    conn: AsyncConnection,
    row: Callable[..., T],
    queries: tuple[str, str],
    session_id: UUID,
    page: MessageFilter,
) -> list[T]:
    params = {"session_id": session_id, **_to_params(page)}
    backwards = page.get("before") is not None
    rows = await fetch_all(conn, row, queries[backwards], params)
    if not rows:
        await get_session(conn, session_id)
    return rows[::-1] if backwards else rows


async def list_next(  # noqa: PLR0913  # one argument per bound
    conn: AsyncConnection,
    session_id: UUID,
    *,
    after: int = 0,
    before: int = END,
    limit: int,
    max_bytes: int = MAX_PARSE_BYTES,
    kinds: Sequence[StoredKind] | None = None,
) -> list[StoredMessage]:
    """Return the next messages after a sequence, at most as many as may be parsed together.

    By default, these are the messages of the conversation: messages, records, and chunks that may add to standard
    messages. An unknown session has none.
    """
    filters = _CONVERSATION if kinds is None else {**_DEFAULTS, "kinds": list(kinds)}
    bounds = {"after": after, "before": before, "limit": limit, "bytes": max_bytes}
    return await _fetch_messages(conn, _FIRST, {**filters, "session_id": session_id, **bounds})


async def list_last(
    conn: AsyncConnection, session_id: UUID, *, before: int, limit: int, max_bytes: int
) -> list[StoredMessage]:
    """Return the last messages of the conversation before a sequence, in ascending order."""
    bounds = {"before": before, "limit": limit, "bytes": max_bytes}
    rows = await _fetch_messages(conn, _LAST, {**_CONVERSATION, "session_id": session_id, **bounds})
    return rows[::-1]


async def list_head(
    conn: AsyncConnection, session_id: UUID, *, before: int, max_bytes: int = MAX_PARSE_BYTES
) -> list[StoredMessage]:
    """Return the first messages of a session before a sequence; they identify it and its client."""
    return await list_next(conn, session_id, before=before, limit=_HEAD_LINES, max_bytes=max_bytes)


def texts_with_source(stored: Iterable[StoredMessage]) -> list[tuple[str, str | None]]:
    return [(each.content, None if each.source == "unknown" else each.source) for each in stored]


async def get_message(conn: AsyncConnection, session_id: UUID, sequence: int) -> StoredMessage:
    """Raises SessionNotFound, MessageNotFound, MessageDeleted."""
    message = await find_message(conn, session_id, sequence)
    if message.kind == "deleted":
        raise MessageDeleted
    return message


async def find_last(conn: AsyncConnection, session_id: UUID) -> StoredMessage | None:
    """Return the last message or record."""
    return next(iter(await _fetch_messages(conn, _LAST_MESSAGE, [session_id])), None)


async def find_message(conn: AsyncConnection, session_id: UUID, sequence: int) -> StoredMessage:
    """Return a message, or the place of a deleted one. Raises SessionNotFound or MessageNotFound."""
    rows = await _fetch_messages(conn, _ONE, [session_id, min(max(0, sequence), END)])
    if not rows:
        await get_session(conn, session_id)
        raise MessageNotFound
    return rows[0]


async def get_contents(conn: AsyncConnection, session_id: UUID, ids: Sequence[str]) -> dict[str, str | None]:
    """Return the stored texts by message id; None for a deleted message."""
    cursor = await conn.execute(_STORED, [list(ids), session_id], binary=True)
    return {row[0]: row[2] for row in await cursor.fetchall()}


async def compare_contents(
    conn: AsyncConnection, session_id: UUID, digests: Mapping[str, bytes]
) -> dict[str, bool | None]:
    """Return by message id whether the SHA-256 of the stored text is this digest; unknown ids are absent.

    None for a deleted message.
    """
    sent = {"session_id": session_id, "ids": list(digests), "digests": list(digests.values())}
    cursor = await conn.execute(_COMPARE, sent, binary=True)
    return dict(await cursor.fetchall())


async def stream_messages(
    connect: Connect,
    session_id: UUID,
    *,
    after: int = 0,
    kinds: Sequence[StoredKind] = ("message", "record", "chunk"),
) -> AsyncGenerator[StoredMessage, None]:
    """Yield all messages in order, as of one moment, in bounded memory. An unknown session yields nothing.

    No connection is held while the caller handles a message. Stored messages never change, so pages up to the last
    sequence are the same as a snapshot. Messages that are deleted meanwhile may be left out. Raises SessionChanged if
    the session is deleted or replaced.
    """
    read: list[StoredKind] = [*kinds, "deleted"]
    is_filtered = set(read) < set(_ALL_KINDS)
    async with connect() as conn:
        end = await (await conn.execute(_END, [session_id])).fetchone()
    last, moment = end or (0, None)
    while after < last:
        async with connect() as conn:
            page = await list_next(
                conn, session_id, after=after, before=last + 1, limit=_FETCH_SIZE, kinds=read
            )
        is_complete = bool(page) and page[0].sequence == after + 1
        if not (is_complete or is_filtered) or any(message.created_at > moment for message in page):
            raise SessionChanged
        for message in page:
            if message.kind in kinds:
                yield message
        after = page[-1].sequence if page else last


def to_message(session_id: UUID, stored: StoredMessage) -> Message:
    """Return the message with its text read as typed blocks; a deleted one has neither."""
    is_deleted = stored.kind == "deleted"
    return Message(
        id=stored.id,
        session_id=str(session_id),
        role=stored.role,
        kind=stored.kind,
        source=stored.source,
        content=None if is_deleted else stored.content,
        sequence=stored.sequence,
        created_at=stored.created_at,
        parsed=None if is_deleted else parse_message_content(stored.content, stored.source),
    )


def _check(messages: Sequence[PreparedMessage], stream_ids: StreamIds) -> None:
    ids: set[str] = set()
    for index, message in enumerate(messages):
        if not 1 <= len(message.id) <= 255:
            raise InvalidId(index=index)
        check_text(message.id, "the id", index)
        check_text(message.described.source, "the source", index)
        check_text(message.content, "the message", index)
        if message.id_given and message.id in ids:
            raise DuplicateInBatch(index=index)
        if message.id_given:
            ids.add(message.id)
    for name, id in stream_ids._asdict().items():
        check_text(id or "", name)


class _Stored(NamedTuple):
    sequence: int
    content: str | None
    """None: deleted."""


async def _lock(
    conn: AsyncConnection, session_id: UUID, messages: Sequence[PreparedMessage], *, with_metadata: bool
) -> tuple[Counters, dict[str, _Stored], str]:
    """Lock and return the counters, which of these messages are stored already, and the metadata, if it changes."""
    locked = await conn.execute(LOCK_WITH_METADATA if with_metadata else LOCK, [session_id])
    stored = await conn.execute(_STORED, [[message.id for message in messages], session_id])
    if with_metadata:
        counters, metadata = await read_counters_and_metadata(locked)
    else:
        counters, metadata = await read_counters(locked), ""
    known = {row[0]: _Stored(*row[1:]) for row in await stored.fetchall()}
    return counters, known, metadata


def _assign_sequences(
    messages: Sequence[PreparedMessage], last: int, stored: dict[str, _Stored]
) -> list[Appended]:
    known = dict(stored)
    places = []
    for index, message in enumerate(messages):
        created = message.id not in known
        if created:
            last += 1
            known[message.id] = _Stored(last, message.content)
        sequence, content = known[message.id]
        if content not in (None, message.content):
            raise IdConflict(index=index)
        places.append(Appended(message.id, sequence, created, deleted=content is None))
    return places


async def _write_messages(
    conn: AsyncConnection,
    session_id: UUID,
    last: int,
    new: Sequence[PreparedMessage],
    metadata: str | None,
) -> None:
    described = [message.described for message in new]
    values = {
        "session_id": session_id,
        "last": last,
        "parser_version": PARSER_VERSION,
        "metadata": metadata,
        "ids": [message.id for message in new],
        "contents": [message.content for message in new],
        "roles": [each.role for each in described],
        "kinds": [each.kind for each in described],
        "sources": [each.source for each in described],
        "block_types": [",".join(each.block_types) for each in described],
        "digests": [each.digest for each in described],
        "have_explicit_roles": [message.has_explicit_role for message in new],
        "have_explicit_sources": [message.has_explicit_source for message in new],
        "blocks_starts": without_nulls([message.blocks and message.blocks.start for message in new]),
        "blocks_sizes": without_nulls([message.blocks and message.blocks.size for message in new]),
        **collect_facts(described)._asdict(),
    }
    await conn.execute(_WRITE, values)
    await insert_drift(conn, session_id, starmap(DescribedMessage, enumerate(described, last + 1)))


async def _write_events(
    conn: AsyncConnection,
    session_id: UUID,
    counters: Counters,
    new: Sequence[PreparedMessage],
    context: _Context,
    *,
    end: bool,
) -> None:
    last = counters.message_sequence

    async def derive_events(normalizer: Normalizer) -> list[PreparedEvent]:
        events = await _derive_events(normalizer, session_id, last, new, context)
        if end:
            posted = "" if new else await last_posted(conn, session_id, last)
            events += ending(normalizer, session_id, last + len(new), posted, context.now)
        return events

    lines = (message.line for message in new)
    derived, saved = await with_normalizer(conn, session_id, counters, derive_events, lines)
    events = await resolve_id_conflicts(conn, session_id, derived)
    rows = columns(events, may_have_chunks=counters.may_have_chunks)
    await write_events(conn, session_id, counters, rows, saved, messages=len(new))


async def _derive_events(
    normalizer: Normalizer, session_id: UUID, last: int, new: Sequence[PreparedMessage], context: _Context
) -> list[PreparedEvent]:
    if not last:
        normalizer.expect((message.line for message in new), context.now)
    sequences = count(last + 1)

    def derive_next(message: PreparedMessage) -> list[PreparedEvent]:
        sequence, text = next(sequences), message.content
        return derive(normalizer, session_id, sequence, message.line, context.now, context.ids, text=text)

    return list(chain.from_iterable(await offload_each(derive_next, new)))


def _to_params(page: MessageFilter) -> dict[str, Any]:
    options = check_options(page)
    check_text(options.get("role", ""), "role")
    check_text(options.get("type", ""), "type")
    return {**_DEFAULTS, **options, "kinds": list(options.get("kinds", ("message", "record")))}


async def _fetch_messages(
    conn: AsyncConnection, query: str, params: Sequence[Any] | Mapping[str, Any]
) -> list[StoredMessage]:
    return await fetch_all(conn, StoredMessage, query, params)
