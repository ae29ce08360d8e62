"""The sessions of a server, or of a store in this process, as the adapters use them."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Unpack
from weakref import WeakKeyDictionary

from ash_client import ApiError, AsyncAshClient, MessageToAppend
from ash_client.requests import MessageQuery, NewSessionFields, SessionId, SessionQuery
from ash_shared.model.message import Message
from ash_shared.model.pages import AppendedMessage, MessagePage
from ash_shared.model.session import Session

if TYPE_CHECKING:
    from ash_server import Store  # a type: stores on a server do not import it

Address: TypeAlias = "str | Store"
"""The URL of a server, or an open store."""

ALL_KINDS = "message,record,chunk"
_DERIVED = 5
"""The version of a UUID that is derived from a name."""


class SessionClient(Protocol):
    """The methods of `AsyncAshClient` that the adapters use. Every method raises ApiError."""

    def sessions(self, **query: Unpack[SessionQuery]) -> AsyncGenerator[Session, None]: ...

    async def get_session(self, session: SessionId) -> Session: ...

    async def create_session(self, **fields: Unpack[NewSessionFields]) -> Session: ...

    async def delete_session(self, session: SessionId) -> None: ...

    async def list_messages(self, session: SessionId, **query: Unpack[MessageQuery]) -> MessagePage: ...

    async def pop_message(self, session: SessionId) -> Message | None: ...

    async def commit(
        self,
        session: SessionId,
        messages: Iterable[MessageToAppend] = (),
        *,
        metadata: Mapping[str, Any] | None = None,
        expected_sequence: int | None = None,
    ) -> list[AppendedMessage]: ...

    def messages(
        self, session: SessionId, **query: Unpack[MessageQuery]
    ) -> AsyncGenerator[Message, None]: ...


class SessionClients:
    """The clients of an adapter: one for each event loop that uses it."""

    def __init__(self, address: Address, key: str | None) -> None:
        self._address = address
        self._key = key
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncAshClient] = WeakKeyDictionary()

    @property
    def client(self) -> SessionClient:
        """The client for the running event loop. Raises ApiError for an invalid URL."""
        if not isinstance(self._address, str):
            from ash_stores.in_process import StoreClient

            return StoreClient(self._address)
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = AsyncAshClient(self._address, self._key)
        return self._clients[loop]

    async def close(self) -> None:
        """Close the connections of the running event loop; a store stays open."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


async def list_named(client: SessionClient, source: str, prefix: str) -> AsyncGenerator[Session, None]:
    """Yield the sessions whose names begin with a text.

    Their ids are derived from their names; an import of another text with the same name has created other ones.
    """
    async for session in client.sessions(source=source, external_id_prefix=prefix, limit=1000):
        if session.id.version == _DERIVED:
            yield session


async def find_session(client: SessionClient, source: str, name: str) -> Session | None:
    async for session in list_named(client, source, name):
        if session.external_id == name:
            return session
    return None


async def delete_session(client: SessionClient, session: SessionId) -> None:
    """Delete a session, unless it is deleted already."""
    try:
        await client.delete_session(session)
    except ApiError as error:
        if error.code != "session_not_found":
            raise
