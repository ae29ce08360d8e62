"""What a person opens: pages that the viewer fills, the other forms of the same sessions, and the viewer's own files.

`/sessions/ID` is the address of a session. The form is told by an ending (`.md`), else by the Accept header; and who
names a session otherwise (by the beginning of its id, by what it is called where it comes from, by the provider's own
id) is led to its address.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from litestar import Controller, HttpMethod, Request, Response, route
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.response import Stream
from litestar.types import ExceptionHandlersMap
from psycopg import AsyncConnection

from ash_server.api.export import exported
from ash_server.api.http.bodies import JSON, NDJSON
from ash_server.api.http.connections import Pool
from ash_server.api.http.headers import header
from ash_server.api.http.problems import HANDLERS
from ash_server.api.http.query_guard import ANY_QUERY
from ash_server.api.http.streaming import begun, in_pieces
from ash_server.db.sessions import AmbiguousSession, Session, find_sessions, get_session
from ash_server.errors import NotFound, SessionNotFound
from ash_server.transfer.exporting.html import frame, write_html
from ash_server.transfer.exporting.json_document import write_json
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.exporting.markdown import write_markdown
from ash_server.viewer import viewer

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

HTML, MARKDOWN = "text/html", "text/markdown"

_READ = [HttpMethod.GET, HttpMethod.HEAD]
_FOR_EVER = "private, max-age=31536000, immutable"
_NEWEST = "before=9007199254740991&limit=500&collapse=true"
"""The first request of session/event-pages.js when the address names no place; preloaded with the page."""
_PLACES = ("message", "at")
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

AnyRequest = Request[Any, Any, Any]
Pieces = AsyncGenerator[bytes, None]


class _Form(NamedTuple):
    media_type: str
    title: str
    write: Callable[[State, Session], Pieces]


_FORMS: Mapping[str, _Form] = {
    ".md": _Form(MARKDOWN, "Markdown", lambda state, session: write_markdown(state.pool.connection, session)),
    ".json": _Form(
        JSON, "Standard messages", lambda state, session: write_json(state.pool.connection, session)
    ),
    ".jsonl": _Form(
        NDJSON,
        "As it was stored",
        lambda state, session: exported(state.export_pool, session.id, export_messages),
    ),
    ".html": _Form(
        HTML, "One page, for a file", lambda state, session: write_html(state.pool.connection, session)
    ),
}
_NEGOTIATED = {HTML: "", **{form.media_type: suffix for suffix, form in _FORMS.items() if suffix != ".html"}}
"""The ending of what an Accept header may name; a browser gets the page that goes on."""


def _or_page(
    refuse: Callable[[Any, Any], Response[bytes]], request: AnyRequest, error: Any
) -> Response[bytes]:
    """To a browser the problem is told as a page."""
    refused = refuse(request, error)
    if HTML not in (header(request.headers, "accept") or ""):
        return refused
    problem = msgspec.json.decode(refused.content)
    texts = {"title": problem["title"], "detail": problem.get("detail", ""), "status": str(problem["status"])}
    return _page("refusal", texts, refused.headers, problem["status"])


def _page(
    name: str, texts: Mapping[str, str], headers: Mapping[str, str] | None = None, status: int = 200
) -> Response[bytes]:
    page = viewer().shell(name, texts).encode()
    every = {**(headers or {}), "Content-Security-Policy": PAGE_POLICY}
    return Response(page, status_code=status, media_type=HTML, headers=every)


_HANDLERS: ExceptionHandlersMap = {kind: partial(_or_page, handler) for kind, handler in HANDLERS.items()}


class PageController(Controller):
    include_in_schema = False
    exception_handlers = _HANDLERS

    @route("/", http_method=_READ, opt=ANY_QUERY)
    async def sessions(self) -> Response[bytes]:
        return await asyncio.to_thread(_page, "sessions", {})

    @route("/sessions", http_method=_READ, opt=ANY_QUERY)
    async def no_session(self, request: AnyRequest) -> Response[bytes]:
        return _redirect(request, "/")

    @route("/sessions/{reference:path}", http_method=_READ, opt=ANY_QUERY)
    async def session(
        self, request: AnyRequest, state: State, pool: Pool, reference: FromPath[str]
    ) -> Response[Any]:
        named = reference.removeprefix("/")
        async with pool.connection() as conn:
            session, suffix = await _find(conn, named)
        address = f"{session.id}{suffix}"
        if named != address:
            return _redirect(request, f"/sessions/{address}")
        return await _answer(request, state, session, suffix)


class AssetController(Controller):
    include_in_schema = False

    @route("/viewer/{digest:str}/{path:path}", http_method=_READ, sync_to_thread=True)
    def asset(self, digest: FromPath[str], path: FromPath[str]) -> Response[bytes]:
        """Under its own digest alone: what is kept for ever must not be something else than it says."""
        now = viewer()
        asset = now.assets.get(path.removeprefix("/"))
        if asset is None or digest != now.digest:
            raise NotFound
        return Response(asset.content, media_type=asset.media_type, headers={"Cache-Control": _FOR_EVER})


async def _find(conn: AsyncConnection, named: str) -> tuple[Session, str]:
    """The session, and the ending of the form that is asked for. Names may end like that, too."""
    stem, dot, ending = named.rpartition(".")
    suffix = f"{dot}{ending}"
    if suffix not in _FORMS:
        return await _find_one(conn, named), ""
    if not _UUID.fullmatch(stem):
        try:
            return await _find_one(conn, named), ""
        except SessionNotFound:
            pass
    return await _find_one(conn, stem), suffix


async def _find_one(conn: AsyncConnection, name: str) -> Session:
    if _UUID.fullmatch(name):
        try:
            return await get_session(conn, UUID(name))
        except SessionNotFound:
            pass  # it may be the provider's
    found = [] if "\0" in name else await find_sessions(conn, name)
    if not found:
        raise SessionNotFound("Nothing that is stored here goes by this name.")
    if len(found) > 1:
        raise AmbiguousSession(name, found)
    return found[0]


def _redirect(request: AnyRequest, path: str) -> Response[bytes]:
    query = request.scope["query_string"].decode("latin-1")
    headers = {
        "Location": path + (f"?{query}" if query else ""),
        "Content-Security-Policy": PAGE_POLICY,
    }
    return Response(b"", status_code=307, media_type=HTML, headers=headers)


async def _answer(
    request: AnyRequest, state: State, session: Session, suffix: str
) -> Response[bytes] | Stream:
    headers = {"Link": _links(session)}
    if not suffix:
        suffix = _NEGOTIATED[request.accept.best_match(list(_NEGOTIATED), HTML) or HTML]
        headers["Vary"] = "Accept"
    if not suffix:
        texts = {"id": str(session.id), "title": f"{session.name} · Ash"}
        asked = [f"/api/sessions/{session.id}"]
        if request.query_params.keys().isdisjoint(_PLACES):
            asked.append(f"/api/sessions/{session.id}/events?{_NEWEST}")
        headers["Link"] += "".join(f", <{each}>; rel=preload; as=fetch; crossorigin" for each in asked)
        return await asyncio.to_thread(_page, "session", texts, headers)
    return await _form(request, state, session, suffix, headers)


async def _form(
    request: AnyRequest, state: State, session: Session, suffix: str, headers: dict[str, str]
) -> Response[bytes] | Stream:
    form = _FORMS[suffix]
    headers["Content-Disposition"] = f'inline; filename="{session.id}{suffix}"'
    if suffix == ".html":
        policy = (await asyncio.to_thread(frame)).policy
        headers["Content-Security-Policy"] = f"{policy}; frame-ancestors 'none'"
    if request.method == HttpMethod.HEAD:
        return Response(b"", media_type=form.media_type, headers=headers)
    pieces = in_pieces(form.write(state, session))
    return await begun(pieces, media_type=form.media_type, headers=headers)


def _links(session: Session) -> str:
    return ", ".join(
        f'</sessions/{session.id}{suffix}>; rel="alternate"; type="{form.media_type}"; title="{form.title}"'
        for suffix, form in _FORMS.items()
    )
