"""The page of a share link.

The secret is in the fragment of the link, which browsers do not send. A script exchanges it for a cookie that is
limited to the path of the link.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from litestar import Controller, HttpMethod, Response, post, route
from litestar.datastructures import Cookie, State
from litestar.params import FromPath
from litestar.response import Stream

from ash_server.api.http.bodies import JSON, decode_body, read_body
from ash_server.api.http.guards.access import PUBLIC, client_address, is_secure
from ash_server.api.http.guards.query_guard import ANY_QUERY
from ash_server.api.http.guards.rate_limit import RateLimit
from ash_server.api.http.problems import AnyRequest
from ash_server.api.http.redaction import is_redacted, mark_as_redacted
from ash_server.api.http.streaming import buffered, start_stream
from ash_server.api.pages.viewer_pages import HTML, Chunks, render_shell
from ash_server.keys.digests import read_secret
from ash_server.keys.shares import cookie_of, is_cookie_of, is_secret_of, share_path, shared_session
from ash_server.store import Store
from ash_server.store.access.shares import ShareNotFound, StoredShare
from ash_server.store.log.events import StoredEvent
from ash_server.transfer.exporting.html import frame, write_shared_html

SHARE_RATE = 1.0
"""Requests per second to a link, and from an address to all links, after a burst of 10."""

COOKIE, SECURE_COOKIE = "ash_share", "__Secure-ash_share"

_CHECK_SECONDS = 5.0
"""A page that is being sent ends this long after its link was revoked."""
_PIECE_BYTES = 64 * 1024
_MAX_BODY_BYTES = 1024
_READ_METHODS = [HttpMethod.GET, HttpMethod.HEAD]
_HEADERS = {"X-Robots-Tag": "noindex, nofollow", "Referrer-Policy": "no-referrer"}


class _Opening(msgspec.Struct, forbid_unknown_fields=True):
    secret: str


_decoder = msgspec.json.Decoder(_Opening)


class _Event(msgspec.Struct):
    payload: Any = None


_decode_event = msgspec.json.Decoder(_Event).decode


class SharedPageController(Controller):
    path = "/shares/{share_id:uuid}"
    include_in_schema = False
    opt = PUBLIC | ANY_QUERY
    request_max_body_size = _MAX_BODY_BYTES

    @route("/", http_method=_READ_METHODS)
    async def page(
        self, request: AnyRequest, state: State, share_id: FromPath[UUID]
    ) -> Response[bytes] | Stream:
        """Show the session to a browser with the cookie; any other gets a page that does not depend on the link."""
        try:
            share = await _check_cookie(request, state, share_id)
            store = state.store.for_tenant(share.tenant)
            session = await shared_session(store, share)
        except ShareNotFound:
            return await asyncio.to_thread(render_shell, "share", {}, _HEADERS)
        policy = (await asyncio.to_thread(frame)).policy
        headers = {**_HEADERS, "Content-Security-Policy": f"{policy}; frame-ancestors 'none'"}
        if request.method == HttpMethod.HEAD:
            return Response(b"", media_type=HTML, headers=headers)
        await store.shares.record_opening(share)
        redacts = share.redacts or is_redacted(request.scope)
        mark_as_redacted(request.scope)
        select = await _selection(store, share)
        page = write_shared_html(store, session, select, redacts=redacts)
        return await start_stream(
            _while_valid(buffered(page), state.store, share), media_type=HTML, headers=headers
        )

    @post("/", status_code=204)
    async def open(self, request: AnyRequest, state: State, share_id: FromPath[UUID]) -> Response[None]:
        """Exchange the secret for the cookie. Raises ShareNotFound, RateLimited."""
        opening = decode_body((await read_body(request, JSON)).text, _decoder)
        share = await _find(request, state, share_id)
        secret = read_secret(state.settings)
        if not is_secret_of(secret, share, opening.secret):
            raise ShareNotFound
        _count(state, share)
        await shared_session(state.store.for_tenant(share.tenant), share)
        response = Response(None, status_code=204, headers=_HEADERS)
        response.set_cookie(_cookie(request, share, cookie_of(secret, share)))
        return response


async def _check_cookie(request: AnyRequest, state: State, share_id: UUID) -> StoredShare:
    """Return the link that the browser has opened. Raises ShareNotFound, RateLimited."""
    cookie = request.cookies.get(_cookie_name(request))
    if not cookie:
        raise ShareNotFound
    share = await _find(request, state, share_id)
    if not is_cookie_of(read_secret(state.settings), share, cookie):
        raise ShareNotFound
    _count(state, share)
    return share


async def _find(request: AnyRequest, state: State, share_id: UUID) -> StoredShare:
    """Return a valid link, and count the request of the address. Raises ShareNotFound, RateLimited."""
    limit: RateLimit = state.share_limit
    limit.take(client_address(request), time.monotonic())
    share: StoredShare = await state.store.shares.get(share_id)
    return share


def _count(state: State, share: StoredShare) -> None:
    """Count a request with the secret of a link: others must neither use up its limit nor notice it.

    Raises RateLimited.
    """
    limit: RateLimit = state.share_limit
    limit.take(share.id, time.monotonic())


async def _selection(store: Store, share: StoredShare) -> Callable[[StoredEvent], bool]:
    """Return the test of events that the link shows.

    Sequences of events change when a log is rebuilt. Then only the messages of the events tell which came later, and
    posted events, which have none, are left out.
    """
    last = share.last_message
    is_same_log = (await store.sessions.get_end(share.session_id)).dropped_event == share.last_dropped_event

    def is_shown(event: StoredEvent) -> bool:
        if not share.with_subagents and _is_of_subagent(event):
            return False
        if last is None:
            return True
        if is_same_log:
            return event.sequence <= share.last_event
        return event.message_sequence is not None and event.message_sequence <= last

    return is_shown


def _is_of_subagent(event: StoredEvent) -> bool:
    payload = _decode_event(event.content).payload
    return isinstance(payload, dict) and bool(payload.get("sidechain") or payload.get("parentToolCallId"))


async def _while_valid(chunks: Chunks, store: Store, share: StoredShare) -> Chunks:
    """Yield a page in small pieces until its link is no longer valid."""
    checked = time.monotonic()
    async with aclosing(chunks):
        async for chunk in chunks:
            for start in range(0, len(chunk), _PIECE_BYTES):
                if time.monotonic() - checked >= _CHECK_SECONDS:
                    try:
                        await store.shares.get(share.id)
                    except ShareNotFound:
                        return
                    checked = time.monotonic()
                yield chunk[start : start + _PIECE_BYTES]


def _cookie_name(request: AnyRequest) -> str:
    return SECURE_COOKIE if is_secure(request) else COOKIE


def _cookie(request: AnyRequest, share: StoredShare, text: str) -> Cookie:
    return Cookie(
        _cookie_name(request),
        value=text,
        path=share_path(share.id),
        max_age=max(1, int((share.expires_at - datetime.now(UTC)).total_seconds())),
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )
