"""A session as one JSON document: its facts, and its standard messages."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from ash_server.db.sessions import Session
from ash_server.queries.standard_pages import Connect, get_pages
from ash_shared.model.message import StandardMessage


async def write_document(connect: Connect, session: Session) -> AsyncGenerator[bytes, None]:
    """`{"session", "messages"}`, a page of the conversation at a time."""
    yield f'{{"session":{session.model_dump_json()},"messages":['.encode()
    comma = b""
    async with aclosing(get_pages(connect, session.id)) as pages:
        async for messages in pages:
            if messages:
                yield comma + await asyncio.to_thread(_listed, messages)
                comma = b","
    yield b"]}\n"


def _listed(messages: Iterable[StandardMessage]) -> bytes:
    return ",".join(message.model_dump_json() for message in messages).encode()
