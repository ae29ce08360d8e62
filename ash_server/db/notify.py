"""The hint that a session has grown: sent after the commit, so that it can only ever be late, never wrong.

Who follows a session reads the rows; the hint spares it the asking. One channel serves all sessions.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

CHANNEL = "ash_events"

_AT_ONCE = 200
"""Sessions in one notification, of which PostgreSQL takes less than 8,000 bytes."""

_NOTIFY = "SELECT pg_notify(%s, %s)"

_LASTS = """
    SELECT session_id, event_sequence, created_at
    FROM session_counters JOIN sessions ON id = session_id
    WHERE session_id = ANY(%b)
"""


async def notify(conn: AsyncConnection, session_ids: Collection[UUID], sender: str = "-") -> None:
    """`sender` names the process, which has woken its own readers by itself.

    A transaction of its own, with all that a commit costs: worth one after several writes, not one after each.
    """
    names = list(map(str, session_ids))
    for start in range(0, len(names), _AT_ONCE):
        await conn.execute(_NOTIFY, [CHANNEL, " ".join([sender, *names[start : start + _AT_ONCE]])])


def read_notification(payload: str) -> tuple[str, list[UUID]]:
    """The sender and the sessions of a notification. Raises ValueError for what Ash did not send."""
    sender, *names = payload.split(" ")
    return sender, list(map(UUID, names))


class Last(NamedTuple):
    """How far a log goes, and of which session it is: one may be made anew under the id of one that was deleted."""

    sequence: int
    created_at: datetime


async def last_sequences(conn: AsyncConnection, session_ids: Collection[UUID]) -> dict[UUID, Last]:
    """Of the log of each session that there is: what a lost hint would have told."""
    found = await conn.execute(_LASTS, [list(session_ids)], binary=True)
    return {row[0]: Last(*row[1:]) for row in await found.fetchall()}
