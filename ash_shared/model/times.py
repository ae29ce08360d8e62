"""Times of events: milliseconds since 1970."""

from datetime import UTC, datetime

YEAR_10000 = 253_402_300_800_000
"""The first time that `datetime` cannot express."""


def datetime_of(milliseconds: int | None) -> datetime | None:
    """Return the time; None if it is unknown or too late."""
    if milliseconds is None or milliseconds >= YEAR_10000:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
