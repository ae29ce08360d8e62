"""Settings from environment variables, else the file `.env` in the working directory, else secret files."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from ash_server.errors import AshError

READ_TIMEOUT = 30
"""Seconds that a statement of a request that reads may take, without ASH_STATEMENT_TIMEOUT."""


class SettingsError(AshError):
    status, code, title = 500, "invalid_setting", "A setting is invalid."


@dataclass(frozen=True)
class Settings:
    """One field per variable: `home` is `ASH_HOME`. Empty variables count as unset."""

    database_url: str | None = None
    """None means the embedded PostgreSQL in `home`."""
    direct_url: str | None = None
    """The address of PostgreSQL itself, if `database_url` points to a pooler in transaction mode."""
    read_url: str | None = None
    """A replica of the database for lists, pages, search, projections and exports."""
    home: Path = field(default_factory=lambda: Path.home() / ".ash")
    host: str = "127.0.0.1"
    port: int = 4100
    workers: int = 1
    """Processes that answer requests."""
    public_url: str | None = None
    """The address of a proxy in front of the server."""
    allow_unauthenticated: bool = False
    """Allow a `host` that other machines can reach without any key."""
    secret: str | None = field(default=None, repr=False)
    """The secret used to check keys. None means the file `secret` in `home`."""
    tenant: str = "default"
    """The tenant of commands that use the database directly."""
    max_message_bytes: int = 1024 * 1024
    max_body_bytes: int = 8 * 1024 * 1024
    log_level: str = "warning"
    """At `info`, the server logs each request."""
    log_format: str = "text"
    cors_origins: tuple[str, ...] = ()
    """Origins of other sites. Their pages may use the API with a key."""
    webhook_hosts: tuple[str, ...] = ()
    """Hosts of webhooks that may have private addresses."""
    rate_limit: float | None = None
    """Requests per second of each key, on average."""
    pool_size: int = 10
    """Connections of the server to the database for short operations."""
    statement_timeout: int | None = None
    """Seconds that a statement of the server may take. None: `READ_TIMEOUT` for requests that read, else no limit."""
    prepare_threshold: int | Literal["never"] | None = None
    """How often the server runs a statement before PostgreSQL keeps its plan. None means 5, or never with a pooler."""
    prices: Path | None = None
    """A file of one's own prices."""

    @classmethod
    def load(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Raises SettingsError."""
        return cls(**_parse({**_read_files(environ), **_variables(environ)}))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Like `load`, without files: clients run in any folder, and its `.env` may come from someone else."""
        return cls(**_parse(_variables(environ)))

    @property
    def public_host(self) -> str | None:
        """The host name of `public_url`, in lower case; an IPv6 address without brackets."""
        return urlsplit(self.public_url).hostname if self.public_url else None

    @cached_property
    def is_exposed(self) -> bool:
        """True if other machines can reach the server, itself or through a proxy."""
        return not is_loopback(self.host) or not is_loopback(self.public_host or "localhost")

    @property
    def is_of_one_user(self) -> bool:
        """True if the store is in the home of the user, and only this machine reaches the server."""
        return self.database_url is None and self.tenant == "default" and not self.is_exposed


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


def _variables(environ: Mapping[str, str]) -> Mapping[str, str]:
    texts = {name: environ.get(f"ASH_{name.upper()}") for name in _PARSERS}
    return {name: text for name, text in texts.items() if text}


def _parse(texts: Mapping[str, str]) -> dict[str, Any]:
    return {name: parse_setting(name, text) for name, text in texts.items()}


def _read_files(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings of secret files and of `.env`, which has priority."""
    texts: dict[str, str] = {}
    if folder := _secrets_folder(environ):
        texts.update(_read_from(folder, _read_secrets))
    if _DOTENV.is_file():
        texts.update(_read_from(_DOTENV, _read_dotenv))
    return texts


def _read_from(place: Path, read: Callable[[Path], Mapping[str, str | None]]) -> Mapping[str, str]:
    try:
        texts = read(place)
    except OSError as error:
        raise _unreadable(place, error.strerror or "") from error
    except UnicodeDecodeError as error:  # its message may quote a secret
        raise _unreadable(place, "they are not text in UTF-8") from error
    return _variables({name.upper(): text for name, text in texts.items() if text})


def _unreadable(place: Path, reason: str) -> SettingsError:
    return SettingsError(f"the settings in {place.absolute()} cannot be read: {reason}")


def _read_dotenv(path: Path) -> Mapping[str, str | None]:
    # Imported late: it takes as long as this module, and few commands run where there is such a file.
    from dotenv import dotenv_values

    return dotenv_values(path, encoding="utf-8")


def _read_secrets(folder: Path) -> Mapping[str, str]:
    """Read the files named after settings; others may be of other programs."""
    names = {f"ash_{name}" for name in _PARSERS}
    files = [path for path in folder.iterdir() if path.name.lower() in names and path.is_file()]
    return {path.name: path.read_text("utf-8").strip() for path in files}


def _secrets_folder(environ: Mapping[str, str]) -> Path | None:
    if folder := environ.get("ASH_SECRETS_DIR"):
        if not Path(folder).is_dir():
            raise SettingsError(
                "ASH_SECRETS_DIR must be a folder with a file for each secret, such as ash_secret."
            )
        return Path(folder)
    return _SECRETS if os.access(_SECRETS, os.R_OK | os.X_OK) else None


def parse_setting(name: str, text: str) -> Any:
    """Raises SettingsError."""
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


def _origins(text: str) -> tuple[str, ...]:
    """Return origins as browsers send them. `*` is refused: without keys, every page would read all sessions."""
    if "*" in text:
        raise ValueError(text)
    return tuple(_public_url(each.strip()).lower().removesuffix("/") for each in text.split(","))


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(each.strip().lower() for each in text.split(","))
    if not all(hosts) or any("/" in host or "*" in host for host in hosts):
        raise ValueError(text)
    return hosts


def _rate(text: str) -> float:
    if not 0.01 <= (rate := float(text)) <= 100_000:
        raise ValueError(text)
    return rate


def _threshold(text: str) -> int | str:
    return text if text == "never" else _integer(0, 1000)(text)


def usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _workers(text: str) -> int:
    return min(usable_cores(), _MAX_WORKERS) if text == "cores" else _integer(1, _MAX_WORKERS)(text)


def _one_of(*values: str) -> tuple[Callable[[str], str], str]:
    return dict(zip(values, values, strict=True)).__getitem__, f"{', '.join(values[:-1])} or {values[-1]}"


_MAX_WORKERS = 64
_BYTES = (_integer(1, 2**30), "a number of bytes from 1 to 1073741824")
_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "database_url": (_database_url, "a URL that starts with postgresql://"),
    "direct_url": (_database_url, "a URL that starts with postgresql://"),
    "read_url": (_database_url, "a URL that starts with postgresql://"),
    "home": (lambda text: Path(text).expanduser(), "a folder"),
    "host": (str, "a host name or address"),
    "port": (_integer(0, 65535), "a port from 0 to 65535"),
    "workers": (_workers, "a number of processes from 1 to 64, or cores"),
    "public_url": (_public_url, "a URL such as https://ash.example, without a path"),
    "secret": (str, "a text"),
    "tenant": (str, "the name of a tenant"),
    "allow_unauthenticated": ({"1": True, "0": False}.__getitem__, "1 or 0"),
    "max_message_bytes": _BYTES,
    "max_body_bytes": _BYTES,
    "log_level": _one_of("debug", "info", "warning", "error"),
    "log_format": _one_of("text", "json"),
    "cors_origins": (_origins, "origins such as https://app.example, separated by commas"),
    "webhook_hosts": (_hosts, "host names, separated by commas"),
    "rate_limit": (_rate, "a number of requests per second from 0.01 to 100000"),
    "pool_size": (_integer(3, 1000), "a number of connections from 3 to 1000"),
    "statement_timeout": (_integer(1, 86400), "a number of seconds from 1 to 86400"),
    "prepare_threshold": (_threshold, "a number of executions from 0 to 1000, or never"),
    "prices": (lambda text: Path(text).expanduser(), "a file"),
}

_DOTENV = Path(".env")
_SECRETS = Path("/run/secrets")
"""Where containers have their secret files."""
