"""How far a replica has followed the primary."""

from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

_POSITION = """
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
        - '0/0'::pg_lsn
"""

_HAS_REACHED = """
    SELECT FROM session_counters
    WHERE session_id = %b AND message_sequence >= %b AND event_sequence >= %b
"""


class Known(NamedTuple):
    """Sequences of a session that a reader knows of, and which its next answer must include."""

    messages: int = 0
    events: int = 0


async def wal_position(conn: AsyncConnection) -> int:
    """Return the position in the write-ahead log up to which this server has written, or a replica has replayed."""
    row = await (await conn.execute(_POSITION)).fetchone()
    return int(row[0]) if row and row[0] is not None else 0


async def has_reached(conn: AsyncConnection, session_id: UUID, known: Known) -> bool:
    """True if the session is stored here, with these sequences."""
    cursor = await conn.execute(_HAS_REACHED, [session_id, *known])
    return cursor.rowcount > 0
