"""The sessions of a server, or of a store in this process, as the adapters use them."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Unpack
from weakref import WeakKeyDictionary

import msgspec

from ash_client import ApiError, AsyncAshClient, MessageToAppend, requests
from ash_client.requests import MessageQuery, NewSessionFields, Request, SessionId, SessionQuery
from ash_shared.model.message import Message
from ash_shared.model.pages import MessageComparison, MessagePage
from ash_shared.model.session import Session
from ash_stores.text_pages import ALL_KINDS, PAGE_SIZE, TextOnPage, TextPage

if TYPE_CHECKING:
    from ash_server import Store  # a type: stores on a server do not import it

Address: TypeAlias = "str | Store"
"""The URL of a server, or an open store."""

_DERIVED = 5
"""The version of a UUID that is derived from a name."""


class MessagePlace(Protocol):
    """Where a message is stored."""

    @property
    def sequence(self) -> int: ...

    @property
    def created(self) -> bool:
        """False if it was stored before."""


class SessionClient(Protocol):
    """The methods of `AsyncAshClient` that the adapters use, and one for texts. Every method raises ApiError."""

    def sessions(self, **query: Unpack[SessionQuery]) -> AsyncGenerator[Session, None]: ...

    async def get_session(self, session: SessionId) -> Session: ...

    async def create_session(self, **fields: Unpack[NewSessionFields]) -> Session: ...

    async def delete_session(self, session: SessionId, *, expected_sequence: int | None = None) -> None: ...

    async def compare_messages(
        self, session: SessionId, contents: Mapping[str, bytes]
    ) -> MessageComparison: ...

    async def list_messages(self, session: SessionId, **query: Unpack[MessageQuery]) -> MessagePage: ...

    async def pop_message(self, session: SessionId) -> Message | None: ...

    async def commit(
        self,
        session: SessionId,
        messages: Iterable[MessageToAppend] = (),
        *,
        metadata: Mapping[str, Any] | None = None,
        expected_sequence: int | None = None,
    ) -> Sequence[MessagePlace]: ...

    async def list_texts(
        self, session: SessionId, *, after: int = 0, before: int | None = None, limit: int = PAGE_SIZE
    ) -> TextPage: ...


class ServerClient(AsyncAshClient):
    async def list_texts(
        self, session: SessionId, *, after: int = 0, before: int | None = None, limit: int = PAGE_SIZE
    ) -> TextPage:
        """Return a page of messages of all kinds, faster than `list_messages`."""
        page = requests.list_messages(
            session, after=after, before=before, limit=limit, parsed=False, kind=ALL_KINDS
        )
        return await self.send(Request("GET", page.path, _decode_page, page.query))


def _decode_page(body: bytes) -> TextPage:
    """Raises ValueError for another answer."""
    try:
        return msgspec.json.decode(body, type=TextPage)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


async def read_texts(
    client: SessionClient, session: SessionId, after: int = 0
) -> AsyncGenerator[list[TextOnPage], None]:
    """Yield the messages of all kinds after a sequence, page by page."""
    place: int | None = after
    while place is not None:
        page = await client.list_texts(session, after=place)
        yield page.messages
        place = page.next_after


class SessionClients:
    """The clients of an adapter: one for each event loop that uses it."""

    def __init__(self, address: Address, key: str | None) -> None:
        self._address = address
        self._key = key
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, ServerClient] = WeakKeyDictionary()

    @property
    def client(self) -> SessionClient:
        """The client for the running event loop. Raises ApiError for an invalid URL."""
        if not isinstance(self._address, str):
            from ash_stores.in_process import StoreClient

            return StoreClient(self._address)
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = ServerClient(self._address, self._key)
        return self._clients[loop]

    async def close(self) -> None:
        """Close the connections of the running event loop; a store stays open."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


async def list_named(client: SessionClient, source: str, prefix: str) -> AsyncGenerator[Session, None]:
    """Yield the sessions with a name that begins with `prefix`."""
    async for session in client.sessions(source=source, external_id_prefix=prefix, limit=1000):
        if _is_derived(session):
            yield session


async def find_session(client: SessionClient, source: str, name: str) -> Session | None:
    async for session in client.sessions(source=source, external_id=name, limit=1000):
        if _is_derived(session):
            return session
    return None


def _is_derived(session: Session) -> bool:
    """True if the id is derived from the name; an import of another text with the same name has another id."""
    return session.id.version == _DERIVED


async def delete_session(client: SessionClient, session: SessionId) -> None:
    """Delete a session, unless it is deleted already."""
    try:
        await client.delete_session(session)
    except ApiError as error:
        if error.code != "session_not_found":
            raise
