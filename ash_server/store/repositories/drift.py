"""Unknown and malformed blocks of all sessions."""

from datetime import datetime

from ash_server.store import drift
from ash_server.store.borrowed import Connections
from ash_server.store.drift import DriftReport, Reason


class DriftRepository:
    """Reports unknown and malformed blocks of stored messages."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def report(
        self,
        *,
        source: str | None = None,
        reason: Reason | None = None,
        since: datetime | None = None,
        limit: int = 100,
    ) -> DriftReport:
        """Return groups by source, client version and type, last seen first. Raises InvalidParameter."""
        async with self._connections.connection() as conn:
            return await drift.report_drift(conn, source=source, reason=reason, since=since, limit=limit)
