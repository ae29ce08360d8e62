"""Sign a browser in and out: the page exchanges a key for a cookie, which every route accepts."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, quote

from litestar import Controller, HttpMethod, Response, post, route
from litestar.datastructures import Cookie, State

from ash_server.api.http.bodies import read_body
from ash_server.api.http.guards.access import (
    COOKIE,
    PUBLIC,
    SECURE_COOKIE,
    client_address,
    identify,
    is_secure,
    session_cookie,
)
from ash_server.api.http.guards.query_guard import ANY_QUERY
from ash_server.api.http.problems import AnyRequest
from ash_server.api.pages.viewer_pages import HTML, MAX_NEXT, PAGE_POLICY, render_shell
from ash_server.errors import KeyInvalid, KeyRequired
from ash_server.keys.digests import random_text
from ash_server.keys.ring import KeyRing

FORM = "application/x-www-form-urlencoded"

_SIGNED_IN = timedelta(days=14)
_MAX_FORM_BYTES = 4 * MAX_NEXT  # the form escapes the address again
_LOCAL_PATH = re.compile(r"/(?![/\\]).*", re.DOTALL)
_URI_CHARACTERS = "%/?#[]@!$&'()*+,;=:~"

# Browsers send `Origin: null` with forms of pages that have the default policy `no-referrer`.
_FORM_HEADERS = {"Referrer-Policy": "same-origin", "Content-Security-Policy": PAGE_POLICY}


class LoginController(Controller):
    include_in_schema = False
    opt = PUBLIC | ANY_QUERY
    request_max_body_size = _MAX_FORM_BYTES

    @route("/login", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def page(self, request: AnyRequest) -> Response[bytes]:
        return await _login_page(request.query_params.get("next"))

    @post("/login", status_code=303)
    async def sign_in(self, request: AnyRequest, state: State) -> Response[bytes]:
        form = parse_qs((await read_body(request, FORM)).text)
        key_text, next_path = form.get("key", [""])[0].strip(), form.get("next", [""])[0]
        key_ring: KeyRing = state.key_ring
        try:
            client = await key_ring.identify(key_text, None)
        except (KeyInvalid, KeyRequired):
            await key_ring.record_refused_sign_in(client_address(request))
            return await _login_page(next_path, "This key is not valid.", status=401)
        response = _redirect(_checked_path(next_path))
        if client.key is not None:
            text, end = random_text(), datetime.now(UTC) + _SIGNED_IN
            await state.store.keys.sign_in(client.key, key_ring.digest(text), end)
            response.set_cookie(_cookie(request, text, int(_SIGNED_IN.total_seconds())))
        return response

    @route("/logout", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def sign_out_page(self) -> Response[bytes]:
        return await asyncio.to_thread(render_shell, "logout", {}, _FORM_HEADERS)

    @post("/logout", status_code=303)
    async def sign_out(self, request: AnyRequest, state: State) -> Response[bytes]:
        if session_cookie(request):
            try:
                client = await identify(request)
            except (KeyInvalid, KeyRequired):
                client = None
            if client is not None and client.key is not None and client.is_browser:
                await state.store.keys.sign_out(client.key, client.digest)
                state.key_ring.forget(client)
        response = _redirect("/login")
        response.set_cookie(_cookie(request, "", 0))
        return response


def _checked_path(path: str | None) -> str:
    """Return the path as a URI on this server, never the address of another server.

    Backslashes and control characters are escaped: browsers treat the former as slashes, and skip the latter.
    """
    if not path or not _LOCAL_PATH.fullmatch(path):
        return "/"
    escaped = quote(path, safe=_URI_CHARACTERS, errors="replace")
    return escaped if len(escaped) <= MAX_NEXT else "/"


async def _login_page(next_path: str | None, problem: str = "", status: int = 200) -> Response[bytes]:
    texts = {"next": _checked_path(next_path), "problem": problem}
    return await asyncio.to_thread(render_shell, "login", texts, _FORM_HEADERS, status)


def _cookie(request: AnyRequest, text: str, seconds: int) -> Cookie:
    secure = is_secure(request)
    return Cookie(
        SECURE_COOKIE if secure else COOKIE,
        value=text,
        max_age=seconds,
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def _redirect(path: str) -> Response[bytes]:
    headers = {**_FORM_HEADERS, "Location": path}
    return Response(b"", status_code=303, media_type=HTML, headers=headers)
