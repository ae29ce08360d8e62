"""Export a session as one JSON document: its metadata and its standard messages."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from ash_server.redaction import redact_json
from ash_server.store import Store
from ash_server.store.conversation.redacted_rows import redact_session
from ash_shared.model.message import StandardMessage
from ash_shared.model.session import Session


async def write_json(store: Store, session: Session, *, redacts: bool = False) -> AsyncGenerator[bytes, None]:
    """Yield `{"session", "messages"}`, a page of messages at a time."""
    session = redact_session(session) if redacts else session
    yield f'{{"session":{session.model_dump_json()},"messages":['.encode()
    comma = b""
    async with aclosing(store.conversation.stream_pages(session.id)) as pages:
        async for messages in pages:
            if messages:
                yield comma + await asyncio.to_thread(_join_messages, messages, redacts=redacts)
                comma = b","
    yield b"]}\n"


def _join_messages(messages: Iterable[StandardMessage], *, redacts: bool) -> bytes:
    documents = (message.model_dump_json() for message in messages)
    return ",".join(map(redact_json, documents) if redacts else documents).encode()
