"""The hint that a session has grown: sent after the commit, so that it can only ever be late, never wrong.

Who follows a session reads the rows; the hint spares it the asking. One channel serves all sessions.
"""

from collections.abc import Collection
from uuid import UUID

from psycopg import AsyncConnection

CHANNEL = "ash_events"

_AT_ONCE = 200
"""Sessions in one notification, of which PostgreSQL takes less than 8,000 bytes."""

_NOTIFY = "SELECT pg_notify(%s, %s)"


async def notify(conn: AsyncConnection, session_ids: Collection[UUID], sender: str = "") -> None:
    """`sender` names the process, which has woken its own readers by itself."""
    names = list(map(str, session_ids))
    for start in range(0, len(names), _AT_ONCE):
        await conn.execute(_NOTIFY, [CHANNEL, " ".join([sender or "-", *names[start : start + _AT_ONCE]])])


def told(payload: str) -> tuple[str, list[UUID]]:
    """The sender and the sessions of a notification. Raises ValueError for what Ash did not send."""
    sender, *names = payload.split(" ")
    return sender, list(map(UUID, names))
