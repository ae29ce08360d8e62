"""Comparison of a replica with its primary: identity, timeline and position in the log."""

from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.store.statements import statements

SQL = statements(__file__)

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
        """Return the state from a row of `get_server_state`."""
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
    (row,) = await (await conn.execute(SQL.get_server_state)).fetchall()
    return ServerState.from_row(row)


async def has_reached(conn: AsyncConnection, session_id: UUID, known: Known) -> bool:
    """True if the session is stored here, with these sequences."""
    cursor = await conn.execute(SQL.has_reached, [session_id, *known])
    return cursor.rowcount > 0
