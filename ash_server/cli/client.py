"""HTTP client for the server, and lookup of its sessions by reference."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

from ash_server.db.sessions import AmbiguousSession
from ash_server.errors import AshError
from ash_server.settings import Settings
from ash_shared.model.session import Session

UNAVAILABLE = (OSError, HTTPException)
"""Errors raised if the server cannot be reached, or disconnects before it answers."""
RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 507})

_TIMEOUT_SECONDS = 30
_MIN_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.1, 2.0
_SESSIONS_PAGE = 1000


class Refused(AshError):
    """An error response of the server, with its problem document."""

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
    status, code, title = 500, "not_ash", "The server at this address is not Ash."


class BadAddress(AshError):
    status, code, title = 500, "bad_address", "A server address starts with http:// or https://."


class Server(NamedTuple):
    url: str
    """Without a trailing slash."""

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the decoded response to JSON, or to a text given as bytes.

        Raises Refused, NotAsh, and the errors of UNAVAILABLE.
        """
        with self.open(method, path, body) as response:
            return _decode(response)

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str = "application/json",
        timeout: int = _TIMEOUT_SECONDS,
    ) -> Iterator[HTTPResponse]:
        """Open a new connection and yield the response before its body is read."""
        address = urlsplit(self.url)
        connect = HTTPSConnection if address.scheme == "https" else HTTPConnection
        with closing(connect(address.hostname or "", address.port, timeout=timeout)) as connection:
            headers = {"Accept": accept, "Connection": "close"}
            if body is not None:
                headers["Content-Type"] = "text/plain" if isinstance(body, bytes) else "application/json"
            data = body if body is None or isinstance(body, bytes) else _encode(body)
            connection.request(method, address.path + path, data, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise _to_error(response)
            yield response


def server_at(url: str | None) -> Server:
    """Return the server at `url`, else at ASH_URL, else on this machine. Raises BadAddress."""
    address = url or _default_url()
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
        raise BadAddress(f"{address!r} is not a server address, which starts with http:// or https://")
    return Server(address.rstrip("/"))


def url_arguments(server: Server) -> list[str]:
    """Return the command-line arguments that select this server; none if it is the default."""
    return [] if server.url == _default_url().rstrip("/") else ["--url", server.url]


def describe_error(error: BaseException) -> str:
    """Describe one of UNAVAILABLE."""
    return str(error) or type(error).__name__


def retry_delays() -> Iterator[float]:
    """Yield seconds to wait before each retry, with exponential backoff."""
    delay = _MIN_RETRY_SECONDS
    while True:
        yield delay
        delay = min(2 * delay, _MAX_RETRY_SECONDS)


def find_session(server: Server, reference: str) -> Mapping[str, Any] | None:
    """Find a session by external id, id, or id prefix. Raises AmbiguousSession."""
    if (id := as_uuid(reference)) is not None:
        return _get_session(server, id)
    matches = [each for each in _list_sessions(server, q=reference) if each.get("externalId") == reference]
    return _single(reference, matches) if matches else find_by_id_prefix(server, reference)


def find_by_id_prefix(server: Server, reference: str) -> Mapping[str, Any] | None:
    """Find a session by id prefix, which needs the list of all sessions. Raises AmbiguousSession."""
    if not may_be_id_prefix(reference):
        return None
    digits = _digits(reference)
    matches = [each for each in _list_sessions(server) if _digits(each["id"]).startswith(digits)]
    return _single(reference, matches)


def may_be_id_prefix(reference: str) -> bool:
    return re.fullmatch("[0-9a-f]{1,32}", _digits(reference)) is not None


def short_id(id: str) -> str:
    """Return an id prefix that is unique enough; the whole id if it starts with the time (version 7)."""
    return id if UUID(id).version == 7 else id[:8]


def as_uuid(text: str) -> str | None:
    try:
        return str(UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


def _default_url() -> str:
    return os.environ.get("ASH_URL") or f"http://127.0.0.1:{Settings.from_environment(os.environ).port}"


def _single(reference: str, matches: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if len(matches) > 1:
        raise AmbiguousSession(reference, list(map(Session.model_validate, matches)))
    return matches[0] if matches else None


def _digits(id: str) -> str:
    return id.replace("-", "").lower()


def _get_session(server: Server, id: str) -> Mapping[str, Any] | None:
    try:
        return dict(server.request("GET", f"/api/sessions/{id}"))
    except Refused as refused:
        if refused.code == "session_not_found":
            return None
        raise


def _list_sessions(server: Server, **filters: str) -> Iterator[Mapping[str, Any]]:
    query = {"limit": str(_SESSIONS_PAGE), **filters}
    while True:
        page = server.request("GET", f"/api/sessions?{urlencode(query, quote_via=quote)}")
        yield from page["sessions"]
        if "nextAfter" not in page:
            return
        query["after"] = page["nextAfter"]


def _encode(body: Any) -> bytes:
    # Undecodable bytes of the command line become invalid UTF-8, which the server rejects.
    return json.dumps(body, ensure_ascii=False).encode(errors="surrogateescape")


def _decode(response: HTTPResponse) -> Any:
    try:
        return json.loads(response.read())
    except ValueError as error:
        raise NotAsh from error


def _to_error(response: HTTPResponse) -> AshError:
    """Return the error of a response. A retryable status without a problem document may come from a proxy."""
    try:
        problem = json.loads(response.read())
    except ValueError:
        problem = None
    if isinstance(problem, dict) and "code" in problem:
        return Refused(response.status, problem)
    return Refused(response.status, {}) if response.status in RETRYABLE_STATUSES else NotAsh()
