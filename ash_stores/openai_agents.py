"""`Session` of openai-agents: the items of a conversation, one per message."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar
from uuid import UUID, uuid4

from ash_client import ApiError, MessageToAppend
from ash_client.requests import batched
from ash_shared.model.message import LAST_SEQUENCE
from ash_stores.connection import Address, SessionClient, SessionClients, delete_session, find_session
from ash_stores.text_pages import PAGE_SIZE
from ash_stores.texts import read_text, to_text

SOURCE = "openai_responses"

T = TypeVar("T")


class AshSession:
    """Stores the conversation of `Runner.run(agent, input, session=…)` in Ash.

    Writes are completed even if the caller is cancelled, which then waits for them.
    """

    def __init__(
        self, session_id: str, url: Address, key: str | None = None, session_settings: Any = None
    ) -> None:
        """`session_id` is the external id of the session in Ash; `url` is a server's URL or an open store.

        `session_settings`, a `SessionSettings` of the SDK or a dict, limits the items that a run reads. Raises
        TypeError for unknown settings, as the SDK does.
        """
        self.session_id = session_id
        self.session_settings = None if session_settings is None else _to_settings(session_settings)
        self._clients = SessionClients(url, key)
        self._id: UUID | None = None

    async def close(self) -> None:
        """Close the connections to the server; a store stays open."""
        await self._clients.close()

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order; with a limit, the latest ones."""
        client = self._clients.client
        if limit is None and self.session_settings is not None:
            limit = _to_settings(self.session_settings).limit
        session = await self._find(client)
        if session is None:
            return []
        try:
            texts = await _read_last(client, session, LAST_SEQUENCE if limit is None else limit)
        except ApiError as error:
            if error.code == "session_not_found":
                return []
            raise
        return list(map(read_text, texts))

    async def add_items(self, items: list[Any]) -> None:
        """Append items, each batch of 1 MiB as a whole."""
        if items:
            await _complete(self._append([_to_message(item) for item in items]))

    async def pop_item(self) -> Any:
        """Delete the last item and return it; None if there is none. Of concurrent callers, each gets another one."""
        return await _complete(self._pop())

    async def clear_session(self) -> None:
        """Delete the session with its items."""
        await _complete(self._delete())

    async def _append(self, messages: list[MessageToAppend]) -> None:
        client = self._clients.client
        for batch in batched(messages):
            while True:
                self._id = self._id or await self._create(client)
                try:
                    await client.commit(self._id, batch)
                    break
                except ApiError as error:
                    if error.code != "session_not_found":
                        raise
                    self._id = None

    async def _pop(self) -> Any:
        client = self._clients.client
        session = await self._find(client)
        if session is None:
            return None
        try:
            message = await client.pop_message(session)
        except ApiError as error:
            if error.code == "session_not_found":
                return None
            raise
        return None if message is None else read_text(message.content or "")

    async def _delete(self) -> None:
        client = self._clients.client
        session = await self._find(client)
        if session is not None:
            await delete_session(client, session)

    async def _create(self, client: SessionClient) -> UUID:
        return (await client.create_session(source=SOURCE, external_id=self.session_id)).id

    async def _find(self, client: SessionClient) -> UUID | None:
        if self._id is None:
            session = await find_session(client, SOURCE, self.session_id)
            self._id = None if session is None else session.id
        return self._id


def _to_settings(settings: Any) -> Any:
    """Convert to `SessionSettings` as the SDK's own sessions do. Raises TypeError."""
    from agents.memory.session_settings import coerce_session_settings

    return coerce_session_settings(settings)


def _to_message(item: Any) -> MessageToAppend:
    return {"id": str(uuid4()), "content": to_text(item), "source": SOURCE}


async def _read_last(client: SessionClient, session: UUID, count: int) -> list[str]:
    """Return the last texts in order. Pages of large texts are shorter."""
    texts: list[str] = []
    before: int | None = LAST_SEQUENCE
    while before is not None and len(texts) < count:
        limit = min(count - len(texts), PAGE_SIZE)
        page = await client.list_texts(session, before=before, limit=limit)
        texts[:0] = [message.content for message in page.messages]
        before = page.prev_before
    return texts


async def _complete(write: Awaitable[T]) -> T:
    """Wait for a write although the caller is cancelled, and then raise its cancellation."""
    task = asyncio.ensure_future(write)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # a failure is not reported as unhandled
        raise cancelled
    return task.result()
