"""Subscribe to changes of all sessions."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

from litestar import Controller, Request, get
from litestar.datastructures import State
from litestar.response import Stream

from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import find_refusal
from ash_server.api.http.guards.origin_guard import check_origin
from ash_server.api.http.openapi.operations import documents, text
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.streaming import (
    EVENT_STREAM,
    SSE_HEADERS,
    SSE_RETRY,
    FindRefusal,
    closed_event,
    mark_as_subscription,
)
from ash_server.errors import OriginNotAllowed, ServerStopped
from ash_server.live.session_feed import SessionFeed


class SessionStreamController(Controller):
    path = "/api/sessions/stream"
    tags = ("sessions",)

    @get(
        media_type=EVENT_STREAM,
        guards=[check_origin],
        opt=documents(answer={EVENT_STREAM: text("Events, each followed by a blank line.")}),
        operation_id="followSessions",
        response_description="An endless stream.",
        responses=error_responses(*READ_ERRORS, OriginNotAllowed),
    )
    async def stream(self, request: Request[Any, Any, Any], state: State, store: InjectedStore) -> Stream:
        """Subscribe to all sessions (server-sent events).

        `session` is sent when a session is created, is changed or has new messages, at most once per second
        for each session. It contains the session as in the list with its `activity`, also if it is archived.
        `deleted` contains the `{id}` of a deleted session. `caught_up` means that all later changes will be
        sent: read the list now. It is sent first, and again whenever changes may have been missed because the
        database was unavailable.

        There is no cursor: after reconnecting, read the list again. `closed` is sent before the stream ends,
        with the `{code, detail}` of the reason: `server_stopped`, `key_invalid`, or `key_required` after the
        first key is created. A comment is sent after 15 seconds without events.
        """
        feed = await state.session_feeds.get(store.hub, store.sessions)
        mark_as_subscription(request.scope)
        return Stream(_server_sent_events(feed, partial(find_refusal, request)), headers=SSE_HEADERS)


async def _server_sent_events(feed: SessionFeed, find_refusal: FindRefusal) -> AsyncGenerator[bytes, None]:
    yield SSE_RETRY
    async with aclosing(feed.subscribe()) as changes:
        async for events in changes:
            if reason := await find_refusal():
                yield closed_event(reason)
                return
            if events:
                yield events
    yield closed_event(ServerStopped())
