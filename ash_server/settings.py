"""Settings from environment variables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from ash_server.errors import AshError


class SettingsError(AshError):
    status, code, title = 500, "invalid_setting", "A setting is invalid."


@dataclass(frozen=True)
class Settings:
    """One field per environment variable: `home` is `ASH_HOME`. Empty variables count as unset."""

    database_url: str | None = None
    """None means the embedded PostgreSQL in `home`."""
    home: Path = field(default_factory=lambda: Path.home() / ".ash")
    host: str = "127.0.0.1"
    port: int = 4100
    public_url: str | None = None
    """The address of a proxy in front of the server."""
    allow_unauthenticated: bool = False
    """Allow a `host` that other machines can reach without any key."""
    secret: str | None = field(default=None, repr=False)
    """The secret with which keys are checked. None means the file `secret` in `home`."""
    tenant: str = "default"
    """The tenant of commands that use the database directly."""
    max_message_bytes: int = 1024 * 1024
    max_body_bytes: int = 8 * 1024 * 1024
    log_level: str = "warning"
    """At `info`, the server logs each request."""
    log_format: str = "text"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        values = {name: environ.get(f"ASH_{name.upper()}") for name in _PARSERS}
        return cls(**{name: _parse_setting(name, text) for name, text in values.items() if text})

    @property
    def public_host(self) -> str | None:
        """The host name of `public_url`, in lower case; an IPv6 address without brackets."""
        return urlsplit(self.public_url).hostname if self.public_url else None

    @property
    def is_exposed(self) -> bool:
        """True if other machines can reach the server, itself or through a proxy."""
        return not is_loopback(self.host) or not is_loopback(self.public_host or "localhost")


def check_exposure(settings: Settings, *, has_keys: bool) -> None:
    """Raise SettingsError if other machines can reach a server that answers without a key."""
    if settings.is_exposed and not (has_keys or settings.allow_unauthenticated):
        name = "ASH_PUBLIC_URL" if is_loopback(settings.host) else "ASH_HOST"
        value = settings.public_url if is_loopback(settings.host) else settings.host
        raise SettingsError(
            f"{name}={value} lets other machines reach Ash, which has no keys yet. "
            f"Create the first one with `ash keys create NAME`, or unset {name}. "
            "Set ASH_ALLOW_UNAUTHENTICATED=1 only if a proxy in front of it authenticates clients."
        )


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parse_setting(name: str, text: str) -> Any:
    parse, expected = _PARSERS[name]
    try:
        return parse(text)
    except (ValueError, KeyError) as error:
        # The value is omitted: a database URL may contain a password.
        raise SettingsError(f"ASH_{name.upper()} must be {expected}.") from error


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not low <= (number := int(text)) <= high:
            raise ValueError(text)
        return number

    return parse


def _database_url(text: str) -> str:
    if text.partition("://")[0] not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ValueError(text)
    return text


def _public_url(text: str) -> str:
    url = urlsplit(text)
    has_only_origin = url.path in ("", "/") and not (url.query or url.fragment or url.username)
    if url.scheme not in ("http", "https") or not url.hostname or not has_only_origin:
        raise ValueError(text)
    return text


def _one_of(*values: str) -> tuple[Callable[[str], str], str]:
    return dict(zip(values, values, strict=True)).__getitem__, f"{', '.join(values[:-1])} or {values[-1]}"


_BYTES = (_integer(1, 2**30), "a number of bytes from 1 to 1073741824")
_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "database_url": (_database_url, "a URL that starts with postgresql://"),
    "home": (lambda text: Path(text).expanduser(), "a folder"),
    "host": (str, "a host name or address"),
    "port": (_integer(0, 65535), "a port from 0 to 65535"),
    "public_url": (_public_url, "a URL such as https://ash.example, without a path"),
    "secret": (str, "a text"),
    "tenant": (str, "the name of a tenant"),
    "allow_unauthenticated": ({"1": True, "0": False}.__getitem__, "1 or 0"),
    "max_message_bytes": _BYTES,
    "max_body_bytes": _BYTES,
    "log_level": _one_of("debug", "info", "warning", "error"),
    "log_format": _one_of("text", "json"),
}
