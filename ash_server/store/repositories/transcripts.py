"""Imported transcripts: their sessions by the names in them, and copies in other sessions."""

from collections.abc import Collection, Sequence
from uuid import UUID

from ash_server.store import transcripts
from ash_server.store.borrowed import Connections
from ash_server.store.own_prompts import name_by_own_prompt
from ash_server.store.transcripts import Claim, Copy, Relative, TranscriptNames


class TranscriptRepository:
    """The identity of imported transcripts, for imports."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def claim(
        self, names: TranscriptNames, source: str, path: str, rejected: Collection[UUID]
    ) -> Claim:
        """Return a session to compare with the file, other than the rejected ones; without any, create one.

        Of concurrent callers with one transcript, exactly one creates a session.
        """
        async with self._connections.changes() as conn:
            return await transcripts.claim(conn, names, source, path, rejected)

    async def find_candidate(
        self, names: TranscriptNames, source: str, path: str, rejected: Collection[UUID]
    ) -> Claim | None:
        """Like `claim`, but create no session."""
        async with self._connections.connection() as conn:
            return await transcripts.find_candidate(conn, names, source, path, rejected)

    async def set_names(self, session_id: UUID, path: str, lineage: Sequence[str] | None = None) -> None:
        """Store where the file was seen last, and the names in it."""
        async with self._connections.changes() as conn:
            await transcripts.set_names(conn, session_id, path, lineage)

    async def adopt(self, session_id: UUID, lineage: Sequence[str] | None) -> None:
        """Store the names of a session that has none yet."""
        async with self._connections.changes() as conn:
            await transcripts.adopt(conn, session_id, lineage)

    async def replace_parent(self, old: UUID, new: UUID) -> None:
        """Change the parent of all sessions that name the old one."""
        async with self._connections.changes() as conn:
            await transcripts.replace_parent(conn, old, new)

    async def list_relatives(self, session_id: UUID) -> list[Relative]:
        """Return the session and those that have a name in common with it, originals before their copies."""
        async with self._connections.connection() as conn:
            return await transcripts.list_relatives(conn, session_id)

    async def set_copy(self, session_id: UUID, copy: Copy | None) -> None:
        """Mark a session as a copy or a fork, or remove the mark."""
        async with self._connections.changes() as conn:
            await transcripts.set_copy(conn, session_id, copy)
            await name_by_own_prompt(conn, session_id)

    async def count_imported(self, source: str, paths: Sequence[str]) -> int:
        """Return how many of the transcripts at these paths are stored."""
        async with self._connections.connection() as conn:
            return await transcripts.count_imported(conn, source, paths)
