"""Subscription to a session's events with server-sent events.

Sends the events after a cursor, `caught_up` once, then new events. Holds one page at a time, and no database connection
while the client reads. The stream ends when the server stops; clients reconnect with their cursor. There is no timeout:
heartbeats detect disconnected clients.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.response import Stream

from ash_server.api.events import After
from ash_server.api.http.access import is_still_valid
from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.headers import get_header
from ash_server.api.http.openapi_operations import operation, text
from ash_server.api.http.origin_guard import check_origin
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.api.http.streaming import EVENT_STREAM, SSE_HEADERS, SSE_RETRY, mark_as_subscription
from ash_server.db.events import StoredEvent, parse_cursor
from ash_server.errors import CursorAhead, InvalidParameter, OriginNotAllowed, SessionNotFound
from ash_server.queries.redacted_rows import hide_event_chunks
from ash_server.repositories.events import EventStore
from ash_shared.model.message import LAST_SEQUENCE

_CHUNK_BYTES = 64 * 1024
_RESERVED_NAMES = frozenset({"caught_up", "closed"})
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
_CURSOR = re.compile(r"[0-9]{1,16}")

_EVENT = '{"sequence":8,"id":"e8","timestamp":1793611915002,"sessionId":"0199…","type":"assistant_chunk","payload":{…}}'
_EXAMPLE = (
    f'id: 8\nevent: assistant_chunk\ndata: {_EVENT}\n\nevent: caught_up\ndata: {{"sequence":8}}\n\n:\n\n'
)


class EventStreamController(Controller):
    path = "/api/sessions/{session_id:uuid}/events/stream"
    tags = ("events",)

    @get(
        media_type=EVENT_STREAM,
        guards=[check_origin],
        operation_id="followEvents",
        summary="Subscribe to a session (server-sent events)",
        description="Every event after the cursor, once and in order, then each new event as it is stored. `id` is the "
        "sequence: reconnecting browsers send the last one in `Last-Event-ID`, which takes precedence over `after`."
        "\n\n`caught_up` is sent once, after all stored events; `closed` before the stream ends because the server "
        "stops, the session was deleted or the key is no longer valid. Both contain `{sequence}` and have no `id`. A "
        "comment is sent after 15 seconds without events. On `reset`, discard the events received before.\n\n"
        "Clients that do not read for about 10 s are disconnected.",
        response_description="An endless stream.",
        responses=error_responses(*READ_ERRORS, SessionNotFound, CursorAhead, OriginNotAllowed),
        operation_class=operation(
            responses={200: {EVENT_STREAM: text("Events, each followed by a blank line.", example=_EXAMPLE)}}
        ),
    )
    async def stream(  # one argument per parameter
        self,
        request: Request[Any, Any, Any],
        store: InjectedStore,
        session_id: FromPath[UUID],
        *,
        after: After = "0",
        collapse: Annotated[
            bool,
            QueryParameter(description="Omit stream chunks whose complete content is already stored."),
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
        cursor = _parse_last_event_id(get_header(request.headers, "last-event-id"))
        sequence = await store.events.check_cursor(
            session_id, parse_cursor(after) if cursor is None else cursor
        )
        mark_as_subscription(request.scope)
        is_valid = partial(is_still_valid, request)
        render = _to_redacted_chunks if is_redacted(request.scope) else _to_chunks
        events = _server_sent_events(
            store.events, session_id, sequence, is_valid, collapse=collapse, render=render
        )
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
    log: EventStore,
    session_id: UUID,
    after: int,
    is_valid: Callable[[], Awaitable[bool]],
    *,
    collapse: bool,
    render: Callable[[Sequence[StoredEvent]], list[bytes]],
) -> AsyncGenerator[bytes, None]:
    yield SSE_RETRY
    has_caught_up = False
    async with aclosing(log.subscribe_stored(session_id, after, collapse=collapse)) as batches:
        async for batch in batches:
            if not await is_valid():
                break
            for chunk in batch.render(render):
                yield chunk
            after = batch.events[-1].sequence if batch.events else after
            if batch.caught_up and not has_caught_up:
                yield _control_event("caught_up", after)
                has_caught_up = True
            elif not batch.events:
                yield b":\n\n"
    yield _control_event("closed", after)


def _control_event(name: str, sequence: int) -> bytes:
    return f'event: {name}\ndata: {{"sequence":{sequence}}}\n\n'.encode()


def _to_chunks(events: Sequence[StoredEvent]) -> list[bytes]:
    """Return the rendered events, split so that little is buffered per client; all subscribers share the chunks."""
    rendered = "".join(map(_format_event, events)).encode()
    return [rendered[start : start + _CHUNK_BYTES] for start in range(0, len(rendered), _CHUNK_BYTES)]


def _to_redacted_chunks(events: Sequence[StoredEvent]) -> list[bytes]:
    return _to_chunks(hide_event_chunks(events))


def _format_event(event: StoredEvent) -> str:
    """Format the stored JSON without decoding it. An event whose type is the name of a control event gets no name."""
    name = _CONTROL_CHARACTERS.sub(" ", event.type)
    name_line = "" if name in _RESERVED_NAMES else f"event: {name}\n"
    return f"id: {event.sequence}\n{name_line}data: {event.wire()}\n\n"
