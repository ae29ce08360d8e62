"""The event log of each session: append, read, subscribe."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import NamedTuple, Unpack
from uuid import UUID

import msgspec

from ash_server.store.borrowed import Connections
from ash_server.store.log import events, ranges, rebuild
from ash_server.store.log.events import Appended, EventFilter, StoredEvent
from ash_server.store.log.ranges import LineContext, LogPosition, Span
from ash_server.store.log.rebuild import Rebuilt
from ash_server.store.log.subscriptions import EventBatch, Hub
from ash_server.store.prepare import EventInput, as_json, prepare_event
from ash_shared.eventlog import Event, OpenTurn
from ash_shared.model.events import ChatEvent, read_event


class RunningTurn(NamedTuple):
    """A turn whose answer is not complete."""

    id: str
    after: int
    """Its events have greater sequences."""


class EventStore:
    """The append-only log of chat events, derived from messages or appended directly.

    The events of a session are numbered 1, 2, 3 … without gaps, in the order of commits. A rebuilt log begins with a
    `reset` event: a reader discards the events received before it.
    """

    def __init__(self, connections: Connections, hub: Hub) -> None:
        self._connections = connections
        self._hub = hub
        self._tenant = connections.tenant

    async def append(self, session_id: UUID, event: EventInput) -> Appended:
        """Append one event; see `append_batch`."""
        return (await self.append_batch(session_id, [event]))[0]

    async def append_batch(self, session_id: UUID, new: Iterable[EventInput]) -> list[Appended]:
        """Append events, all or none, and return where they are stored, in order.

        An event without an `id` gets a new one; without a `timestamp`, the time of storing. Its `sessionId` may be
        empty; its sequences are ignored. An event that is already stored under its id keeps its sequence and is
        returned with `created` False.

        Raises SessionNotFound, SessionMismatch, IdConflict, DuplicateInBatch, InvalidBody, TooDeep, NulByte,
        InvalidUtf8; `index` on the error is the position in the batch.
        """
        prepared = [prepare_event(as_json(event, index), index) for index, event in enumerate(new)]
        return await self.append_prepared(session_id, prepared)

    async def append_prepared(self, session_id: UUID, prepared: Sequence[Event]) -> list[Appended]:
        """Append events that `ingest.prepare_event` returned; see `append_batch`."""
        async with self._connections.writer(session_id) as conn:
            appended = await events.append_events(conn, session_id, prepared)
        self._hub.wake(session_id, self._tenant)
        return appended

    async def end(self, session_id: UUID) -> int:
        """Close the open texts, calls and turn when a stream has ended. Return the number of events appended for that.

        The session may be continued later. Raises SessionNotFound.
        """
        async with self._connections.writer(session_id) as conn:
            count = await events.end_session(conn, session_id)
        self._hub.wake(session_id, self._tenant)
        return count

    async def get_events(self, session_id: UUID, **filters: Unpack[EventFilter]) -> list[ChatEvent]:
        """Return a page of typed events in ascending order.

        `after`, a sequence or the id of an event, pages forwards and `before` backwards; `at` and `message` select the
        page around a sequence; `collapse` omits chunks whose complete content follows. Raises SessionNotFound,
        InvalidParameter.
        """
        return [_to_event(stored) for stored in await self.get_stored_events(session_id, **filters)]

    async def get_events_since(
        self, session_id: UUID, after: int | str, *, limit: int = 100, collapse: bool = False
    ) -> list[ChatEvent]:
        """Return the events after a sequence, or after the event with an id; an empty list means there are none yet.

        Raises SessionNotFound, InvalidParameter.
        """
        return await self.get_events(session_id, after=after, limit=limit, collapse=collapse)

    async def get_stored_events(self, session_id: UUID, **filters: Unpack[EventFilter]) -> list[StoredEvent]:
        """Like `get_events`, but return the stored JSON (`StoredEvent.wire`) without decoding it."""
        async with self._connections.connection() as conn:
            after = await events.resolve_cursor(conn, session_id, filters.get("after", 0))
            page: EventFilter = {**filters, "after": after}
            return await events.get_events(conn, session_id, **page)

    async def stream_stored_events(self, session_id: UUID) -> AsyncGenerator[StoredEvent, None]:
        """Yield all events in order, as of one moment, in bounded memory. An unknown session yields nothing.

        Holds no connection while the caller handles an event. Raises SessionChanged if the session is deleted or its
        log is rebuilt meanwhile.
        """
        async with aclosing(events.stream_events(self._connections.stream, session_id)) as stream:
            async for event in stream:
                yield event

    async def subscribe(
        self, session_id: UUID, after: int | str = 0, *, collapse: bool = False
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield every event after a sequence or event id, once and in order, then each new event when it is stored.

        Ends when the session is deleted or the store closes; continues after database outages. The first step may raise
        SessionNotFound, InvalidParameter or CursorAhead.
        """
        sequence = await self.check_cursor(session_id, after)
        async with aclosing(self.subscribe_stored(session_id, sequence, collapse=collapse)) as pages:
            async for page in pages:
                for stored in page.events:
                    yield _to_event(stored)

    def subscribe_stored(
        self, session_id: UUID, after: int = 0, *, collapse: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        """Like `subscribe`, but yield pages of stored JSON, which subscribers at the same sequence share.

        Call `check_cursor` first. A page, possibly empty, comes at least every 15 seconds, and `IDLE` every 2 seconds.
        The `caught_up` of a page is True if no later event was stored when it was read.
        """
        return self._hub.subscribe(session_id, after, collapse=collapse, tenant=self._tenant)

    async def check_cursor(self, session_id: UUID, after: int | str) -> int:
        """Return the sequence of a cursor: a sequence, or the id of an event.

        Raises SessionNotFound, InvalidParameter for an unknown id, CursorAhead if it is past the end of the log.
        """
        async with self._connections.connection() as conn:
            sequence = await events.resolve_cursor(conn, session_id, after)
            await events.check_cursor(conn, session_id, sequence)
        return sequence

    async def get_open_turn(self, session_id: UUID) -> OpenTurn | None:
        """Return the turn that has not ended, if any. Raises SessionNotFound."""
        async with self._connections.connection() as conn:
            return await events.get_open_turn(conn, session_id)

    async def get_running_turn(self, session_id: UUID) -> RunningTurn | None:
        """Return the turn whose answer is not complete, if any. Raises SessionNotFound."""
        async with self._connections.connection() as conn:
            turn = await events.get_open_turn(conn, session_id)
            if turn is None or turn.is_over:
                return None
            return RunningTurn(turn.id, await ranges.find_last_turn(conn, session_id))

    async def get_place(self, session_id: UUID, sequence: int) -> LogPosition:
        """Return the position after an event."""
        async with self._connections.connection() as conn:
            return await ranges.place_of(conn, session_id, sequence)

    async def get_turn(self, session_id: UUID, end: LogPosition) -> Span:
        """Return the turn that ends at this position."""
        async with self._connections.connection() as conn:
            return await ranges.get_turn(conn, session_id, end)

    async def get_range(self, session_id: UUID, start: LogPosition, end: LogPosition) -> Span:
        """Return the events and messages between two positions; a long range is cut."""
        async with self._connections.connection() as conn:
            return await ranges.get_span(conn, session_id, start, end)

    async def get_context(self, session_id: UUID, place: LogPosition) -> LineContext:
        """Return the last messages before a position."""
        async with self._connections.connection() as conn:
            return await ranges.get_context(conn, session_id, place)

    async def rebuild(self, session_id: UUID) -> Rebuilt:
        """Derive the log again from the stored messages, in one transaction.

        Posted events keep their places among the others. The new log starts with a `reset` event, numbered after the
        last old event, so subscribers receive it as new events. Blocks writers. Raises SessionNotFound.
        """
        async with self._connections.writer(session_id) as conn:
            rebuilt = await rebuild.rebuild_events(conn, session_id)
        self._hub.wake(session_id, self._tenant)
        return rebuilt

    async def list_outdated(self) -> list[UUID]:
        """Return the sessions whose events were derived by another version, or not at all."""
        async with self._connections.connection() as conn:
            return await rebuild.outdated_sessions(conn)


def _to_event(stored: StoredEvent) -> ChatEvent:
    return read_event(msgspec.json.decode(stored.wire()))
