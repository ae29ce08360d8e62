"""The viewer's pages and assets, and sessions as Markdown, JSON, JSONL and HTML documents.

`/sessions/ID` is the address of a session. The format is selected by a suffix (`.md`), otherwise by the Accept header.
Other references to a session (prefix of its id, external id, the provider's id) are redirected to its address.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec
from litestar import Controller, HttpMethod, Response, route
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Stream
from litestar.types import ExceptionHandlersMap

from ash_server.api.http.bodies import JSON, NDJSON
from ash_server.api.http.caching import has_current, not_modified
from ash_server.api.http.compression import static_file
from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import PUBLIC, client_of, record
from ash_server.api.http.guards.query_guard import ANY_QUERY
from ash_server.api.http.headers import get_header
from ash_server.api.http.problems import HANDLERS, AnyRequest, handle_http_exception
from ash_server.api.http.redaction import PARAMETER, REDACTED_NAME, compared, is_redacted, mark_as_redacted
from ash_server.api.http.streaming import buffered, start_stream
from ash_server.errors import NotFound, SessionNotFound
from ash_server.store import Store
from ash_server.store.conversation.redacted_rows import redact_session
from ash_server.store.sessions import AmbiguousSession, SessionStore
from ash_server.transfer.exporting.html import frame, write_html
from ash_server.transfer.exporting.json_document import write_json
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.exporting.markdown import write_markdown
from ash_server.viewer import viewer
from ash_shared.model.session import Session

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

HTML, MARKDOWN = "text/html", "text/markdown"

_READ_METHODS = [HttpMethod.GET, HttpMethod.HEAD]
_CACHE_FOREVER = "private, max-age=31536000, immutable"
_FOR_OTHER_PAGES = {
    "Cache-Control": "no-cache",
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
_NEWEST_EVENTS = "before=9007199254740991&limit=150&collapse=true"
_FIRST_EVENTS = "after=0&limit=150&collapse=true"
_ABANDONED = timedelta(minutes=10)
"""A session is finished if its last record is older: as ABANDONED_MS of lib/activity-text.js."""
_PLACE_PARAMETERS = ("message", "at")
_SIDES = ("a", "b")
"""The parameters of a comparison."""
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Chunks = AsyncGenerator[bytes, None]


class _Format(NamedTuple):
    media_type: str
    title: str
    write: Callable[..., Chunks]
    """Accepts the store, the session, and the keyword `redacts`."""


def _write_jsonl(store: Store, session: Session, *, redacts: bool) -> Chunks:
    return export_messages(store, session.id, redacts=redacts)


FORMATS: Mapping[str, _Format] = {
    ".md": _Format(MARKDOWN, "Markdown", write_markdown),
    ".json": _Format(JSON, "Standard messages", write_json),
    ".jsonl": _Format(NDJSON, "Stored messages", _write_jsonl),
    ".html": _Format(HTML, "Standalone page", write_html),
}
_NEGOTIATED = {
    HTML: "",
    **{format.media_type: suffix for suffix, format in FORMATS.items() if suffix != ".html"},
}
"""Suffixes by media type; browsers get the live page."""

_SESSIONS = "/sessions/"

MAX_NEXT = 8 * 1024
"""Maximum length of the return address after signing in, in characters."""


def _problem_page(
    handle: Callable[[Any, Any], Response[bytes]], request: AnyRequest, error: Any
) -> Response[bytes]:
    """Render the problem response as a page for browsers; redirect those without a key to the page that asks for it."""
    response = handle(request, error)
    if HTML not in (get_header(request.headers, "accept") or ""):
        return response
    if response.status_code == 401:
        if get_header(request.headers, "sec-fetch-site") == "cross-site":
            response.headers["Refresh"] = "0"  # browsers only send the cookie with requests from this site
            return response
        return _redirect_to(f"/login?next={quote(_address_to_return_to(request), safe='/')}", 303)
    problem = msgspec.json.decode(response.content)
    texts = _refusal_texts(**problem)
    path = request.scope["path"]
    if isinstance(error, SessionNotFound) and path.startswith(_SESSIONS):
        texts["reference"] = path.removeprefix(_SESSIONS)
        return render_shell("missing", texts, response.headers, problem["status"])
    return render_shell("refusal", texts, response.headers, problem["status"])


def _refusal_texts(*, title: str, status: int, code: str, detail: str = "", **_: Any) -> dict[str, str]:
    title, detail = _MISSING.get(code, (title, detail))
    action, href = _ACTIONS.get(status, _TRY_AGAIN if status >= 500 else _ALL_SESSIONS)
    return {"title": title, "detail": detail, "status": str(status), "action": action, "href": href}


def handle_unknown_path(request: AnyRequest, error: NotFoundException) -> Response[bytes]:
    """Render the response to a browser as a page, except for paths of the API."""
    if request.scope["path"].startswith("/api/"):
        return handle_http_exception(request, error)
    return _problem_page(handle_http_exception, request, error)


_MISSING: Mapping[str, tuple[str, str]] = {
    "not_found": ("Page not found", "Ash has no page with this address."),
}
"""Titles and details of pages, by code: the texts of the API speak of requests."""
_ALL_SESSIONS, _TRY_AGAIN = ("All sessions", "/"), ("Try again", "")
_ACTIONS = {403: ("Sign in with another key", "/login"), 429: _TRY_AGAIN}
"""Labels and addresses by status."""


def _address_to_return_to(request: AnyRequest) -> bytes:
    """Return the path and query as sent; empty if they are too long for the address of the sign-in page."""
    path, _, _ = request.scope["raw_path"].partition(b"?")  # some servers include the query
    query = request.scope["query_string"]
    address = path + (b"?" + query if query else b"")
    return address if len(address) <= MAX_NEXT else b"/"


def render_shell(
    name: str, texts: Mapping[str, str], headers: Mapping[str, str] | None = None, status: int = 200
) -> Response[bytes]:
    page = viewer().shell(name, texts).encode()
    headers = {**(headers or {}), "Content-Security-Policy": PAGE_POLICY}
    return Response(page, status_code=status, media_type=HTML, headers=headers)


_HANDLERS: ExceptionHandlersMap = {
    kind: partial(_problem_page, handler) for kind, handler in HANDLERS.items()
}


class PageController(Controller):
    include_in_schema = False
    exception_handlers = _HANDLERS

    @route("/", http_method=_READ_METHODS, opt=ANY_QUERY)
    async def sessions(self, request: AnyRequest) -> Response[bytes]:
        return await asyncio.to_thread(render_shell, "sessions", _client_texts(request))

    @route("/live", http_method=_READ_METHODS, opt=ANY_QUERY)
    async def live(self, request: AnyRequest) -> Response[bytes]:
        return await asyncio.to_thread(render_shell, "live", _client_texts(request))

    @route("/usage", http_method=_READ_METHODS, opt=ANY_QUERY)
    async def usage(self, request: AnyRequest) -> Response[bytes]:
        return await asyncio.to_thread(render_shell, "usage", _client_texts(request))

    @route("/compare", http_method=_READ_METHODS, opt=ANY_QUERY)
    async def compare(self, request: AnyRequest, store: InjectedStore) -> Response[bytes]:
        """Show two sessions side by side, or sessions to choose from. Redirect references that are not ids."""
        query = dict(request.query_params)
        for name in _SIDES:
            if not query.get(name):
                continue
            session = await _find_session(store.sessions, compared(request.scope, query[name]))
            query[name] = str(session.id)
        if query != dict(request.query_params):
            return _redirect_to(f"/compare?{urlencode(query)}", 307)
        return await asyncio.to_thread(render_shell, "compare", _client_texts(request))

    @route("/sessions", http_method=_READ_METHODS, opt=ANY_QUERY)
    async def redirect_to_list(self, request: AnyRequest) -> Response[bytes]:
        return _redirect(request, "/")

    @route("/sessions/{reference:path}", http_method=_READ_METHODS, opt=ANY_QUERY)
    async def session(
        self, request: AnyRequest, store: InjectedStore, reference: FromPath[str]
    ) -> Response[Any]:
        path = reference.removeprefix("/")
        session, suffix = await _resolve(store.sessions, compared(request.scope, path))
        canonical = f"{session.id}{suffix}"
        if path != canonical:
            return _redirect(request, f"/sessions/{canonical}")
        return await _session_response(request, store, session, suffix)


def _client_texts(request: AnyRequest) -> dict[str, str]:
    client = client_of(request.scope)
    return {
        "client": "browser" if client.is_browser else "",
        "tenant": client.tenant.name if client.key else "",
    }


class AssetController(Controller):
    include_in_schema = False
    opt = PUBLIC

    @route("/viewer/{digest:str}/{path:path}", http_method=_READ_METHODS, sync_to_thread=True)
    def asset(self, request: AnyRequest, digest: FromPath[str], path: FromPath[str]) -> Response[bytes]:
        """Serve an asset under the current digest only, since responses are cached forever."""
        bundle = viewer()
        asset = bundle.assets.get(path.removeprefix("/"))
        if asset is None or digest != bundle.digest:
            raise NotFound
        return static_file(request, asset.content, asset.media_type, {"Cache-Control": _CACHE_FOREVER})

    @route("/viewer/{name:str}", http_method=_READ_METHODS, sync_to_thread=True)
    def library(self, request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
        """Serve the renderer for third-party pages. The address is fixed, so clients revalidate every time."""
        bundle = viewer()
        asset = bundle.library.get(name)
        if asset is None:
            raise NotFound
        headers = {**_FOR_OTHER_PAGES, "ETag": f'W/"{bundle.digest}"'}
        if has_current(request, headers["ETag"]):
            return not_modified(headers, asset.media_type)
        return static_file(request, asset.content, asset.media_type, headers)


async def _resolve(sessions: SessionStore, path: str) -> tuple[Session, str]:
    """Return the session and the suffix of the requested format. An external id may itself end with such a suffix."""
    stem, dot, extension = path.rpartition(".")
    suffix = f"{dot}{extension}"
    if suffix not in FORMATS:
        return await _find_session(sessions, path), ""
    if not _UUID.fullmatch(stem):
        try:
            return await _find_session(sessions, path), ""
        except SessionNotFound:
            pass
    return await _find_session(sessions, stem), suffix


async def _find_session(sessions: SessionStore, reference: str) -> Session:
    if _UUID.fullmatch(reference):
        try:
            return await sessions.get(UUID(reference))
        except SessionNotFound:
            pass  # it may be an id of the provider
    matches = [] if "\0" in reference else await sessions.find(reference)
    if not matches:
        raise SessionNotFound("No session matches this reference.")
    if len(matches) > 1:
        raise AmbiguousSession(f"Their ids: {', '.join(str(each.id) for each in matches[:3])}.")
    return matches[0]


def _redirect(request: AnyRequest, path: str) -> Response[bytes]:
    query = request.scope["query_string"].decode("latin-1")
    return _redirect_to(path + (f"?{query}" if query else ""), 307)


def _redirect_to(address: str, status: int) -> Response[bytes]:
    headers = {"Location": address, "Content-Security-Policy": PAGE_POLICY}
    return Response(b"", status_code=status, media_type=HTML, headers=headers)


async def _session_response(
    request: AnyRequest, store: Store, session: Session, suffix: str
) -> Response[bytes] | Stream:
    headers = {"Link": _links(session)}
    if not suffix:
        suffix = _NEGOTIATED[request.accept.best_match(list(_NEGOTIATED), HTML) or HTML]
        headers["Vary"] = "Accept"
    if not suffix:
        shown = redact_session(session) if is_redacted(request.scope) else session
        texts = {"id": str(session.id), "title": f"{shown.name} · Ash"}
        preloads = [] if PARAMETER in request.query_params else [f"/api/sessions/{session.id}"]
        if preloads and request.query_params.keys().isdisjoint(_PLACE_PARAMETERS):
            preloads.append(f"/api/sessions/{session.id}/events?{_first_query(session)}")
        headers["Link"] += "".join(f", <{each}>; rel=preload; as=fetch; crossorigin" for each in preloads)
        return await asyncio.to_thread(render_shell, "session", texts, headers)
    return await _document_response(request, store, session, suffix, headers)


def _first_query(session: Session) -> str:
    """Return the query of the page's first request for events, if its address has no place (session-page.js)."""
    last = session.last_at or session.file_modified_at
    return _FIRST_EVENTS if last and datetime.now(UTC) - last > _ABANDONED else _NEWEST_EVENTS


async def _document_response(
    request: AnyRequest, store: Store, session: Session, suffix: str, headers: dict[str, str]
) -> Response[bytes] | Stream:
    format, redacts = FORMATS[suffix], is_redacted(request.scope)
    mark = REDACTED_NAME if redacts else ""
    headers["Content-Disposition"] = f'inline; filename="{session.id}{mark}{suffix}"'
    if suffix == ".html":
        policy = (await asyncio.to_thread(frame)).policy
        headers["Content-Security-Policy"] = f"{policy}; frame-ancestors 'none'"
    if request.method == HttpMethod.HEAD:
        return Response(b"", media_type=format.media_type, headers=headers)
    await record(request, "session.export", session.id)
    if redacts:
        mark_as_redacted(request.scope)
    chunks = buffered(format.write(store, session, redacts=redacts))
    return await start_stream(chunks, media_type=format.media_type, headers=headers)


def _links(session: Session) -> str:
    return ", ".join(
        f'</sessions/{session.id}{suffix}>; rel="alternate"; type="{format.media_type}"; title="{format.title}"'
        for suffix, format in FORMATS.items()
    )
