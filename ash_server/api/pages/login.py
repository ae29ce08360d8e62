"""Sign a browser in and out: the page exchanges a key or a code for a cookie, which every route accepts."""

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, quote

import msgspec
from litestar import Controller, HttpMethod, Response, post, route
from litestar.datastructures import Cookie, State

from ash_server.api.http.bodies import JSON, decode_body, read_body
from ash_server.api.http.guards.access import (
    COOKIE,
    PUBLIC,
    SECURE_COOKIE,
    client_address,
    client_of,
    identify,
    is_secure,
    needs,
    session_cookie,
)
from ash_server.api.http.guards.origin_guard import has_same_origin
from ash_server.api.http.guards.query_guard import ANY_QUERY
from ash_server.api.http.guards.rate_limit import RateLimit
from ash_server.api.http.problems import WRITE_ERRORS, AnyRequest, error_responses
from ash_server.api.pages.viewer_pages import HTML, MAX_NEXT, PAGE_POLICY, render_shell
from ash_server.errors import AshError, KeyInvalid, KeyRequired, OriginNotAllowed
from ash_server.keys.digests import random_text
from ash_server.keys.ring import KeyRing
from ash_server.store.access.keys import CodeInvalid, KeyScope
from ash_shared.model.keys import SignInCode

FORM = "application/x-www-form-urlencoded"

CODE_RATE = 1.0
"""Requests with codes per second, for each address, after a burst of 10."""

_SIGNED_IN = timedelta(days=14)
_CODE_VALID = timedelta(minutes=5)
_CODE_SCOPES: tuple[KeyScope, ...] = ("read",)
_MAX_CODE_BYTES = 1024
_MAX_FORM_BYTES = 4 * MAX_NEXT  # the form escapes the address again
_LOCAL_PATH = re.compile(r"/(?![/\\]).*", re.DOTALL)
_URI_CHARACTERS = "%/?#[]@!$&'()*+,;=:~"

# Browsers send `Origin: null` with forms of pages that have the default policy `no-referrer`.
_FORM_HEADERS = {"Referrer-Policy": "same-origin", "Content-Security-Policy": PAGE_POLICY}


class CodeRefused(AshError):
    status, code, title = 409, "code_refused", "A code cannot be created."


class _CodeForm(msgspec.Struct, forbid_unknown_fields=True):
    secret: str


_decoder = msgspec.json.Decoder(_CodeForm)


class SignInCodeController(Controller):
    path = "/api/sign-in-codes"
    tags = ("keys",)

    @post(
        opt=needs("read"),
        operation_id="createSignInCode",
        response_description="The code.",
        responses=error_responses(*WRITE_ERRORS, CodeRefused),
    )
    async def create(self, request: AnyRequest, state: State) -> SignInCode:
        """Create a code for a phone.

        Creates a code that signs one browser in, once within five minutes, to read with the key of the request. An
        earlier code of the key is no longer valid. A browser that is signed in creates no codes.
        """
        client = client_of(request.scope)
        if client.key is None:
            raise CodeRefused("The server has no keys: open its address.")
        if client.is_browser:
            raise CodeRefused("Send the key itself: a browser that is signed in creates no codes.")
        text, end = random_text(), datetime.now(UTC) + _CODE_VALID
        await state.store.keys.create_code(client.key, _code_digest(state, text), end)
        return SignInCode(path=f"/login/code#{text}", expires_at=end)


class CodeController(Controller):
    """The page that exchanges the code in the fragment of its address for a cookie."""

    path = "/login/code"
    include_in_schema = False
    opt = PUBLIC | ANY_QUERY
    request_max_body_size = _MAX_CODE_BYTES

    @route("/", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def page(self, request: AnyRequest) -> Response[bytes]:
        texts = {"next": _checked_path(request.query_params.get("next"))}
        return await asyncio.to_thread(render_shell, "code", texts, {"Referrer-Policy": "no-referrer"})

    @post("/", status_code=204)
    async def sign_in(self, request: AnyRequest, state: State) -> Response[None]:
        """Raises CodeInvalid, RateLimited, OriginNotAllowed."""
        if not has_same_origin(request):
            raise OriginNotAllowed("Only the page of this server signs in with a code.")
        limit: RateLimit = state.code_limit
        limit.take(client_address(request), time.monotonic())
        secret = decode_body((await read_body(request, JSON)).text, _decoder).secret
        key_ring: KeyRing = state.key_ring
        text, end = random_text(), datetime.now(UTC) + _SIGNED_IN
        try:
            await state.store.keys.sign_in_with_code(
                _code_digest(state, secret), key_ring.digest(text), end, _CODE_SCOPES
            )
        except CodeInvalid:
            await key_ring.record_refused_sign_in(client_address(request))
            raise
        response = Response(None, status_code=204)
        response.set_cookie(_cookie(request, text, int(_SIGNED_IN.total_seconds())))
        return response


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


def _code_digest(state: State, text: str) -> bytes:
    key_ring: KeyRing = state.key_ring
    return key_ring.digest(f"sign-in-code/{text}")


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
