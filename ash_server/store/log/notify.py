"""Notifications that a session has changed, sent after the commit.

Subscribers read the rows; a notification only saves polling, so a late or lost one does no harm. One channel serves all
sessions.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from ash_server.store.connections.tenants import DEFAULT
from ash_server.store.statements import statements

CHANNEL = "ash_events"

_MAX_IDS = 200
"""Sessions in one notification; PostgreSQL limits its payload to less than 8,000 bytes."""

SQL = statements(__file__)


async def notify(
    conn: AsyncConnection, session_ids: Collection[UUID], sender: str = "-", tenant: int = DEFAULT.number
) -> None:
    """Notify other processes. `sender` names this one, which wakes its own subscribers directly.

    Needs a transaction of its own: send one after several writes, not one after each. Raises RuntimeError within
    another transaction, which would not wait for the disk either when it commits.
    """
    if conn.info.transaction_status != TransactionStatus.IDLE:
        raise RuntimeError("a notification needs a transaction of its own")
    names = list(map(str, session_ids))
    for start in range(0, len(names), _MAX_IDS):
        await conn.execute(
            SQL.notify, [CHANNEL, " ".join([f"{sender}/{tenant}", *names[start : start + _MAX_IDS]])]
        )


class Notification(NamedTuple):
    sender: str
    tenant: int
    """The number of the tenant of the sessions."""
    session_ids: list[UUID]


def read_notification(payload: str) -> Notification:
    """Raises ValueError for a foreign payload."""
    origin, *names = payload.split(" ")
    sender, _, tenant = origin.partition("/")
    return Notification(sender, int(tenant), list(map(UUID, names)))


class Last(NamedTuple):
    """The last sequence of a log, and its session's time of creation: a deleted session's id may be used again."""

    sequence: int
    created_at: datetime


async def last_sequences(conn: AsyncConnection, session_ids: Collection[UUID]) -> dict[UUID, Last]:
    """Return the last sequence of each session that exists, to find changes after a lost notification."""
    cursor = await conn.execute(SQL.last_sequences, [list(session_ids)], binary=True)
    return {row[0]: Last(*row[1:]) for row in await cursor.fetchall()}
