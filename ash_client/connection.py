"""Options of the connection, and translation of errors, for both clients."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx2
from pydantic_core import from_json

from ash_client.errors import NO_ANSWER, ApiError, answer_error
from ash_client.machine import MACHINE_HEADER, machine_name
from ash_client.own_writes import OwnWrites
from ash_client.requests import Request
from ash_client.server_events import ServerEvent

TIMEOUT_SECONDS = 30.0
SILENCE_SECONDS = 45.0
"""Seconds without even a heartbeat after which a stream is considered lost."""

_MAX_PORT = 65535
_KEEPALIVE_SECONDS = 2.0
"""Less than the time after which servers close idle connections, so that few requests meet a closed one."""

_DEFAULT_PORT = "4100"


def from_environment(environ: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the server's address (default: the server on this machine) and the key. Raises ApiError."""
    url = environ.get("ASH_URL") or local_url(environ.get("ASH_PORT") or _DEFAULT_PORT)
    return url, environ.get("ASH_KEY") or None


def local_url(port: int | str) -> str:
    """Return the address of a server on this machine. Raises ApiError if `port` is not a port number."""
    try:
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number <= _MAX_PORT:
        raise ApiError("bad_address", f"ASH_PORT must be a number from 0 to {_MAX_PORT}.", was_sent=False)
    return f"http://127.0.0.1:{number}"


def check_url(url: str) -> str:
    """Return the URL without a trailing slash. Raises ApiError."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ApiError(
            "bad_address",
            f"{url!r} is not a server address, which starts with http:// or https://",
            was_sent=False,
        )
    return url.rstrip("/")


def options(url: str, key: str | None) -> dict[str, Any]:
    """Return the arguments of a client. Requests to this machine never take a proxy of the environment."""
    address, machine = urlsplit(url), machine_name()
    authorization = {} if key is None else {"Authorization": f"Bearer {key}"}
    return {
        "headers": authorization if machine is None else {**authorization, MACHINE_HEADER: machine},
        "timeout": TIMEOUT_SECONDS,
        "limits": httpx2.Limits(keepalive_expiry=_KEEPALIVE_SECONDS),
        "trust_env": not _is_loopback(address.hostname or ""),
        "verify": _tls(address.scheme),
    }


def arguments(
    url: str, request: Request[Any], written: OwnWrites, accept: str, silence: float
) -> dict[str, Any]:
    """Return the arguments of `stream`, of either client. `url` is the address of the server."""
    return {
        "method": request.method,
        "url": _parse_url(url + request.path),
        "params": request.params or None,
        "content": request.body,
        # Exports and streams are forwarded as they arrive.
        "headers": {
            **request.headers,
            **written.headers(request),
            "Accept": accept,
            "Accept-Encoding": "identity",
        },
        "timeout": httpx2.Timeout(TIMEOUT_SECONDS, read=silence),
    }


@lru_cache(maxsize=256)
def _parse_url(url: str) -> httpx2.URL:
    """Parse a URL once: each append to a session has the same."""
    return httpx2.URL(url)


@contextmanager
def translated_errors(url: str) -> Iterator[None]:
    """Raise ApiError instead of the errors of httpx2."""
    try:
        yield
    except httpx2.TransportError as error:
        was_sent = not isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
        reason = str(error) or type(error).__name__
        message = f"{url} does not answer: {reason}"
        raise ApiError(NO_ANSWER, reason, message=message, was_sent=was_sent) from error


def to_error(response: httpx2.Response, body: bytes) -> ApiError:
    return answer_error(response.status_code, response.headers, body)


def closed(url: str, event: ServerEvent | None = None) -> ApiError:
    """Return the error for a stream that the server closed; the last event says whether the key was the reason."""
    reason = {} if event is None else from_json(event.data)
    if str(reason.get("code")).startswith("key_"):
        return ApiError(reason["code"], reason["detail"], status=HTTPStatus.UNAUTHORIZED, problem=reason)
    return ApiError(
        NO_ANSWER, "the connection was closed", message=f"{url} does not answer: it closed the connection"
    )


@cache
def _tls(scheme: str) -> ssl.SSLContext:
    """Return the TLS context. Certificates are read once, and only for https: that takes 20 ms."""
    return httpx2.create_ssl_context() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
