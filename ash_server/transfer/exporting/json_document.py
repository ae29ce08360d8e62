"""Export a session as one JSON document: its metadata and its standard messages."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from ash_server.store import Store
from ash_shared.model.message import StandardMessage
from ash_shared.model.session import Session


async def write_json(store: Store, session: Session) -> AsyncGenerator[bytes, None]:
    """Yield `{"session", "messages"}`, a page of messages at a time."""
    yield f'{{"session":{session.model_dump_json()},"messages":['.encode()
    comma = b""
    async with aclosing(store.conversation.stream_pages(session.id)) as pages:
        async for messages in pages:
            if messages:
                yield comma + await asyncio.to_thread(_join_messages, messages)
                comma = b","
    yield b"]}\n"


def _join_messages(messages: Iterable[StandardMessage]) -> bytes:
    return ",".join(message.model_dump_json() for message in messages).encode()
