"""The server that a command talks to over HTTP, and the sessions there by what a person calls them."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

from ash_server.commands.store import AmbiguousSession
from ash_server.errors import AshError
from ash_server.settings import Settings

AWAY = (OSError, HTTPException)
"""What is raised where a server is away, or goes away before it has answered."""
LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of a server that cannot answer now."""

_SECONDS = 30


class Refused(AshError):
    """What the server said, as its problem tells."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"status {status}")
        self.status = status
        self.code = str(problem.get("code"))
        index = problem.get("index")
        self.index = index if isinstance(index, int) else None
        self.problem = problem


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
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, address.path + path, data, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise _refusal(response)
            yield response


def server_at(url: str | None) -> Server:
    """The one that is named, else that of ASH_URL, else of this machine. Raises BadAddress."""
    named = (
        url or os.environ.get("ASH_URL") or f"http://127.0.0.1:{Settings.from_environment(os.environ).port}"
    )
    if urlsplit(named).scheme not in ("http", "https") or not urlsplit(named).hostname:
        raise BadAddress(f"{named!r} is no address of a server: one begins with http:// or https://")
    return Server(named.rstrip("/"))


def find_session(server: Server, reference: str) -> Mapping[str, Any] | None:
    """By its external id, its id, or the beginning of one. Raises AmbiguousSession."""
    if (id := as_uuid(reference)) is not None:
        return _session_of(server, id)
    named = [each for each in _sessions(server, q=reference) if each.get("externalId") == reference]
    found = named or [each for each in _sessions(server) if each["id"].startswith(reference.lower())]
    if len(found) > 1:
        ids = ", ".join(each["id"] for each in found[:3])
        raise AmbiguousSession(f"several sessions go by {reference!r}: {ids}{' …' if found[3:] else ''}")
    return found[0] if found else None


def as_uuid(text: str) -> str | None:
    try:
        return str(UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


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
