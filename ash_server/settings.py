"""What the environment says about how Ash runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from ash_server.errors import AshError


class SettingsError(AshError):
    status, code, title = 500, "invalid_setting", "A setting has a value it cannot have."


@dataclass(frozen=True)
class Settings:
    """One field per variable of the environment: `home` is `ASH_HOME`. Empty variables count as unset."""

    database_url: str | None = None
    """None means the embedded PostgreSQL below `home`."""
    home: Path = field(default_factory=lambda: Path.home() / ".ash")
    host: str = "127.0.0.1"
    port: int = 4100
    allow_unauthenticated: bool = False
    """Whether to serve everyone who can reach `host` when that is not this machine alone."""
    max_message_bytes: int = 1024 * 1024
    max_body_bytes: int = 8 * 1024 * 1024

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        given = {name: environ.get(f"ASH_{name.upper()}") for name in _READERS}
        return cls(**{name: _read(name, text) for name, text in given.items() if text})


def check_exposure(settings: Settings) -> None:
    """Raises SettingsError where strangers could reach a server that asks nobody for a key."""
    if not is_loopback(settings.host) and not settings.allow_unauthenticated:
        raise SettingsError(
            f"ASH_HOST={settings.host} lets other machines reach Ash, and Ash does not ask them for a key. "
            "Set ASH_ALLOW_UNAUTHENTICATED=1 if something in front of it does, or leave ASH_HOST out."
        )


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(name: str, text: str) -> Any:
    read, expected = _READERS[name]
    try:
        return read(text)
    except (ValueError, KeyError) as error:
        # Without the value: an address of a database may hold a password.
        raise SettingsError(f"ASH_{name.upper()} must be {expected}.") from error


def _between(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not low <= (number := int(text)) <= high:
            raise ValueError(text)
        return number

    return read


def _database_url(text: str) -> str:
    if text.partition("://")[0] not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ValueError(text)
    return text


_BYTES = (_between(1, 2**30), "a number of bytes from 1 to 1073741824")
_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "database_url": (_database_url, "an address that begins with postgresql://"),
    "home": (lambda text: Path(text).expanduser(), "a folder"),
    "host": (str, "a host"),
    "port": (_between(0, 65535), "a port from 0 to 65535"),
    "allow_unauthenticated": ({"1": True, "0": False}.__getitem__, "1 or 0"),
    "max_message_bytes": _BYTES,
    "max_body_bytes": _BYTES,
}
