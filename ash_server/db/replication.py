"""Whether a server is a replica of another one, and how far it has followed."""

from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from psycopg import AsyncConnection

# The timeline grows when a replica is promoted. A replica knows the one of its last restart point, and the one of the
# log that it receives, which only superusers and members of pg_read_all_stats see.
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
    "promoted": "it is no replica, or was promoted: it accepts writes of its own",
    "system": "it is a replica of another database server",
    "timeline": "it does not follow the present primary: its history is that of another one",
}


class ServerState(NamedTuple):
    """The place of a server in the history of a database."""

    is_replica: bool
    system: int
    """The identifier that a primary and its replicas share."""
    timeline: int
    position: int
    """Where in the write-ahead log it writes, or how far it has replayed the log, in bytes."""

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> "ServerState":
        """Return the state from a row of `SELECT_STATE`."""
        is_replica, system, timeline, position = row
        return cls(is_replica, int(system), int(timeline), int(position))

    def mismatch(self, primary: "ServerState") -> Mismatch | None:
        """Return why this is no replica of the primary. Positions can be compared only if it is one."""
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
