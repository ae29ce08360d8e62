"""Messages: append verbatim, list, and read as typed blocks."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple, Unpack
from uuid import UUID

from ash_server.errors import InvalidUtf8
from ash_server.offload import offload, offload_each
from ash_server.store import messages, sessions
from ash_server.store.borrowed import Connections
from ash_server.store.log.events import Appended
from ash_server.store.log.writer import StreamIds
from ash_server.store.maintenance import deletion, reindex
from ash_server.store.maintenance.reindex import Reindexed, Reread
from ash_server.store.messages import MessageBlocks, MessageFilter, PreparedMessage, StoredMessage, to_message
from ash_server.store.prepare import NewMessage, prepare_message
from ash_shared.model.message import Message, StoredKind


class Compared(NamedTuple):
    """Texts compared with the stored ones."""

    equal: list[str]
    """The ids of equal texts before the one that differs."""
    deleted: list[str]
    """The ids before it whose stored texts were deleted."""
    different: tuple[str, str] | None
    """The id and the stored text of the first one that differs."""


class MessageRepository:
    """The stored texts of sessions, in their order.

    The messages of a session are numbered 1, 2, 3 … without gaps, in the order of commits, so a reader that continues
    after the last sequence it received misses nothing.
    """

    def __init__(self, connections: Connections, wake: Callable[[UUID], None]) -> None:
        self._connections = connections
        self._wake = wake

    async def append(  # noqa: PLR0913  # one argument per option
        self,
        session_id: UUID,
        new: Iterable[str | bytes | NewMessage],
        *,
        expected_sequence: int | None = None,
        end: bool = False,
        ids: StreamIds = StreamIds(),  # noqa: B008  # immutable
        now: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Appended]:
        """Store texts verbatim, all or none, together with the events derived from them.

        Returns one entry per text, in order. If the result was lost, repeat the append: a text with an id, or with a
        provider's `uuid` in it, is stored once; when repeated, it keeps its sequence and is returned with `created`
        False, and with `deleted` True if it was deleted since. A text with neither is stored each time.
        `expected_sequence` must be the last sequence of the session if any text is new, or if there is none. `metadata`
        is merged into that of the session, key by key, if all texts are new; None removes a key. `end` also closes
        everything open, as `EventStore.end` does.
        `ids` names the turn and the response of the events; a rebuild of the events derives these ids again.
        `now` is the time, in milliseconds, of events whose record names none.

        Raises SessionNotFound, IdConflict, DuplicateInBatch, SequenceMismatch, InvalidId, InvalidUtf8, NulByte;
        the `index` of an error is the position of its text in `new`.
        """
        prepared = await self.prepare(session_id, new)
        return await self.append_prepared(
            session_id,
            prepared,
            expected_sequence=expected_sequence,
            end=end,
            ids=ids,
            now=now,
            metadata=metadata,
        )

    async def prepare(
        self, session_id: UUID, new: Iterable[str | bytes | NewMessage]
    ) -> list[PreparedMessage]:
        """Read texts for `append_prepared`, without the database. Raises InvalidUtf8."""
        if isinstance(new, (str, bytes)):
            raise TypeError("append takes a list of texts, not a single text")
        new_messages = [_to_new_message(value, index) for index, value in enumerate(new)]
        return await offload_each(partial(_prepare, session_id), new_messages)

    async def append_prepared(  # noqa: PLR0913  # one argument per option
        self,
        session_id: UUID,
        prepared: Sequence[PreparedMessage],
        *,
        expected_sequence: int | None = None,
        end: bool = False,
        ids: StreamIds = StreamIds(),  # noqa: B008  # immutable
        now: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Appended]:
        """Store messages that `prepare` or `ingest.prepare_message` returned; see `append`."""
        async with self._connections.writer(session_id) as conn:
            appended = await messages.append(
                conn,
                session_id,
                prepared,
                expected_sequence=expected_sequence,
                end=end,
                ids=ids,
                now=now,
                metadata=metadata,
            )
        self._wake(session_id)
        return appended

    async def list_messages(self, session_id: UUID, **filters: Unpack[MessageFilter]) -> list[StoredMessage]:
        """Return a page of stored messages in ascending order.

        `after` pages forwards and `before` backwards. A page of large texts may be shorter than `limit` although more
        messages follow (`pagination.may_have_more`). Raises SessionNotFound, InvalidParameter.
        """
        async with self._connections.connection() as conn:
            return await messages.list_messages(conn, session_id, **filters)

    async def list_messages_parsed(self, session_id: UUID, **filters: Unpack[MessageFilter]) -> list[Message]:
        """Like `list_messages`, with each text also read as typed blocks (`parsed`). Reading never fails."""
        stored = await self.list_messages(session_id, **filters)
        return await offload_each(partial(to_message, session_id), stored)

    async def list_blocks(self, session_id: UUID, **filters: Unpack[MessageFilter]) -> list[MessageBlocks]:
        """Like `list_messages`, for the blocks without the texts; pages of large texts may be longer."""
        async with self._connections.connection() as conn:
            return await messages.list_blocks(conn, session_id, **filters)

    async def get_message(self, session_id: UUID, sequence: int) -> StoredMessage:
        """Raises SessionNotFound, MessageNotFound, MessageDeleted."""
        async with self._connections.connection() as conn:
            return await messages.get_message(conn, session_id, sequence)

    async def get_message_parsed(self, session_id: UUID, sequence: int) -> Message:
        """Return the message with its typed blocks. Raises as `get_message` does."""
        stored = await self.get_message(session_id, sequence)
        return await offload(partial(to_message, session_id), stored)

    async def delete(self, session_id: UUID, sequence: int) -> StoredMessage | None:
        """Delete the text of a message and everything derived from it. Its sequence and its id are not used again.

        Appends a retraction to the log; if other events depend on the message, the log is derived again, too, and
        begins with a `reset`. Returns the message as it was, or None if it was deleted before. Raises SessionNotFound,
        MessageNotFound.
        """
        async with self._connections.writer(session_id) as conn:
            message = await deletion.delete_message(conn, session_id, sequence)
        self._wake(session_id)
        return message

    async def pop(self, session_id: UUID) -> StoredMessage | None:
        """Delete the last message or record, as `delete` does, and return it; None if there is none.

        Of concurrent callers, each gets another message. Raises SessionNotFound.
        """
        async with self._connections.writer(session_id) as conn:
            message = await deletion.delete_last_message(conn, session_id)
        self._wake(session_id)
        return message

    async def get_contents(self, session_id: UUID, ids: Sequence[str]) -> dict[str, str | None]:
        """Return the stored texts by message id, None for deleted ones; ids that are not stored are absent."""
        async with self._connections.connection() as conn:
            return await messages.get_contents(conn, session_id, ids)

    async def compare_contents(self, session_id: UUID, digests: Mapping[str, bytes]) -> Compared:
        """Compare texts with the stored ones by their SHA-256, in order, up to the first that differs.

        Ids that are not stored are not in the result. Raises SessionNotFound.
        """
        async with self._connections.connection() as conn:
            compared = await messages.compare_contents(conn, session_id, digests)
            if not compared:
                await sessions.get_session(conn, session_id)
            different = next((id for id in digests if compared.get(id) is False), None)
            stored = {} if different is None else await messages.get_contents(conn, session_id, [different])
        before = [id for id in takewhile(lambda id: id != different, digests) if id in compared]
        return Compared(
            equal=[id for id in before if compared[id]],
            deleted=[id for id in before if compared[id] is None],
            different=next(((id, text or "") for id, text in stored.items()), None),
        )

    async def stream_messages(
        self,
        session_id: UUID,
        *,
        after: int = 0,
        kinds: Sequence[StoredKind] = ("message", "record", "chunk"),
    ) -> AsyncGenerator[StoredMessage, None]:
        """Yield the messages of these kinds in order, as of one moment, in bounded memory.

        An unknown session yields nothing. Holds no connection while the caller handles a message. Raises SessionChanged
        if the session is deleted or replaced meanwhile.
        """
        connect = self._connections.stream
        async with aclosing(
            messages.stream_messages(connect, session_id, after=after, kinds=kinds)
        ) as stream:
            async for message in stream:
                yield message

    async def reread(self, session_id: UUID) -> AsyncGenerator[list[Reread], None]:
        """Yield all stored messages, in pages, with what the current parser derives from them. Writes nothing."""
        async with (
            self._connections.stream() as conn,
            aclosing(reindex.reread(conn, session_id)) as pages,
        ):
            async for page in pages:
                yield page

    async def reindex(self, session_id: UUID) -> Reindexed:
        """Derive everything but events again from the messages, with the current parser.

        Raises SessionNotFound. Blocks other writers only while a page is written. An interrupted call may be repeated.
        """
        async with self._connections.writer(session_id) as conn:
            return await reindex.reindex_messages(conn, session_id)


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
