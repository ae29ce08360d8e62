"""Subscribe to a session's events and standard messages over a WebSocket.

Like the stream of server-sent events: sends the events after a cursor, `caught_up` once, then new events, and
additionally the two topics with standard messages.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar
from uuid import UUID

from litestar import Controller, WebSocket, get, websocket
from litestar.exceptions import WebSocketDisconnect
from litestar.params import FromPath
from pydantic import BaseModel, ConfigDict, Field, RootModel

from ash_server.api.http.bodies import JSON
from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import find_refusal
from ash_server.api.http.openapi.operations import documents
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.redaction import compared, is_redacted
from ash_server.api.http.streaming import MAX_CLIENT_FRAME_BYTES, mark_as_subscription
from ash_server.api.sessions.events import After
from ash_server.errors import (
    ArchiveDamaged,
    CursorAhead,
    DatabaseUnavailable,
    OriginNotAllowed,
    ServerStopped,
    SessionCold,
    SessionNotFound,
    UpgradeRequired,
)
from ash_server.live.stream_output import StreamOutput
from ash_server.live.websocket_topics import TopicMessages, to_topic
from ash_server.store import Store
from ash_server.store.conversation.redacted_rows import hide_event_chunks
from ash_server.store.log.events import StoredEvent, parse_cursor
from ash_server.store.log.ranges import LogPosition
from ash_server.store.log.subscriptions import RETRY_SECONDS, EventBatch
from ash_server.tasks import cancel_tasks
from ash_shared.model.base import AshModel
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.events import ChatEvent

_MAX_CLIENT_FRAMES = 20
_CLIENT_FRAMES_SECONDS = 1.0
"""Clients may send `_MAX_CLIENT_FRAMES` in this time."""
_FAILED = 1011
_UNAUTHORIZED = 4401

_CAUGHT_UP = '{"type":"caught_up","data":{"sequence":%d}}'

T = TypeVar("T")


class _Close(NamedTuple):
    """The close code of a WebSocket, and the problem code that is its reason, if any."""

    code: int
    reason: str


_CLOSE_BINARY = _Close(1003, "binary frame")
_CLOSE_TOO_MANY = _Close(1008, "too many frames")
_CLOSE_TOO_LARGE = _Close(1009, "frame too large")
_CLOSE_RESTART = _Close(1012, ServerStopped.code)
_CLOSE_DELETED = _Close(4404, SessionNotFound.code)


class EventFrame(BaseModel):
    """An event of the log; each is sent once, in order."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    type: Literal["event"]
    data: ChatEvent


class Cursor(AshModel):
    """A position in the event log."""

    sequence: int
    """Sequence of the last event sent, or the requested cursor."""


class CaughtUpFrame(BaseModel):
    """All stored events have been sent; new events follow. Sent once."""

    type: Literal["caught_up"]
    data: Cursor


class StreamOutputFrame(BaseModel):
    """Additions of new events to the standard messages. A message that grows is sent again under its id, with the new
    blocks only; its usage is sent once, when the message is complete. So the frames add up to the standard messages."""

    type: str = Field(pattern=r"^session\.[0-9a-f-]{36}\.stream_output$")
    data: TopicMessages


class MessageCompleteFrame(BaseModel):
    """All standard messages of the turn that ended with the previous event frame, without copies (`shadowOf`)."""

    type: str = Field(pattern=r"^session\.[0-9a-f-]{36}\.message_complete$")
    data: TopicMessages


class Frame(RootModel[EventFrame | CaughtUpFrame | StreamOutputFrame | MessageCompleteFrame]):
    """A WebSocket message of the server, as JSON text."""


class EventWebSocketController(Controller):
    path = "/api/sessions/{session_id:uuid}/events/ws"
    tags = ("events",)

    @get(
        opt=documents(answer={JSON: Frame}),
        operation_id="followEventsOverWebSocket",
        status_code=101,
        response_description="A stream of `Frame` messages.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS, CursorAhead, OriginNotAllowed, UpgradeRequired),
    )
    async def reject_without_upgrade(self, session_id: FromPath[UUID], *, after: After = "0") -> None:
        """Subscribe to a session (WebSocket).

        The same events over a WebSocket (`Upgrade: websocket`). Each message from the server is a `Frame` as
        JSON text: the events after the cursor, `caught_up` once, and then new events and two topics.
        `session.<id>.stream_output` contains the additions of new events to the standard messages.
        `session.<id>.message_complete` contains the standard messages of a turn, after its last event.

        Clients send nothing but pings. The server closes the connection with 1012 when it stops (reconnect
        with the last sequence), 4401 when the key is no longer valid (reason `key_invalid`) or the first key
        is created (`key_required`), 4404 when the session is deleted, 1011 when its archive is damaged, 1003
        for binary frames, 1009 for large frames and 1008 for too many frames. Errors are returned before the
        upgrade.
        """
        raise UpgradeRequired

    @websocket()
    async def serve(
        self,
        socket: WebSocket[Any, Any, Any],
        store: InjectedStore,
        session_id: FromPath[UUID],
        *,
        after: After = "0",
    ) -> None:
        sequence = await store.events.check_cursor(session_id, parse_cursor(compared(socket.scope, after)))
        mark_as_subscription(socket.scope)
        await socket.accept()
        sender = _FrameSender(socket, store, session_id, sequence)
        with suppress(WebSocketDisconnect, OSError):
            try:
                close = await _first_result(_receive(socket), sender.run())
            except (ArchiveDamaged, SessionCold) as error:  # archived meanwhile
                close = _Close(_FAILED, error.code)
            if close is not None:
                await socket.close(*close)


def _to_frames(events: Sequence[StoredEvent]) -> list[str]:
    return [f'{{"type":"event","data":{event.wire()}}}' for event in events]


def _to_redacted_frames(events: Sequence[StoredEvent]) -> list[str]:
    return _to_frames(hide_event_chunks(events))


class _FrameSender:
    """Sends the frames for one subscription."""

    def __init__(self, socket: WebSocket[Any, Any, Any], store: Store, session_id: UUID, after: int) -> None:
        self._socket = socket
        self._events = store.events
        self._hub = store.hub
        self._session_id = session_id
        self._after = after
        self._to_frames = _to_redacted_frames if is_redacted(socket.scope) else _to_frames
        self._output: StreamOutput | None = None
        """Shared with other subscribers; None until caught up."""
        self._output_after = 0
        """Sequence of the last event in `stream_output`."""

    async def run(self) -> _Close:
        """Send frames until the session is deleted or the server stops."""
        async with aclosing(self._events.subscribe_stored(self._session_id, self._after)) as batches:
            async for batch in batches:
                if refusal := await find_refusal(self._socket):
                    return _Close(_UNAUTHORIZED, refusal.code)
                await self._send_events(batch)
                if self._output is not None:
                    if any(event.type not in CHUNKS for event in batch.events):
                        await self._send_output(await self._current_place())
                elif batch.caught_up:
                    await self._start_output()
                    await self._send(_CAUGHT_UP % self._after)
        return _CLOSE_RESTART if self._hub.is_stopped() else _CLOSE_DELETED

    async def _send_events(self, batch: EventBatch) -> None:
        for event, frame in zip(batch.events, batch.render(self._to_frames), strict=True):
            await self._send(frame)
            self._after = event.sequence
            if event.type == "turn_end":
                end = await self._current_place()
                await self._send_output(end, is_turn_over=True)
                await self._send_turn(end)

    async def _start_output(self) -> None:
        place = await self._current_place()
        own = StreamOutput(self._events, self._session_id, place)
        self._output = self._hub.share_output(
            self._session_id, own, lambda output: output.can_continue_after(place.event)
        )
        self._output_after = place.event

    async def _send_output(self, end: LogPosition, *, is_turn_over: bool = False) -> None:
        if self._output is None or end.event <= self._output_after:
            return
        if not self._output.can_continue_after(self._output_after):
            start = await self._place_of(self._output_after)
            self._output = StreamOutput(self._events, self._session_id, start)
        output, after = self._output, self._output_after
        read = partial(output.read, after, end, is_turn_over=is_turn_over)
        frames, self._output_after = await self._share_with_retry(read, output, after, end)
        for data in frames:
            await self._send_topic("stream_output", data)

    async def _send_turn(self, end: LogPosition) -> None:
        async def render() -> str:
            return await asyncio.to_thread(to_topic, await self._events.get_turn(self._session_id, end))

        data = await self._share_with_retry(render, self._session_id, "message_complete", end)
        await self._send_topic("message_complete", data)

    async def _send_topic(self, topic: str, data: str) -> None:
        await self._send(f'{{"type":"session.{self._session_id}.{topic}","data":{data}}}')

    async def _current_place(self) -> LogPosition:
        return await self._place_of(self._after)

    async def _place_of(self, sequence: int) -> LogPosition:
        read = partial(self._events.get_place, self._session_id, sequence)
        return await self._share_with_retry(read, self._session_id, sequence)

    async def _share_with_retry(self, run: Callable[[], Coroutine[Any, Any, T]], *key: Hashable) -> T:
        """Run the coroutine once for all subscribers that need its result; retry if the database is unavailable."""
        while True:
            try:
                return await self._hub.share(key, run)
            except DatabaseUnavailable:
                await asyncio.sleep(RETRY_SECONDS)

    async def _send(self, frame: str) -> None:
        await self._socket.send_text(frame)


async def _receive(socket: WebSocket[Any, Any, Any]) -> _Close | None:
    """Read until the client violates a limit, and return how to close; return None if it disconnects."""
    time = asyncio.get_running_loop().time
    times: deque[float] = deque(maxlen=_MAX_CLIENT_FRAMES)
    while (message := await socket.receive())["type"] == "websocket.receive":
        if message.get("bytes") is not None:
            return _CLOSE_BINARY
        if len(message.get("text") or "") > MAX_CLIENT_FRAME_BYTES:
            return _CLOSE_TOO_LARGE
        if len(times) == _MAX_CLIENT_FRAMES and time() - times[0] < _CLIENT_FRAMES_SECONDS:
            return _CLOSE_TOO_MANY
        times.append(time())
    return None


async def _first_result(*works: Any) -> _Close | None:
    """Return the result of the first coroutine that completes; cancel the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        close: _Close | None = next(task for task in tasks if task in done).result()
        return close
    finally:
        await cancel_tasks(*tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
