"""A store of this process with the methods and errors of the client of a server."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack
from uuid import UUID

from ash_client import ApiError, MessageToAppend
from ash_client.requests import MessageQuery, NewSessionFields, SessionId, SessionQuery
from ash_server import NewMessage, Store
from ash_server.errors import AshError
from ash_shared.model.message import Message
from ash_shared.model.pages import AppendedMessage
from ash_shared.model.session import Session

_PAGE_SIZE = 1000


class StoreClient:
    """The methods of `AsyncAshClient` that the adapters use, on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def sessions(self, **query: Unpack[SessionQuery]) -> AsyncGenerator[Session, None]:
        filters: Any = dict(query)
        while True:
            with _api_errors():
                page = await self._store.sessions.list_sessions(**filters)
            for session in page.sessions:
                yield session
            if page.next_after is None:
                return
            filters["after"] = page.next_after

    async def get_session(self, session: SessionId) -> Session:
        with _api_errors():
            return await self._store.sessions.get(_uuid(session))

    async def create_session(self, **fields: Unpack[NewSessionFields]) -> Session:
        named: Any = fields
        with _api_errors():
            return await self._store.sessions.create(**named)

    async def delete_session(self, session: SessionId) -> None:
        with _api_errors():
            await self._store.sessions.delete(_uuid(session))

    async def commit(
        self,
        session: SessionId,
        messages: Iterable[MessageToAppend] = (),
        *,
        metadata: Mapping[str, Any] | None = None,
        expected_sequence: int | None = None,
    ) -> list[AppendedMessage]:
        new = [NewMessage(**message) for message in messages]
        with _api_errors():
            appended = await self._store.messages.append(
                _uuid(session), new, metadata=metadata, expected_sequence=expected_sequence
            )
        return [AppendedMessage(**each._asdict()) for each in appended]

    async def messages(
        self, session: SessionId, **query: Unpack[MessageQuery]
    ) -> AsyncGenerator[Message, None]:
        """Yield the messages without typed blocks."""
        kinds: Any = query.get("kind", "message,record").split(",")
        after = query.get("after", 0)
        while True:
            with _api_errors():
                page = await self._store.messages.list_messages(
                    _uuid(session), after=after, limit=_PAGE_SIZE, kinds=kinds
                )
            for stored in page:
                after = stored.sequence
                yield _to_message(_uuid(session), stored)
            if not page:
                return


def _uuid(session: SessionId) -> UUID:
    return session if isinstance(session, UUID) else UUID(session)


def _to_message(session: UUID, stored: Any) -> Message:
    return Message(
        id=stored.id,
        session_id=str(session),
        role=stored.role,
        kind=stored.kind,
        source=stored.source,
        content=stored.content,
        sequence=stored.sequence,
        created_at=stored.created_at,
    )


@contextmanager
def _api_errors() -> Iterator[None]:
    """Raise ApiError instead of the errors of the store."""
    try:
        yield
    except AshError as error:
        problem = {"index": error.index, **error.extra}
        raise ApiError(error.code, str(error), status=error.status, problem=problem) from error
