"""Pages of the standard messages of a session for projections that read them more than once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple
from uuid import UUID

from ash_server.errors import SessionTooLarge
from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.projection_inputs import MAX_BYTES
from ash_server.store.conversation.redacted_rows import redact_standard_messages
from ash_server.store.conversation.standard_pages import get_pages, size_of
from ash_shared.model.message import StandardMessage
from ash_shared.projections._otel_messages import SizedFold

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Messages of a session that are kept instead of read again."""


class _SizedPage(NamedTuple):
    messages: Sequence[StandardMessage]
    sizes: Sequence[int]

    def add_to(self, fold: SizedFold) -> int:
        for message, size in zip(self.messages, self.sizes, strict=True):
            fold.add(message, size)
        return fold.size()


class RepeatedPages:
    """Reads the messages of a session any number of times. Later readings end where the first did.

    `keeps`: a short session is kept instead.
    """

    def __init__(self, connect: Connect, session_id: UUID, *, redacts: bool, keeps: bool = True) -> None:
        self._connect, self._session_id, self._redacts = connect, session_id, redacts
        self._kept: list[_SizedPage] | None = [] if keeps else None
        self._size = self._count = 0
        """Size of the messages in `_kept`, and number of messages."""

    async def read_first(self, fold: SizedFold) -> None:
        """Add the messages to a fold. Raises SessionNotFound, and SessionTooLarge if it keeps too much."""
        async with aclosing(get_pages(self._connect, self._session_id)) as pages:
            async for messages in pages:
                page = await asyncio.to_thread(_size, messages, redacts=self._redacts)
                self._count += len(messages)
                self._keep(page)
                if await asyncio.to_thread(page.add_to, fold) > MAX_BYTES:
                    raise SessionTooLarge

    async def read_again(self) -> AsyncGenerator[Sequence[StandardMessage], None]:
        """Yield the messages of the first reading. Raises SessionNotFound if the session was deleted meanwhile."""
        if self._kept is not None:
            for page in self._kept:
                yield page.messages
            return
        left = self._count
        async with aclosing(get_pages(self._connect, self._session_id)) as pages:
            async for messages in pages:
                known = messages[:left]
                left -= len(known)
                yield await asyncio.to_thread(redact_standard_messages, known) if self._redacts else known
                if not left:
                    return

    def _keep(self, page: _SizedPage) -> None:
        self._size += sum(page.sizes)
        if self._kept is not None:
            self._kept = [*self._kept, page] if self._size <= MAX_KEPT_BYTES else None


def _size(messages: Sequence[StandardMessage], *, redacts: bool) -> _SizedPage:
    return _SizedPage(
        redact_standard_messages(messages) if redacts else messages, list(map(size_of, messages))
    )
