"""A local store with the methods and errors of the client."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Unpack
from uuid import UUID

from ash_client import ApiError, MessageToAppend
from ash_client.requests import MessageQuery, NewSessionFields, SessionId, SessionQuery
from ash_server import NewMessage, Store
from ash_server.errors import AshError
from ash_server.store.message_pages import StoredMessage
from ash_server.store.pagination import may_have_more
from ash_shared.model.keywords import check_keywords
from ash_shared.model.message import Message
from ash_shared.model.pages import DifferentText, MessageComparison, MessagePage
from ash_shared.model.session import Session
from ash_stores.connection import MessagePlace
from ash_stores.text_pages import ALL_KINDS, PAGE_SIZE, TextOnPage, TextPage


class StoreClient:
    """The methods of `AsyncAshClient` that the adapters use, on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def sessions(self, **query: Unpack[SessionQuery]) -> AsyncGenerator[Session, None]:
        check_keywords("sessions", query, SessionQuery)
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
        check_keywords("create_session", fields, NewSessionFields)
        named: Any = fields
        with _api_errors():
            return await self._store.sessions.create(**named)

    async def delete_session(self, session: SessionId, *, expected_sequence: int | None = None) -> None:
        with _api_errors():
            await self._store.sessions.delete(_uuid(session), expected_sequence=expected_sequence)

    async def compare_messages(self, session: SessionId, contents: Mapping[str, bytes]) -> MessageComparison:
        digests = {id: sha256(content).digest() for id, content in contents.items()}
        with _api_errors():
            equal, deleted, different = await self._store.messages.compare_contents(_uuid(session), digests)
        stored = None if different is None else DifferentText(id=different[0], content=different[1])
        return MessageComparison(equal=equal, deleted=deleted or None, different=stored)

    async def commit(
        self,
        session: SessionId,
        messages: Iterable[MessageToAppend] = (),
        *,
        metadata: Mapping[str, Any] | None = None,
        expected_sequence: int | None = None,
    ) -> Sequence[MessagePlace]:
        new = [NewMessage(**message) for message in messages]
        with _api_errors():
            return await self._store.messages.append(
                _uuid(session), new, metadata=metadata, expected_sequence=expected_sequence
            )

    async def list_messages(self, session: SessionId, **query: Unpack[MessageQuery]) -> MessagePage:
        """Return a page without typed blocks."""
        id, (rows, next_after, prev_before) = _uuid(session), await self._list_rows(session, **query)
        messages = [_to_message(id, row) for row in rows]
        return MessagePage(messages=messages, next_after=next_after, prev_before=prev_before)

    async def list_texts(
        self, session: SessionId, *, after: int = 0, before: int | None = None, limit: int = PAGE_SIZE
    ) -> TextPage:
        rows, *places = await self._list_rows(
            session, after=after, before=before, limit=limit, kind=ALL_KINDS
        )
        return TextPage([TextOnPage(row.id, row.sequence, row.content) for row in rows], *places)

    async def _list_rows(
        self, session: SessionId, **query: Unpack[MessageQuery]
    ) -> tuple[list[StoredMessage], int | None, int | None]:
        """Return the rows of a page, and the cursors of the next and the previous page."""
        check_keywords("list_messages", query, MessageQuery)
        before, limit = query.get("before"), query.get("limit", 100)
        kinds: Any = query.get("kind", "message,record").split(",")
        with _api_errors():
            rows = await self._store.messages.list_messages(
                _uuid(session), after=query.get("after", 0), before=before, limit=limit, kinds=kinds
            )
        if not may_have_more(rows, limit):
            return rows, None, None
        return (rows, rows[-1].sequence, None) if before is None else (rows, None, rows[0].sequence)

    async def pop_message(self, session: SessionId) -> Message | None:
        with _api_errors():
            popped = await self._store.messages.pop(_uuid(session))
        return None if popped is None else _to_message(_uuid(session), popped)


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
