"""The server that a command talks to over HTTP, and the sessions there by what a person calls them."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

from ash_server.db.sessions import AmbiguousSession, Session
from ash_server.errors import AshError
from ash_server.settings import Settings

AWAY = (OSError, HTTPException)
"""What is raised where a server is away, or goes away before it has answered."""
LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of a server that cannot answer now."""

_SECONDS = 30
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class Refused(AshError):
    """What the server said, as its problem tells."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"status {status}")
        self.status = status
        self.code = str(problem.get("code"))
        index = problem.get("index")
        self.index = index if isinstance(index, int) else None
        self.problem = problem


class NoServer(AshError):
    status, code, title = 503, "no_server", "The server does not answer."


class NotAsh(AshError):
    status, code, title = 500, "not_ash", "Something else than Ash answers at this address."


class BadAddress(AshError):
    status, code, title = 500, "bad_address", "An address begins with http:// or https://."


class Server(NamedTuple):
    url: str
    """Without a slash at the end."""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The decoded answer. Raises Refused, NotAsh, and those of AWAY."""
        with self.open(method, path, body) as response:
            return _decoded(response)

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str = "application/json",
        seconds: int = _SECONDS,
    ) -> Iterator[HTTPResponse]:
        """The answer before it is read, on a connection of its own."""
        address = urlsplit(self.url)
        connect = HTTPSConnection if address.scheme == "https" else HTTPConnection
        with closing(connect(address.hostname or "", address.port, timeout=seconds)) as connection:
            headers = {"Accept": accept, "Connection": "close"}
            if body is not None:
                headers["Content-Type"] = "application/json"
            data = None if body is None else _encoded(body)
            connection.request(method, address.path + path, data, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise _refusal(response)
            yield response


def server_at(url: str | None) -> Server:
    """The one that is named, else that of ASH_URL, else of this machine. Raises BadAddress."""
    named = url or _usual_url()
    if urlsplit(named).scheme not in ("http", "https") or not urlsplit(named).hostname:
        raise BadAddress(f"{named!r} is no address of a server: one begins with http:// or https://")
    return Server(named.rstrip("/"))


def url_option(server: Server) -> list[str]:
    """What a command needs to reach the same server from here."""
    return [] if server.url == _usual_url().rstrip("/") else ["--url", server.url]


def why(error: BaseException) -> str:
    """One of AWAY, in words."""
    return str(error) or type(error).__name__


def pauses() -> Iterator[float]:
    """Seconds until a server that is away is asked again: longer each time."""
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def find_session(server: Server, reference: str) -> Mapping[str, Any] | None:
    """By its external id, its id, or the beginning of one. Raises AmbiguousSession."""
    if (id := as_uuid(reference)) is not None:
        return _session_of(server, id)
    named = [each for each in _sessions(server, q=reference) if each.get("externalId") == reference]
    return _only(reference, named) if named else find_beginning(server, reference)


def find_beginning(server: Server, reference: str) -> Mapping[str, Any] | None:
    """By the beginning of its id, for which all sessions are looked through. Raises AmbiguousSession."""
    if not may_begin_id(reference):
        return None
    digits = _digits(reference)
    return _only(reference, [each for each in _sessions(server) if _digits(each["id"]).startswith(digits)])


def may_begin_id(reference: str) -> bool:
    return re.fullmatch("[0-9a-f]{1,32}", _digits(reference)) is not None


def short_id(id: str) -> str:
    """What tells it from others: but for ids that begin with the time, a piece is enough."""
    return id if UUID(id).version == 7 else id[:8]


def as_uuid(text: str) -> str | None:
    try:
        return str(UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


def _usual_url() -> str:
    return os.environ.get("ASH_URL") or f"http://127.0.0.1:{Settings.from_environment(os.environ).port}"


def _only(reference: str, found: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if len(found) > 1:
        raise AmbiguousSession(reference, list(map(Session.model_validate, found)))
    return found[0] if found else None


def _digits(id: str) -> str:
    return id.replace("-", "").lower()


def _session_of(server: Server, id: str) -> Mapping[str, Any] | None:
    try:
        return dict(server.ask("GET", f"/api/sessions/{id}"))
    except Refused as refused:
        if refused.code == "session_not_found":
            return None
        raise


def _sessions(server: Server, **wanted: str) -> Iterator[Mapping[str, Any]]:
    query = {"limit": "1000", **wanted}
    while True:
        page = server.ask("GET", f"/api/sessions?{urlencode(query, quote_via=quote)}")
        yield from page["sessions"]
        if "nextAfter" not in page:
            return
        query["after"] = page["nextAfter"]


def _encoded(body: Any) -> bytes:
    # Bytes of the command line that are no text become what the server refuses.
    return json.dumps(body, ensure_ascii=False).encode(errors="surrogateescape")


def _decoded(response: HTTPResponse) -> Any:
    try:
        return json.loads(response.read())
    except ValueError as error:
        raise NotAsh from error


def _refusal(response: HTTPResponse) -> AshError:
    """Without a problem of Ash it is the word of somebody else, who may stand in front of it for a while."""
    try:
        problem = json.loads(response.read())
    except ValueError:
        problem = None
    if isinstance(problem, dict) and "code" in problem:
        return Refused(response.status, problem)
    return Refused(response.status, {}) if response.status in LATER else NotAsh()
