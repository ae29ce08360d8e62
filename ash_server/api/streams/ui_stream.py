"""The running turn of a session as a resumable stream of Vercel's AI SDK (`useChat({ resume: true })`).

Each client gets the turn from the start, derived from the event log, so the server keeps no state for clients that
reconnect. The stored events are read before the response begins, because later events may retract earlier ones.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from litestar import Controller, Request, Response, get
from litestar.openapi import ResponseSpec
from litestar.params import FromPath
from litestar.response import Stream

from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import find_refusal
from ash_server.api.http.guards.origin_guard import check_origin
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.api.http.streaming import EVENT_STREAM, SSE_HEADERS, FindRefusal, mark_as_subscription
from ash_server.errors import DatabaseUnavailable, OriginNotAllowed, SessionNotFound, SessionTooLarge
from ash_server.store import Store
from ash_server.store.conversation.projection_inputs import MAX_BYTES
from ash_server.store.conversation.redacted_rows import hide_event_chunks
from ash_server.store.log.event_store import EventStore, RunningTurn
from ash_server.store.log.events import StoredEvent
from ash_server.store.log.subscriptions import IDLE, EventBatch
from ash_shared.projections import TurnStream, UiMessageStream
from ash_shared.projections.ui_chunks import UiChunk

_PIECE_BYTES = 64 * 1024
_COMMENT = b":\n\n"


class UiStreamController(Controller):
    path = "/api/sessions/{session_id:uuid}/ui-stream"
    tags = ("events",)

    @get(
        media_type=EVENT_STREAM,
        guards=[check_origin],
        opt=documents(answer={EVENT_STREAM: text("Chunks, each followed by a blank line.")}),
        operation_id="followUiMessage",
        response_description="The chunks of the turn.",
        responses={
            204: ResponseSpec(None, description="No turn is running."),
            **error_responses(*READ_ERRORS, *TEXT_ERRORS, SessionTooLarge, OriginNotAllowed),
        },
    )
    async def follow(
        self, request: Request[Any, Any, Any], store: InjectedStore, session_id: FromPath[UUID]
    ) -> Response[Any]:
        """Follow the running turn (AI SDK).

        A resumable stream for `useChat({ resume: true })` of Vercel's AI SDK. Sends the chunks of the running
        turn from the start, then new chunks as events are stored, until the turn ends (`[DONE]`). The client
        builds the same message as the projection `ui-messages`. If no turn is running, the response is 204.

        Prompts and other events outside the answer are transient data: `data-message` contains the
        `UIMessage` of a prompt. `error` is sent with instructions if content that was already sent has
        changed, the server stops, the session is deleted, or the key is no longer valid. A comment is sent
        after 15 seconds without chunks.

        Clients that do not read for about 10 seconds are disconnected.
        """
        return await follow_turn(request, store, session_id, _AI_SDK)


class TurnFormat(NamedTuple):
    """A protocol for the running turn."""

    new_stream: Callable[[], TurnStream]
    failure: Callable[[str], UiChunk]
    """Return the chunk that reports why the stream ends before the turn."""
    headers: Mapping[str, str] = SSE_HEADERS
    end: bytes = b""
    """Follows the last chunk."""


_AI_SDK = TurnFormat(
    UiMessageStream,
    lambda reason: {"type": "error", "errorText": reason},
    {**SSE_HEADERS, "x-vercel-ai-ui-message-stream": "v1"},
    b"data: [DONE]\n\n",
)


async def follow_turn(
    request: Request[Any, Any, Any], store: Store, session_id: UUID, form: TurnFormat
) -> Response[Any]:
    """Return the running turn as a stream; without one, a 204. Raises SessionNotFound and SessionTooLarge."""
    turn = await store.events.get_running_turn(session_id)
    decode = _decode_redacted if is_redacted(request.scope) else _decode
    stream = form.new_stream()
    followed = None if turn is None else await _follow(store.events, session_id, turn, stream, decode)
    if followed is None:
        return Response(None, status_code=204)
    mark_as_subscription(request.scope)
    return Stream(_render(followed, form, partial(find_refusal, request)), headers=form.headers)


class _Followed(NamedTuple):
    """A turn with its first chunks, and the batches of later events."""

    stream: TurnStream
    chunks: list[UiChunk]
    batches: AsyncGenerator[EventBatch, None]
    is_running: Callable[[], Awaitable[bool]]
    decode: Callable[[Sequence[StoredEvent]], list[Any]]


async def _follow(
    log: EventStore,
    session_id: UUID,
    turn: RunningTurn,
    stream: TurnStream,
    decode: Callable[[Sequence[StoredEvent]], list[Any]],
) -> _Followed | None:
    """Read the stored events of the turn. Return None if the turn has ended. Raises SessionTooLarge."""

    async def is_running() -> bool:
        try:
            last = await log.get_open_turn(session_id)
        except (DatabaseUnavailable, SessionNotFound):
            return True  # the batches end if the session was deleted
        return last is not None and not last.is_over

    batches = log.subscribe_stored(session_id, turn.after, collapse=True)
    try:
        events = await _read_so_far(batches)
        chunks = await asyncio.to_thread(lambda: stream.begin(decode(events), turn.id))
    except BaseException:
        await batches.aclose()
        raise
    if stream.is_over or stream.is_interrupted:
        await batches.aclose()
        return None
    return _Followed(stream, chunks, batches, is_running, decode)


async def _read_so_far(batches: AsyncGenerator[EventBatch, None]) -> list[StoredEvent]:
    events, size = list[StoredEvent](), 0
    async for batch in batches:
        events += batch.events
        size += sum(len(event.content) for event in batch.events)
        if size > MAX_BYTES:
            raise SessionTooLarge
        if batch.caught_up:
            break
    return events


async def _render(
    followed: _Followed, form: TurnFormat, find_refusal: FindRefusal
) -> AsyncGenerator[bytes, None]:
    stream, chunks = followed.stream, followed.chunks
    remedy = "Load the messages again and resume."
    async with aclosing(followed.batches) as batches:
        for piece in _pieces(chunks):
            yield piece
        chunks.clear()  # not needed while the client follows
        async for batch in batches:
            if refusal := await find_refusal():
                remedy = refusal.detail
                break
            if batch is IDLE:
                continue
            chunks = [chunk for event in followed.decode(batch.events) for chunk in stream.add(event)]
            if batch.caught_up and not stream.is_over and await _has_ended(followed):
                chunks += stream.end()
            for piece in _pieces(chunks):
                yield piece
            if stream.is_over:
                yield form.end
                return
    yield _format([form.failure(f"The stream was cut off. {remedy}")]) + form.end


async def _has_ended(followed: _Followed) -> bool:
    """True if the turn was interrupted, or if the answer is complete and at most usage follows."""
    stream = followed.stream
    return stream.is_interrupted or not (stream.has_open_items() or await followed.is_running())


def _decode(events: Sequence[StoredEvent]) -> list[Any]:
    return [msgspec.json.decode(event.wire_bytes()) for event in events]


def _decode_redacted(events: Sequence[StoredEvent]) -> list[Any]:
    return _decode(hide_event_chunks(events))


def _pieces(chunks: Iterable[UiChunk]) -> list[bytes]:
    """Render chunks in small pieces, so little is buffered for each client; without chunks, a comment."""
    rendered = _format(chunks) or _COMMENT
    return [rendered[start : start + _PIECE_BYTES] for start in range(0, len(rendered), _PIECE_BYTES)]


def _format(chunks: Iterable[UiChunk]) -> bytes:
    """Format chunks as JSON in ASCII, which also represents lone surrogates."""
    return "".join(f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n" for chunk in chunks).encode()
