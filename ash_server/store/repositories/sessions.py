"""Sessions: create, find, change and delete."""

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from datetime import datetime
from typing import Unpack
from uuid import UUID

from ash_server.errors import SessionNotFound
from ash_server.store import sessions
from ash_server.store.borrowed import Connections
from ash_server.store.connections.replication import Known, has_reached
from ash_server.store.maintenance import reindex
from ash_server.store.sessions import AmbiguousSession, Created, SessionChanges, SessionFields, SessionFilter
from ash_shared.model.session import Session, SessionPage


class SessionRepository:
    """Conversations, without their messages."""

    def __init__(self, connections: Connections, wake: Callable[[UUID], None]) -> None:
        self._connections = connections
        self.tenant = connections.tenant
        self._wake = wake

    async def create(self, **fields: Unpack[SessionFields]) -> Session:
        """Create a session, or return the existing one.

        With an `external_id` the session's id is computed from `source` and `external_id`, so repeating the call
        returns the same session, unchanged. Without one each call creates another session. Raises NulByte,
        InvalidUtf8, InvalidParameter.
        """
        return (await self.get_or_create(**fields)).session

    async def get_or_create(self, **fields: Unpack[SessionFields]) -> Created:
        """Like `create`, and report whether the session is new. Of concurrent callers exactly one creates it."""
        async with self._connections.changes() as conn:
            result = await sessions.create_session(conn, **fields)
        if result.created:
            self._wake(result.session.id)
        return result

    async def get(self, session_id: UUID) -> Session:
        """Raises SessionNotFound."""
        async with self._connections.connection() as conn:
            return await sessions.get_session(conn, session_id)

    async def has_reached(self, session_id: UUID, known: Known) -> bool:
        """True if the session is stored with these sequences: a replica may lag."""
        async with self._connections.connection() as conn:
            return await has_reached(conn, session_id, known)

    async def get_many(self, session_ids: Collection[UUID]) -> list[Session]:
        """Return the sessions with these ids, in no particular order; unknown ids are skipped."""
        async with self._connections.connection() as conn:
            return await sessions.get_sessions(conn, session_ids)

    async def existing_ids(self, session_ids: Sequence[UUID]) -> set[UUID]:
        """Return the ids that belong to a stored session."""
        async with self._connections.connection() as conn:
            return await sessions.existing_ids(conn, session_ids)

    async def list_sessions(self, **filters: Unpack[SessionFilter]) -> SessionPage:
        """Return a page of sessions, most recent activity first; `next_after` is the cursor of the next page.

        Raises InvalidParameter for a limit outside 1 to 1,000 or an unknown cursor.
        """
        async with self._connections.connection() as conn:
            return await sessions.list_sessions(conn, **filters)

    async def list_all(self) -> AsyncGenerator[Session, None]:
        """Yield every session, most recent activity first."""
        after: str | None = None
        while True:
            page = await self.list_sessions(after=after, limit=1000)
            for session in page.sessions:
                yield session
            if page.next_after is None:
                return
            after = page.next_after

    async def list_ids(self) -> AsyncGenerator[UUID, None]:
        """Yield the id of every session in ascending order; unlike `list_all`, activity does not change the order."""
        last = UUID(int=0)
        while True:
            async with self._connections.connection() as conn:
                ids = await reindex.next_session_ids(conn, last)
            if not ids:
                return
            for last in ids:
                yield last

    async def list_changed(self) -> dict[UUID, datetime]:
        """Return the sessions changed within the last 10 seconds and the time of the change."""
        async with self._connections.connection() as conn:
            return await sessions.recent_sessions(conn)

    async def find(self, reference: str) -> list[Session]:
        """Return the sessions that match a reference typed by a person, at most 20.

        A reference is an external id, else an id or id prefix, else the provider's session id.
        """
        async with self._connections.connection() as conn:
            return await sessions.find_sessions(conn, reference)

    async def find_one(self, reference: str) -> Session:
        """Return the only session that `find` returns. Raises SessionNotFound, AmbiguousSession."""
        matches = await self.find(reference)
        if not matches:
            raise SessionNotFound(f"no session matches {reference!r}")
        if len(matches) > 1:
            raise AmbiguousSession.named(reference, matches)
        return matches[0]

    async def update(self, session_id: UUID, **changes: Unpack[SessionChanges]) -> Session:
        """Change the title, or replace the metadata as a whole. Raises SessionNotFound."""
        async with self._connections.changes() as conn:
            session = await sessions.update_session(conn, session_id, **changes)
        self._wake(session_id)
        return session

    async def set_file_time(self, session_id: UUID, modified_at: datetime, *, has_grown: bool) -> None:
        """Store when the imported file was modified; without new lines, the earliest time is kept."""
        async with self._connections.changes() as conn:
            await sessions.set_file_time(conn, session_id, modified_at, has_grown=has_grown)

    async def set_parent(self, session_id: UUID, parent_id: UUID, external_id: str | None = None) -> None:
        """Link the session to the one it was started from, unless it has a parent.

        The parent need not be stored: until it is, the session shows its external id.
        """
        async with self._connections.changes() as conn:
            await sessions.set_parent(conn, session_id, parent_id, external_id)

    async def delete(self, session_id: UUID, *, expected_sequence: int | None = None) -> None:
        """Delete the session with its messages and events; subscriptions to it end.

        `expected_sequence` must be the last sequence of the session. Raises SessionNotFound, SequenceMismatch.
        """
        async with self._connections.changes() as conn:
            await sessions.delete_session(conn, session_id, expected_sequence=expected_sequence)
        self._wake(session_id)

    async def list_tree(self, session_id: UUID) -> list[UUID]:
        """Return the ids of the session and of the stored sessions of its subagents, at any depth."""
        async with self._connections.connection() as conn:
            return [each.id for each in await sessions.get_tree(conn, session_id)]

    async def recreate(self, session_id: UUID, *, source: str, external_id: str) -> Session:
        """Replace the session by an empty one with the same id, parent and metadata, and the title set by a person.

        Two transactions: if the second fails, the session is deleted. Raises SessionNotFound.
        """
        async with self._connections.writer(session_id) as conn:
            fields = await sessions.get_writer_fields(conn, session_id)
            await sessions.delete_session(conn, session_id)
            named: SessionFields = {**fields, "source": source, "external_id": external_id}
            session = (await sessions.create_session(conn, **named)).session
        self._wake(session_id)
        return session

    async def is_unterminated(self, session_id: UUID) -> bool:
        """True if the imported file had no final newline. Raises SessionNotFound."""
        async with self._connections.connection() as conn:
            return await sessions.is_unterminated(conn, session_id)

    async def set_unterminated(
        self, session_id: UUID, unterminated: bool, last_message: str | None = None
    ) -> None:
        """Raises SessionNotFound. With `last_message`, nothing changes unless this is the id of the last message."""
        async with self._connections.changes() as conn:
            await sessions.set_unterminated(conn, session_id, unterminated, last_message)
