"""The attributes of the last call of a model, encoded while its input is read for the second time.

The first reading finds the answer, because its attributes are before the input.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any
from uuid import UUID

from ash_server.errors import SessionChanged, SessionTooLarge
from ash_server.redaction import redact_text
from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.projection_inputs import MAX_BYTES, read_requests
from ash_server.store.conversation.repeated_pages import RepeatedPages, SizedPage
from ash_shared.projections.otel_genai import INPUT, OUTPUT, GenAiCall, GenAiFold, GenAiInput

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Messages since the last summary that are kept instead of read again."""


async def stream_otel_genai(
    connect: Connect, session_id: UUID, *, redacts: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yield the JSON of `to_otel_genai` in parts; `redacts`: without secrets.

    Raises SessionNotFound, SessionChanged, and before the first part SessionTooLarge for a very large answer.
    """
    pages = RepeatedPages(connect, session_id, redacts=redacts, keeps=False)
    fold = await _read_call(pages)
    records = await read_requests(connect, session_id, redacts=redacts)
    call = await asyncio.to_thread(lambda: fold.end(conversation_id=str(session_id), records=records))

    def encode(value: Any) -> bytes:
        text = json.dumps(value, ensure_ascii=False)
        # Redacts secrets that only the whole value shows.
        return (redact_text(text) if redacts else text).encode()

    def encode_all(values: Iterable[Any]) -> bytes:
        return b", ".join(map(encode, values))

    yield (await asyncio.to_thread(encode, call.attributes)).removesuffix(b"}")
    if call.extent.messages:
        separator = b', "%b": [' % INPUT.encode()
        parts = _read_input(pages, call) if call.input is None else _in_one_part(call.input)
        async with aclosing(parts):
            async for messages in parts:
                yield separator + await asyncio.to_thread(encode_all, messages)
                separator = b", "
        yield b"]"
    if call.output:
        yield b', "%b": [%b]' % (OUTPUT.encode(), await asyncio.to_thread(encode_all, call.output))
    yield b"}"


async def _read_call(pages: RepeatedPages) -> GenAiFold:
    fold = GenAiFold(MAX_KEPT_BYTES)

    def add(page: SizedPage) -> int:
        for message, size in zip(page.messages, page.sizes, strict=True):
            fold.add(message, size)
        return fold.size()

    async with aclosing(pages.read_first()) as parts:
        async for page in parts:
            if await asyncio.to_thread(add, page) > MAX_BYTES:
                raise SessionTooLarge
    return fold


async def _read_input(pages: RepeatedPages, call: GenAiCall) -> AsyncGenerator[list[Any], None]:
    """Yield the messages of the input, at least one at a time. Raises SessionChanged."""
    fold = GenAiInput(call)
    async with aclosing(pages.read_again()) as parts:
        async for messages in parts:
            if taken := await asyncio.to_thread(fold.take, messages):
                yield taken
            if fold.is_complete:
                break
    if taken := fold.end():
        yield taken
    if not fold.is_same:
        raise SessionChanged


async def _in_one_part(messages: list[Any]) -> AsyncGenerator[list[Any], None]:
    yield messages
