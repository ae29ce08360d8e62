"""The time zone of the person at the terminal."""

import os
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_LOCALTIME = Path("/etc/localtime")
_NAME = Path("/etc/timezone")
_DATABASE = "zoneinfo/"


def local_zone_name(
    environ: Mapping[str, str] = os.environ, localtime: Path = _LOCALTIME, name: Path = _NAME
) -> str:
    """Return the IANA name of the local time zone: of TZ, else of the system, else UTC."""
    candidates = (environ.get("TZ", "").removeprefix(":"), _target(localtime), _text(name))
    return next((found for each in candidates if (found := _known(each)) is not None), "UTC")


def _target(link: Path) -> str:
    try:
        return str(link.resolve(strict=True))
    except OSError:
        return ""


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeError):
        return ""


def _known(place: str) -> str | None:
    """Return the name of a zone, which may be the path of its file."""
    name = place.rpartition(_DATABASE)[2]
    try:
        return ZoneInfo(name).key if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
