"""Messages: append in one order, read by sequence.

An append locks the counters of its session before it reads them and until it commits. So sequences have no gap and
become visible in ascending order: a reader that continues after a sequence misses nothing.

Functions accept a connection in autocommit mode (`connections.pool.open_pool`); `MessageStore` has them as methods.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial, reduce
from itertools import takewhile
from typing import NamedTuple, Unpack
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.errors import DuplicateInBatch, InvalidId, InvalidUtf8
from ash_server.offload import offload, offload_each
from ash_server.store.appending.known_sessions import KnownSession, KnownSessions, Revision
from ash_server.store.appending.new_messages import (
    AppendContext,
    AppendOptions,
    KnownText,
    assign_sequences,
    derive_events,
    facts_of_parts,
    write_messages,
)
from ash_server.store.appending.one_statement import NeedsLockError, SessionChangedError, append_to_known
from ash_server.store.borrowed import Connections, Resource, read, rewrite, stream, write
from ash_server.store.connections.deferral import current_deferral
from ash_server.store.connections.grouped_appends import GroupedAppends
from ash_server.store.connections.pool import is_distributed, one_transaction
from ash_server.store.connections.tenants import tenant_of
from ash_server.store.facts.replacements import MAX_NAMED_MESSAGES, replace_prompts
from ash_server.store.log import writer
from ash_server.store.log.derived import Derived
from ash_server.store.log.events import Appended
from ash_server.store.log.kept_states import DerivedState
from ash_server.store.log.writer import (
    Counters,
    PreparedEvent,
    StreamIds,
    ending,
    last_posted,
    milliseconds,
    read_counters_with_metadata,
    read_counters_with_name,
    resolve_id_conflicts,
    set_inherited,
    with_normalizer,
    write_events,
)
from ash_server.store.maintenance import deletion, reindex
from ash_server.store.maintenance.reindex import Reread
from ash_server.store.message_pages import (
    STORED_TEXTS,
    MessageFilter,
    add_archived,
    compare_contents,
    get_contents,
    get_message,
    list_blocks,
    list_messages,
    list_page,
    stream_messages,
    to_message,
)
from ash_server.store.prepare import NewMessage, PreparedMessage, prepare_message
from ash_server.store.session_facts import RecordFacts
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import check_sequence, merge_metadata, set_metadata
from ash_server.store.text import check_text
from ash_shared.eventlog import Normalizer, inherited_records
from ash_shared.model.keywords import check_keywords
from ash_shared.model.message import Message

_NO_IDS = StreamIds()


class Compared(NamedTuple):
    """Texts compared with the stored ones."""

    equal: list[str]
    """The ids of equal texts before the one that differs."""
    deleted: list[str]
    """The ids before it with deleted stored texts."""
    different: tuple[str, str] | None
    """The id and the stored text of the first one that differs."""


async def append(
    conn: AsyncConnection,
    session_id: UUID,
    messages: Sequence[PreparedMessage],
    **options: Unpack[AppendOptions],
) -> list[Appended]:
    """Store all messages or none, with their events, in one transaction.

    A message that is already stored, or was deleted, keeps its sequence.
    """
    places, _ = await _append_locked(conn, session_id, messages, _check(messages, options), options)
    return places


async def append_and_know(
    conn: AsyncConnection,
    session_id: UUID,
    messages: Sequence[PreparedMessage],
    sessions: KnownSessions,
    **options: Unpack[AppendOptions],
) -> list[Appended]:
    """Append as `append` does, with one statement if nothing has changed the session since the last append to it."""
    key = tenant_of(conn).number, session_id
    context, known = _check(messages, options), sessions.take(key)
    appended = None
    if known is not None:
        try:
            appended = await append_to_known(conn, session_id, known, messages, context, options)
        except SessionChangedError:
            sessions.pause(key)
        except NeedsLockError:
            pass
    places, after = appended or await _append_locked(conn, session_id, messages, context, options)
    if after is not None:
        sessions.add(key, after)
    return places


def _check(messages: Sequence[PreparedMessage], options: AppendOptions) -> AppendContext:
    check_keywords("append", options, AppendOptions)
    ids, now = options.get("ids", StreamIds()), options.get("now")
    check_messages(messages, ids)
    return AppendContext(ids, milliseconds() if now is None else now)


async def _append_locked(
    conn: AsyncConnection,
    session_id: UUID,
    messages: Sequence[PreparedMessage],
    context: AppendContext,
    options: AppendOptions,
) -> tuple[list[Appended], KnownSession | None]:
    """Return the places of the messages, and the session.

    None in a cluster, and if the next append is likely to need the lock, too.
    """
    metadata, end = options.get("metadata"), options.get("end", False)
    async with one_transaction(conn):
        counters, stored, name, current = await _lock(
            conn, session_id, messages, with_metadata=metadata is not None
        )
        last = counters.message_sequence
        places = assign_sequences(messages, last, stored)
        new = [message for message, place in zip(messages, places, strict=True) if place.created]
        merged, after, written = None, None, None
        if new or not messages:
            check_sequence(options.get("expected_sequence"), last)
            if metadata is not None and len(new) == len(messages):
                merged = merge_metadata(current or "{}", metadata)
        if new or end:
            # PostgreSQL writes the messages while their events are derived.
            inherited = inherited_records(counters.normalizer_state)
            parts = facts_of_parts(last, new, inherited)
            facts = reduce(RecordFacts.merge, parts)
            written = await write_messages(conn, session_id, last, new, merged, facts)
            is_named = facts.provider_session_id != name and not facts.agent_id
            if is_named and last < MAX_NAMED_MESSAGES:
                await replace_prompts(conn, session_id, facts.source, facts.provider_session_id)
            after = await _write_events(conn, session_id, counters, new, context, parts, end=end)
            name = name if facts.provider_session_id is None else facts.provider_session_id
        elif merged is not None:
            await set_metadata(conn, session_id, merged)
    if written is None or after is None or is_distributed(conn):
        return places, None
    revision = Revision(*(await written.fetchone() or ()))
    counters, keys = after
    return places, KnownSession(revision, counters, name, merged or current).with_answers(keys)


async def compare(conn: AsyncConnection, session_id: UUID, digests: Mapping[str, bytes]) -> Compared:
    """Compare texts with the stored ones by their SHA-256, in order, up to the first that differs.

    Ids that are not stored are not in the result. Raises SessionNotFound.
    """
    compared = await compare_contents(conn, session_id, digests)
    if not compared:
        await get_session(conn, session_id)
    different = next((id for id in digests if compared.get(id) is False), None)
    stored = {} if different is None else await get_contents(conn, session_id, [different])
    before = [id for id in takewhile(lambda id: id != different, digests) if id in compared]
    return Compared(
        equal=[id for id in before if compared[id]],
        deleted=[id for id in before if compared[id] is None],
        different=next(((id, text or "") for id, text in stored.items()), None),
    )


def check_messages(messages: Sequence[PreparedMessage], stream_ids: StreamIds = _NO_IDS) -> None:
    """Raises InvalidId, DuplicateInBatch, InvalidUtf8, NulByte."""
    ids: set[str] = set()
    for index, message in enumerate(messages):
        if not 1 <= len(message.id) <= 255:
            raise InvalidId(index=index)
        check_text(message.id, "the id", index)
        check_text(message.described.source, "the source", index)
        check_text(message.content, "the message", index)
        if message.has_explicit_id and message.id in ids:
            raise DuplicateInBatch(index=index)
        if message.has_explicit_id:
            ids.add(message.id)
    for name, id in zip(StreamIds._fields, stream_ids, strict=True):
        check_text(id or "", name)


class _Locked(NamedTuple):
    counters: Counters
    stored: dict[str, KnownText]
    """The messages that are stored already, by id."""
    name: str | None
    """The provider's id of the session."""
    metadata: str | None
    """JSON; None if the append does not change it."""


async def _lock(
    conn: AsyncConnection, session_id: UUID, messages: Sequence[PreparedMessage], *, with_metadata: bool
) -> _Locked:
    """Lock the session, and look up its messages."""
    statement = (
        writer.SQL.lock_counters_with_metadata if with_metadata else writer.SQL.lock_counters_with_name
    )
    locked = await conn.execute(statement, [session_id])
    stored = await conn.execute(STORED_TEXTS, [[message.id for message in messages], session_id])
    if with_metadata:
        counters, name, metadata = await read_counters_with_metadata(locked)
    else:
        (counters, name), metadata = await read_counters_with_name(locked), None
    texts = await add_archived(conn, session_id, await stored.fetchall())
    assert texts is not None  # a restore waits for the lock
    known = {id: KnownText(sequence, text) for id, sequence, text in texts}
    return _Locked(counters, known, name, metadata)


async def _write_events(  # noqa: PLR0913  # one argument per input
    conn: AsyncConnection,
    session_id: UUID,
    counters: Counters,
    new: Sequence[PreparedMessage],
    context: AppendContext,
    facts: Sequence[RecordFacts],
    *,
    end: bool,
) -> tuple[Counters, list[str]] | None:
    """Return the counters after, and the keys of the answers; None if the next append is likely to need the lock."""
    last, inherited, states = counters.message_sequence, 0, list[DerivedState]()

    async def derive_all(normalizer: Normalizer, derived: Derived) -> list[PreparedEvent]:
        nonlocal inherited, states
        events, inherited, states = await derive_events(normalizer, derived, session_id, last, new, context)
        if end:
            posted = "" if new else await last_posted(conn, session_id, last)
            place = session_id, last + len(new), posted
            events += ending(normalizer, *place, context.now, derived=derived)
        return events

    lines = (message.line for message in new)
    derived, saved = await with_normalizer(conn, session_id, counters, derive_all, lines)
    events = await resolve_id_conflicts(conn, session_id, derived)
    after = await write_events(
        conn, session_id, counters, events, saved, messages=len(new), states=states, facts=facts
    )
    if inherited:
        await set_inherited(conn, session_id, inherited)
    if inherited or any(each.has_own_id for each in events):
        return None
    return after, [row["key"] for sent in saved.answers for row in sent.rows]


def _to_new_message(value: str | bytes | NewMessage, index: int) -> NewMessage:
    if isinstance(value, NewMessage):
        return value
    if isinstance(value, bytes):
        try:
            return NewMessage(value.decode())
        except UnicodeDecodeError:
            raise InvalidUtf8("the message is not valid UTF-8", index=index) from None
    if isinstance(value, str):
        return NewMessage(value)
    raise TypeError(f"a message is str, bytes or NewMessage, not {type(value).__name__}")


def _prepare(session_id: UUID, new: NewMessage) -> PreparedMessage:
    return prepare_message(
        session_id,
        new.content,
        id=new.id,
        role=new.role,
        source=new.source,
        fallback_id=new.fallback_id,
    )


class MessageStore(Resource):
    """The stored texts of sessions, in their order.

    The messages of a session are numbered 1, 2, 3 … without gaps, in the order of commits, so a reader that continues
    after the last sequence it received misses nothing.
    """

    _append_known = write(append_and_know)
    list_messages = read(list_messages)
    list_page = read(list_page)
    list_blocks = read(list_blocks)
    get_message = read(get_message)
    delete = rewrite(deletion.delete_message)
    pop = rewrite(deletion.delete_last_message)
    get_contents = read(get_contents)
    compare_contents = read(compare)
    stream_messages = stream(stream_messages)
    list_outdated = read(reindex.outdated_sessions)
    reindex = rewrite(reindex.reindex_messages)

    def __init__(
        self, connections: Connections, wake: Callable[[UUID], None], known_sessions: KnownSessions
    ) -> None:
        super().__init__(connections, wake)
        self._known_sessions = known_sessions
        self._groups = GroupedAppends(self._append_alone)

    async def append_prepared(
        self, session_id: UUID, messages: Sequence[PreparedMessage], **options: Unpack[AppendOptions]
    ) -> list[Appended]:
        """Store all messages or none, with their events, in one transaction.

        A message that is already stored, or was deleted, keeps its sequence. Appends without options that wait for
        another one to the same session share a transaction; if one of them is refused, the others are stored.
        """
        check_keywords("append", options, AppendOptions)
        has_options = any(value is not None and value is not False for value in options.values())
        waits_for_disk = current_deferral() is None
        if messages and waits_for_disk and not has_options:  # an expected sequence may be 0
            return await self._groups.append(session_id, messages)
        return await self._append_alone(session_id, messages, **options)

    async def _append_alone(
        self, session_id: UUID, messages: Sequence[PreparedMessage], **options: Unpack[AppendOptions]
    ) -> list[Appended]:
        return await self._append_known(session_id, messages, self._known_sessions, **options)

    async def append(
        self,
        session_id: UUID,
        new: Iterable[str | bytes | NewMessage],
        **options: Unpack[AppendOptions],
    ) -> list[Appended]:
        """Store texts verbatim, all or none, together with the events derived from them.

        Returns one entry per text, in order. If the result was lost, repeat the append: a text with an id, or with a
        provider's `uuid` in it, is stored once; when repeated, it keeps its sequence and is returned with `created`
        False, and with `deleted` True if it was deleted since. A text with neither is stored each time.

        Raises SessionNotFound, IdConflict, DuplicateInBatch, SequenceMismatch, InvalidId, InvalidUtf8, NulByte; the
        `index` of an error is the position of its text in `new`. Raises InvalidParameter and BodyTooLarge for metadata
        that are nested too deeply or too large.
        """
        return await self.append_prepared(session_id, await self.prepare(session_id, new), **options)

    async def prepare(
        self, session_id: UUID, new: Iterable[str | bytes | NewMessage]
    ) -> list[PreparedMessage]:
        """Read texts for `append_prepared`, without the database. Raises InvalidUtf8."""
        if isinstance(new, (str, bytes)):
            raise TypeError("append takes a list of texts, not a single text")
        new_messages = [_to_new_message(value, index) for index, value in enumerate(new)]
        return await offload_each(partial(_prepare, session_id), new_messages)

    async def list_messages_parsed(self, session_id: UUID, **filters: Unpack[MessageFilter]) -> list[Message]:
        """Like `list_messages`, with each text also parsed to typed blocks (`parsed`). Parsing never fails."""
        stored = await self.list_messages(session_id, **filters)
        return await offload_each(partial(to_message, session_id), stored)

    async def get_message_parsed(self, session_id: UUID, sequence: int) -> Message:
        """Return the message with its typed blocks. Raises as `get_message` does."""
        stored = await self.get_message(session_id, sequence)
        return await offload(partial(to_message, session_id), stored)

    async def reread(self, session_id: UUID) -> AsyncGenerator[list[Reread], None]:
        """Yield all stored messages, in pages, as the current parser reads them. Writes nothing."""
        async with (
            self._connections.stream() as conn,
            aclosing(reindex.reread(conn, session_id)) as pages,
        ):
            async for page in pages:
                yield page
