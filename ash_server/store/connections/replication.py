"""Comparison of a replica with its primary: identity, timeline and position in the log."""

from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from psycopg import AsyncConnection

# The timeline increases when a replica is promoted. A replica knows the timeline of its last restart point, and of the
# log that it receives; only superusers and members of pg_read_all_stats can read the latter.
SELECT_STATE = """
    SELECT pg_is_in_recovery(), system_identifier,
        CASE WHEN pg_is_in_recovery() THEN greatest(
            (SELECT timeline_id FROM pg_control_checkpoint()),
            (SELECT min_recovery_end_timeline FROM pg_control_recovery()),
            (SELECT received_tli FROM pg_stat_wal_receiver)
        ) ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END,
        coalesce(
            CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0'::pg_lsn,
            0
        )
    FROM pg_control_system()
"""

_HAS_REACHED = """
    SELECT FROM session_counters
    WHERE session_id = %b AND message_sequence >= %b AND event_sequence >= %b
"""

Mismatch: TypeAlias = Literal["promoted", "system", "timeline"]

MISMATCHES: dict[Mismatch, str] = {
    "promoted": "it accepts writes: it was promoted, or never was a replica",
    "system": "it is a replica of another database server",
    "timeline": "it follows another primary, because one of the two was promoted",
}


class ServerState(NamedTuple):
    """The identity and log position of a server."""

    is_replica: bool
    system: int
    """The system identifier, which a primary and its replicas share."""
    timeline: int
    position: int
    """The position in the write-ahead log, in bytes: the end of a primary's log, or the end of the replayed part."""

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> "ServerState":
        """Return the state from a row of `SELECT_STATE`."""
        is_replica, system, timeline, position = row
        return cls(is_replica, int(system), int(timeline), int(position))

    def mismatch(self, primary: "ServerState") -> Mismatch | None:
        """Return the reason why this is not a replica of the primary, if any: its position then means nothing."""
        if not self.is_replica:
            return "promoted"
        if self.system != primary.system:
            return "system"
        return None if self.timeline == primary.timeline else "timeline"


class Known(NamedTuple):
    """Sequences of a session that a reader knows of, and which its next answer must include."""

    messages: int = 0
    events: int = 0


async def read_state(conn: AsyncConnection) -> ServerState:
    (row,) = await (await conn.execute(SELECT_STATE)).fetchall()
    return ServerState.from_row(row)


async def has_reached(conn: AsyncConnection, session_id: UUID, known: Known) -> bool:
    """True if the session is stored here, with these sequences."""
    cursor = await conn.execute(_HAS_REACHED, [session_id, *known])
    return cursor.rowcount > 0
