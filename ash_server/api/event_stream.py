"""The log of a session as it grows: server-sent events, and the same over a WebSocket.

Both tell what lies behind a cursor, say that they have caught up, once, and go on with whatever comes. They hold a page
at a time, and no connection to the database while a client takes it. They end when the server does, and clients come
back to the next one with their cursor. They do not end by the clock: the heartbeat finds out who is gone.
"""

import asyncio
import re
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from litestar import Controller, Request, Response, WebSocket, get, websocket
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.exceptions import WebSocketDisconnect
from litestar.middleware import ASGIMiddleware
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.response import Stream
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from pydantic import BaseModel, ConfigDict, Field, RootModel

from ash_server.api.http.bodies import JSON
from ash_server.api.http.connections import Pool
from ash_server.api.http.headers import add_headers, header
from ash_server.api.http.operations import json_of, operation, text
from ash_server.api.http.origin_guard import admit_own_origin
from ash_server.api.http.problems import HANDLERS, READS, refusals
from ash_server.db.event_ranges import Place, Span, get_span, get_turn, place_of
from ash_server.db.events import StoredEvent, check_cursor
from ash_server.errors import (
    CursorAhead,
    InvalidParameter,
    OriginNotAllowed,
    SessionNotFound,
    UpgradeRequired,
)
from ash_server.live.hub import FOLLOWS, LARGEST_FRAME, Hub, News
from ash_server.live.tasks import end
from ash_server.live.websocket_topics import NOTHING, TopicMessages, to_topic
from ash_shared.model.events import CHUNKS, ChatEvent
from ash_shared.model.message import LAST_SEQUENCE

EVENT_STREAM = "text/event-stream"

_RETRY = 1000
"""Milliseconds after which a browser comes back."""
_PIECE = 64 * 1024
_FRAMES, _SECONDS = 20, 1.0
"""So many frames a client may send in so many seconds."""
_TOO_MANY, _TOO_LARGE, _BINARY, _RESTARTS, _DELETED = 1008, 1009, 1003, 1012, 4404

_CAUGHT_UP = '{"type":"caught_up","data":{"sequence":%d}}'
_OWN_NAMES = frozenset({"caught_up", "closed"})
_NOT_IN_A_LINE = re.compile(r"[\x00-\x1f\x7f]")
_CURSOR = re.compile(r"[0-9]{1,16}")

T = TypeVar("T")

After = Annotated[
    int,
    QueryParameter(ge=0, le=LAST_SEQUENCE, description="Begin after this sequence."),
]


class EventFrame(BaseModel):
    """An event of the log: each one once and in order."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    type: Literal["event"]
    data: ChatEvent


class Cursor(BaseModel):
    """A place in the log."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    sequence: int
    """Of the last event that was sent, or the one that the reader named."""


class CaughtUpFrame(BaseModel):
    """All that was stored has been sent; what follows is new. Comes once."""

    type: Literal["caught_up"]
    data: Cursor


class StreamOutputFrame(BaseModel):
    """The standard messages of what is new. A message that grows comes again under its id, with what was added."""

    type: str = Field(pattern=r"^session\.[0-9a-f-]{36}\.stream_output$")
    data: TopicMessages


class MessageCompleteFrame(BaseModel):
    """The standard messages of the turn that ended with the event ahead of this frame."""

    type: str = Field(pattern=r"^session\.[0-9a-f-]{36}\.message_complete$")
    data: TopicMessages


class Frame(RootModel[EventFrame | CaughtUpFrame | StreamOutputFrame | MessageCompleteFrame]):
    """What the server sends over a WebSocket: one JSON text each."""


_EVENT = '{"sequence":8,"id":"e8","timestamp":1793611915002,"sessionId":"0199…","type":"assistant_chunk","payload":{…}}'
_EXAMPLE = (
    f'id: 8\nevent: assistant_chunk\ndata: {_EVENT}\n\nevent: caught_up\ndata: {{"sequence":8}}\n\n:\n\n'
)
_FRAME = {"type": "caught_up", "data": {"sequence": 8}}


class Refusals(ASGIMiddleware):
    """Answers a WebSocket that is refused before it begins as any request: by itself the framework closes it, which is
    403 whatever was wrong. Lies around the whole application, since an address that there is not is refused as well."""

    scopes = (ScopeType.WEBSOCKET,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        begun = False

        async def answer(message: Message) -> None:
            nonlocal begun
            error = sys.exc_info()[1]  # the framework closes while it handles what was raised
            can_answer = not begun and "websocket.http.response" in (scope.get("extensions") or {})
            if message["type"] == "websocket.close" and can_answer and isinstance(error, Exception):
                await _refuse(error, scope, receive, send)
            else:
                begun = begun or message["type"] == "websocket.accept"
                await send(message)

        await next_app(scope, receive, answer)


class StreamController(Controller):
    path = "/api/sessions/{session_id:uuid}/events"
    tags = ("events",)

    @get(
        "/stream",
        media_type=EVENT_STREAM,
        guards=[admit_own_origin],
        operation_id="followEvents",
        summary="Follow a session (server-sent events)",
        description="Every event after the cursor, once and in order, and then each as it is stored. `id` is its "
        "sequence: a browser that comes back names the last one in `Last-Event-ID`, which counts more than `after`.\n\n"
        "`caught_up` comes once, when all that was stored has been sent; `closed` ahead of an end that the server "
        "makes, when it stops or the session was deleted. Both hold `{sequence}` and have no `id`. A comment comes "
        "where nothing else does for 15 seconds. After a `reset` what came before is an older reading.\n\n"
        "Who takes nothing of what is sent for some 10 seconds is hung up on.",
        response_description="A stream without an end.",
        responses=refusals(*READS, SessionNotFound, CursorAhead, OriginNotAllowed),
        operation_class=operation(
            answers={200: {EVENT_STREAM: text("Events, each ended by a blank line.", example=_EXAMPLE)}}
        ),
    )
    async def stream(  # noqa: PLR0913  # one argument per parameter
        self,
        request: Request[Any, Any, Any],
        state: State,
        pool: Pool,
        session_id: FromPath[UUID],
        *,
        after: After = 0,
        collapse: Annotated[
            bool,
            QueryParameter(description="Whether to leave out the pieces of what is whole when it is read."),
        ] = False,
        last_event_id: Annotated[
            str | None,
            HeaderParameter(
                name="Last-Event-ID",
                pattern="^[0-9]{0,16}$",
                description="Begin after this sequence, whatever `after` says.",
            ),
        ] = None,
    ) -> Stream:
        # `last_event_id` is there for the document: of a header that comes twice it would hold one of them.
        after = _cursor(header(request.headers, "last-event-id"), after)
        async with pool.connection() as conn:
            await check_cursor(conn, session_id, after)
        request.scope[FOLLOWS] = True  # type: ignore[literal-required]
        written = _written(state.hub, session_id, after, collapse=collapse)
        return Stream(written, headers={"X-Accel-Buffering": "no"})

    @get(
        "/ws",
        operation_id="followEventsOverWebSocket",
        summary="Follow a session (WebSocket)",
        description="The same over a WebSocket: ask with `Upgrade: websocket`. Every message of the server is one "
        "JSON text, a `Frame`: the events after the cursor and each that comes, `caught_up` once, and the two topics "
        "of the session: `session.<id>.stream_output` with the standard messages of what is new, from then on, and "
        "`session.<id>.message_complete` with those of a turn, behind the event that ends it.\n\n"
        "The client has nothing to say but pings. Closes with 1012 when the server stops (come back with the last "
        "sequence), 4404 when the session was deleted, 1003 for binary, 1009 for large and 1008 for too many frames. "
        "A refusal is answered ahead of the upgrade.",
        status_code=101,
        responses={
            101: ResponseSpec(None, description="What then comes: `Frame` after `Frame`."),
            **refusals(*READS, SessionNotFound, CursorAhead, OriginNotAllowed, UpgradeRequired),
        },
        operation_class=operation(answers={101: {JSON: json_of(Frame, caught_up=_FRAME)}}),
    )
    async def without_upgrade(self, session_id: FromPath[UUID], *, after: After = 0) -> None:
        raise UpgradeRequired

    @websocket("/ws")
    async def converse(
        self,
        socket: WebSocket[Any, Any, Any],
        state: State,
        pool: Pool,
        session_id: FromPath[UUID],
        *,
        after: After = 0,
    ) -> None:
        async with pool.connection() as conn:
            await check_cursor(conn, session_id, after)
        socket.scope[FOLLOWS] = True  # type: ignore[literal-required]
        await socket.accept()
        with suppress(WebSocketDisconnect, OSError):  # who is gone is told nothing more
            code = await _first(_hear(socket), _Telling(socket, state.hub, session_id, after).run())
            if code is not None:
                await socket.close(code)


def _cursor(last_event_id: str | None, after: int) -> int:
    if not last_event_id:
        return after
    if not _CURSOR.fullmatch(last_event_id) or int(last_event_id) > LAST_SEQUENCE:
        raise InvalidParameter(
            "Last-Event-ID is the id of an event of this stream.",
            errors=[
                {"path": "Last-Event-ID", "message": "It must be a whole number, written in digits alone."}
            ],
        )
    return int(last_event_id)


async def _written(hub: Hub, session_id: UUID, after: int, *, collapse: bool) -> AsyncGenerator[bytes, None]:
    yield f"retry: {_RETRY}\n\n".encode()
    has_caught_up = False
    async with aclosing(hub.follow(session_id, after, collapse=collapse)) as following:
        async for news in following:
            for piece in news.form(_pieces):
                yield piece
            after = news.events[-1].sequence if news.events else after
            if news.caught_up and not has_caught_up:
                yield _own_event("caught_up", after)
                has_caught_up = True
            elif not news.events:
                yield b":\n\n"
    yield _own_event("closed", after)


def _own_event(name: str, sequence: int) -> bytes:
    return f'event: {name}\ndata: {{"sequence":{sequence}}}\n\n'.encode()


def _pieces(events: Sequence[StoredEvent]) -> list[bytes]:
    """Of a size that fits into what is buffered on the way to a client: the rest waits here, where all share it."""
    whole = "".join(map(_event, events)).encode()
    return [whole[start : start + _PIECE] for start in range(0, len(whole), _PIECE)]


def _event(event: StoredEvent) -> str:
    """Without a name where that would be one of ours: a type is any text, and what it is called stands in the data."""
    name = _NOT_IN_A_LINE.sub(" ", event.type)
    named = "" if name in _OWN_NAMES else f"event: {name}\n"
    return f"id: {event.sequence}\n{named}data: {event.wire()}\n\n"


def _frames(events: Sequence[StoredEvent]) -> list[str]:
    return [f'{{"type":"event","data":{event.wire()}}}' for event in events]


class _Telling:
    """One way along a log, over one socket."""

    def __init__(self, socket: WebSocket[Any, Any, Any], hub: Hub, session_id: UUID, after: int) -> None:
        self._socket = socket
        self._hub = hub
        self._session_id = session_id
        self._after = after
        self._told: Place | None = None
        """Up to where `stream_output` has told; None until all that was stored has been sent."""

    async def run(self) -> int:
        """The code to close with, since the log is over or the server ends."""
        async with aclosing(self._hub.follow(self._session_id, self._after)) as following:
            async for news in following:
                await self._tell_events(news)
                if self._told is not None and any(event.type not in CHUNKS for event in news.events):
                    await self._tell_new(await self._place())
                elif self._told is None and news.caught_up:
                    self._told = await self._place()
                    await self._send(_CAUGHT_UP % self._after)
        return _RESTARTS if self._hub.is_stopped() else _DELETED

    async def _tell_events(self, news: News) -> None:
        for event, frame in zip(news.events, news.form(_frames), strict=True):
            await self._send(frame)
            self._after = event.sequence
            if event.type == "turn_end":
                end = await self._place()
                await self._tell_new(end)
                await self._tell("message_complete", partial(get_turn, session_id=self._session_id, end=end))

    async def _tell_new(self, end: Place) -> None:
        start, self._told = self._told, end if self._told else None
        if start and start.event < end.event:
            span = partial(get_span, session_id=self._session_id, start=start, end=end)
            await self._tell("stream_output", span)

    async def _tell(self, topic: str, span: partial[Coroutine[Any, Any, Span]]) -> None:
        async def told() -> str | None:
            read = await self._hub.ask(span)
            return None if read is None else await asyncio.to_thread(to_topic, read)

        data = await self._insist(told, topic, *span.keywords.values())
        if data != NOTHING or topic == "message_complete":
            await self._send(f'{{"type":"session.{self._session_id}.{topic}","data":{data}}}')

    async def _place(self) -> Place:
        place = partial(place_of, session_id=self._session_id, sequence=self._after)
        return await self._insist(lambda: self._hub.ask(place), self._session_id, self._after)

    async def _insist(self, do: Callable[[], Coroutine[Any, Any, T | None]], *work: Hashable) -> T:
        while (done := await self._hub.share(work, do)) is None:
            pass  # the database is away, which takes a moment to tell
        return done

    async def _send(self, frame: str) -> None:
        await self._socket.send_text(frame)


async def _hear(socket: WebSocket[Any, Any, Any]) -> int | None:
    """The code to close with, since the client says what it should not. None where it is gone."""
    time = asyncio.get_running_loop().time
    times: deque[float] = deque(maxlen=_FRAMES)
    while (message := await socket.receive())["type"] == "websocket.receive":
        if message.get("bytes") is not None:
            return _BINARY
        if len(message.get("text") or "") > LARGEST_FRAME:
            return _TOO_LARGE
        if len(times) == _FRAMES and time() - times[0] < _SECONDS:
            return _TOO_MANY
        times.append(time())
    return None


async def _first(*works: Any) -> int | None:
    """What the first of them gives; the others end with it."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        code: int | None = next(task for task in tasks if task in done).result()
        return code
    finally:
        await end(*tasks)
        await asyncio.gather(*tasks, return_exceptions=True)


async def _refuse(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    """With the problem that a request would be answered with."""
    asked: Any = {**scope, "type": "http", "method": "GET"}
    request: Request[Any, Any, Any] = Request(asked)
    handler: Any = next(HANDLERS[kind] for kind in type(error).__mro__ if kind in HANDLERS)
    response: Response[Any] = handler(request, error)

    async def as_websocket(message: Message) -> None:
        await add_headers(message, asked)
        await send({**message, "type": f"websocket.{message['type']}"})  # type: ignore[arg-type]

    await response.to_asgi_response(app=None, request=request)(asked, receive, as_websocket)
