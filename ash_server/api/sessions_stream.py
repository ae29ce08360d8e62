"""Following the list of sessions."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from litestar import Controller, Request, get
from litestar.datastructures import State
from litestar.response import Stream

from ash_server.api.event_stream import EVENT_STREAM
from ash_server.api.http.operations import operation, text
from ash_server.api.http.origin_guard import admit_own_origin
from ash_server.api.http.problems import READS, refusals
from ash_server.errors import OriginNotAllowed
from ash_server.live.hub import FOLLOWS
from ash_server.live.session_feed import Board

_RETRY = 1000
"""Milliseconds after which a browser comes back."""

_EXAMPLE = (
    "event: caught_up\ndata: {}\n\n"
    'event: session\ndata: {"id":"0199…","source":"claude","messageCount":43,…}\n\n'
    'event: deleted\ndata: {"id":"0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60"}\n\n:\n\n'
)


class WatchController(Controller):
    path = "/api/sessions/stream"
    tags = ("sessions",)

    @get(
        media_type=EVENT_STREAM,
        guards=[admit_own_origin],
        operation_id="followSessions",
        summary="Follow the list of sessions (server-sent events)",
        description="`session` comes whenever a session was made, has grown or was changed, and holds it as it is now, "
        "as the list has it; of one session at most once in a second. `deleted` holds the `{id}` of one that is gone. "
        "`caught_up` says that from then on all is told: whoever shows a list reads it then. It comes first, and again "
        "whenever something may have been missed, since the database was away.\n\n"
        "There is no cursor: who comes back reads the list again. `closed` comes ahead of the end, when the server "
        "stops. A comment comes where nothing else does for 15 seconds.",
        response_description="A stream without an end.",
        responses=refusals(*READS, OriginNotAllowed),
        operation_class=operation(
            answers={200: {EVENT_STREAM: text("Events, each ended by a blank line.", example=_EXAMPLE)}}
        ),
    )
    async def stream(self, request: Request[Any, Any, Any], state: State) -> Stream:
        request.scope[FOLLOWS] = True  # type: ignore[literal-required]
        return Stream(_written(state.board), headers={"X-Accel-Buffering": "no"})


async def _written(board: Board) -> AsyncGenerator[bytes, None]:
    yield f"retry: {_RETRY}\n\n".encode()
    async with aclosing(board.watch()) as watching:
        async for told in watching:
            yield told
    yield b"event: closed\ndata: {}\n\n"
