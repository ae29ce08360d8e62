"""Time zones by their IANA names."""

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ash_server.errors import InvalidParameter


def zone_of(name: str) -> ZoneInfo:
    """Raises InvalidParameter."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidParameter("The time zone is not an IANA name, such as Europe/Berlin.") from None


def in_zone(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment; in this zone, if it has none."""
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
