"""Subscribe to a session's events with server-sent events.

Sends the events after a cursor, `caught_up` once, then new events. Keeps one page in memory, and no database connection
while the client reads. The stream ends when the server stops; clients reconnect with their cursor. There is no timeout:
heartbeats detect disconnected clients.
"""

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.response import Stream

from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import find_refusal
from ash_server.api.http.guards.origin_guard import check_origin
from ash_server.api.http.headers import get_header
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.redaction import compared, is_redacted
from ash_server.api.http.streaming import (
    EVENT_STREAM,
    SSE_HEADERS,
    SSE_RETRY,
    FindRefusal,
    closed_event,
    mark_as_subscription,
)
from ash_server.api.sessions.events import After
from ash_server.errors import (
    ArchiveDamaged,
    CursorAhead,
    InvalidParameter,
    OriginNotAllowed,
    ServerStopped,
    SessionCold,
    SessionNotFound,
)
from ash_server.store import Store
from ash_server.store.conversation.redacted_rows import hide_event_chunks
from ash_server.store.log.events import StoredEvent, parse_cursor
from ash_server.store.log.subscriptions import IDLE
from ash_shared.model.message import LAST_SEQUENCE

_CHUNK_BYTES = 64 * 1024
_RESERVED_NAMES = frozenset({"caught_up", "closed"})
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
_CURSOR = re.compile(r"[0-9]{1,16}")


class EventStreamController(Controller):
    path = "/api/sessions/{session_id:uuid}/events/stream"
    tags = ("events",)

    @get(
        media_type=EVENT_STREAM,
        guards=[check_origin],
        opt=documents(answer={EVENT_STREAM: text("Events, each followed by a blank line.")}),
        operation_id="followEvents",
        response_description="An endless stream.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS, CursorAhead, OriginNotAllowed),
    )
    async def stream(
        self,
        request: Request[Any, Any, Any],
        store: InjectedStore,
        session_id: FromPath[UUID],
        *,
        after: After = "0",
        collapse: Annotated[
            bool,
            QueryParameter(description="Omit stream chunks if their complete content is already stored."),
        ] = False,
        last_event_id: Annotated[
            str | None,
            HeaderParameter(
                name="Last-Event-ID",
                pattern="^[0-9]{0,16}$",
                description="Start after this sequence; takes precedence over `after`.",
            ),
        ] = None,
    ) -> Stream:
        # `last_event_id` only documents the header: of a repeated header, it contains only one value.
        """Subscribe to a session (server-sent events).

        Sends every event after the cursor once, in order, then each new event as soon as it is stored. The
        `id` of a server-sent event is the sequence. Browsers that reconnect send the last `id` in
        `Last-Event-ID`, which takes precedence over `after`.

        `caught_up` is sent once, after all stored events. `closed` is sent before the stream ends. Both have
        the data `{sequence}` and no `id`. `closed` also has the `{code, detail}` of the reason:
        `server_stopped`, `session_not_found`, `archive_damaged`, `key_invalid`, or `key_required` after the
        first key is created. A comment is sent after 15 seconds without events. On `reset`, discard all events
        received earlier.

        Clients that do not read for about 10 seconds are disconnected.
        """
        cursor = _parse_last_event_id(get_header(request.headers, "last-event-id"))
        sequence = await store.events.check_cursor(
            session_id, parse_cursor(compared(request.scope, after)) if cursor is None else cursor
        )
        mark_as_subscription(request.scope)
        refusal = partial(find_refusal, request)
        render = _to_redacted_chunks if is_redacted(request.scope) else _to_chunks
        events = _server_sent_events(store, session_id, sequence, refusal, collapse=collapse, render=render)
        return Stream(events, headers=SSE_HEADERS)


def _parse_last_event_id(last_event_id: str | None) -> int | None:
    if not last_event_id:
        return None
    if not _CURSOR.fullmatch(last_event_id) or int(last_event_id) > LAST_SEQUENCE:
        raise InvalidParameter(
            "Last-Event-ID must be the id of an event of this stream.",
            errors=[{"path": "Last-Event-ID", "message": "It must be a whole number in decimal digits."}],
        )
    return int(last_event_id)


async def _server_sent_events(
    store: Store,
    session_id: UUID,
    after: int,
    find_refusal: FindRefusal,
    *,
    collapse: bool,
    render: Callable[[Sequence[StoredEvent]], list[bytes]],
) -> AsyncGenerator[bytes, None]:
    yield SSE_RETRY
    has_caught_up = False
    try:
        async with aclosing(store.events.subscribe_stored(session_id, after, collapse=collapse)) as batches:
            async for batch in batches:
                if reason := await find_refusal():
                    yield closed_event(reason, sequence=after)
                    return
                for chunk in batch.render(render):
                    yield chunk
                after = batch.events[-1].sequence if batch.events else after
                if batch.caught_up and not has_caught_up:
                    yield b'event: caught_up\ndata: {"sequence":%d}\n\n' % after
                    has_caught_up = True
                elif not batch.events and batch is not IDLE:
                    yield b":\n\n"
    except (ArchiveDamaged, SessionCold) as error:  # archived meanwhile
        yield closed_event(error, sequence=after)
        return
    yield closed_event(ServerStopped() if store.hub.is_stopped() else SessionNotFound(), sequence=after)


def _to_chunks(events: Sequence[StoredEvent]) -> list[bytes]:
    """Render events in small chunks, so little is buffered for each client. All subscribers share the chunks."""
    rendered = "".join(map(_format_event, events)).encode()
    return [rendered[start : start + _CHUNK_BYTES] for start in range(0, len(rendered), _CHUNK_BYTES)]


def _to_redacted_chunks(events: Sequence[StoredEvent]) -> list[bytes]:
    return _to_chunks(hide_event_chunks(events))


def _format_event(event: StoredEvent) -> str:
    """Format the stored JSON without decoding it. An event gets no name if its type is a control event's name."""
    name = _CONTROL_CHARACTERS.sub(" ", event.type)
    name_line = "" if name in _RESERVED_NAMES else f"event: {name}\n"
    return f"id: {event.sequence}\n{name_line}data: {event.wire()}\n\n"
