"""Places in lists: the sort key of a list, and cursors as opaque texts."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from ash_server.errors import InvalidParameter
from ash_server.store.statements import Sql

ACTIVITY = Sql("least(coalesce(last_at, file_modified_at), updated_at)")
"""The time of the last activity of a session, as `active_at` computes it."""


def to_cursor(*values: str) -> str:
    """Return a cursor of values without spaces."""
    return urlsafe_b64encode(" ".join(values).encode()).decode()


def read_cursor(cursor: str, items: str) -> list[str]:
    """Return the values of a cursor. `items` is the plural of the listed thing. Raises InvalidParameter."""
    try:
        return urlsafe_b64decode(cursor).decode().split(" ")
    except ValueError:
        raise not_a_cursor(items) from None


def not_a_cursor(items: str) -> InvalidParameter:
    return InvalidParameter(f"after is not the cursor of a list of {items}")
