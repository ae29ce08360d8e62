"""The address of an OpenTelemetry backend, and the headers of its requests."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import rich_click as click

from ash_server.settings import is_loopback

_PATH = "/v1/traces"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"}
)
_VALUE = re.compile(r"[\x20-\x7e\t]*")


class Destination(NamedTuple):
    url: str
    """The address that receives traces."""
    headers: Mapping[str, str]
    """Secret: never shown or stored."""
    is_json: bool
    is_compressed: bool


def read_destination(
    url: str | None, headers: Iterable[str], environ: Mapping[str, str], *, is_http_allowed: bool
) -> Destination:
    """Return the backend in the options, or else in the variables that OpenTelemetry exporters read.

    Raises UsageError.
    """
    configured = _endpoint_in(environ)
    address = _traces_url(url) if url else configured
    if address is None:
        raise click.UsageError("Pass the URL of the backend, or set OTEL_EXPORTER_OTLP_ENDPOINT.")
    _check(address, is_http_allowed=is_http_allowed)
    # Headers in the environment contain the key of the backend in the environment: no other one receives them.
    is_configured = configured is None or _origin(configured) == _origin(address)
    own = _environment_headers(environ) if is_configured else {}
    return Destination(
        address,
        {**own, **_read_headers(headers, "--header")},
        is_json=_variable(environ, "PROTOCOL") == "http/json",
        is_compressed=_variable(environ, "COMPRESSION") != "none",
    )


def _variable(environ: Mapping[str, str], name: str) -> str | None:
    """Return the variable for traces, or else the one for all signals."""
    return environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}")


def is_same_server(one: str, other: str) -> bool:
    return _origin(one) == _origin(other)


def _endpoint_in(environ: Mapping[str, str]) -> str | None:
    traces, base = (environ.get(f"OTEL_EXPORTER_OTLP_{name}") for name in ("TRACES_ENDPOINT", "ENDPOINT"))
    return traces or (_traces_url(base) if base else None)


def _traces_url(url: str) -> str:
    base = url.rstrip("/")
    return base if base.endswith(_PATH) else base + _PATH


def _check(address: str, *, is_http_allowed: bool) -> None:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        raise click.UsageError("The URL of the backend is not valid.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError("The URL of the backend begins with https:// or http:// and a host.")
    if parts.username is not None or parts.query or parts.fragment:
        raise click.UsageError(
            "The URL of the backend has no user, query or fragment. Pass keys in OTEL_EXPORTER_OTLP_HEADERS."
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname) and not is_http_allowed:
        raise click.UsageError(
            f"http://{parts.netloc} is not encrypted and not on this machine. Use https, or pass --allow-http."
        )


def _origin(url: str) -> tuple[str, str, int | None]:
    parts: SplitResult = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, "localhost" if is_loopback(host) else host, port


def _environment_headers(environ: Mapping[str, str]) -> dict[str, str]:
    name = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
    name = name if environ.get(name) else "OTEL_EXPORTER_OTLP_HEADERS"
    items = filter(str.strip, environ.get(name, "").split(","))
    return _read_headers(map(unquote, items), name)


def _read_headers(items: Iterable[str], origin: str) -> dict[str, str]:
    """Return headers by their names in lower case. Raises UsageError, which never contains a value."""
    headers = {}
    for item in items:
        name, separator, value = item.partition("=")
        name = name.strip().lower()
        if not separator or not _NAME.fullmatch(name):
            raise click.UsageError(f"{origin}: a header is written KEY=VALUE.")
        if name in _OWN_HEADERS:
            raise click.UsageError(f"{origin}: {name} cannot be set; Ash does.")
        if not _VALUE.fullmatch(value):
            raise click.UsageError(
                f"{origin}: the value of {name} has characters that no header can contain."
            )
        headers[name] = value.strip()
    return headers
