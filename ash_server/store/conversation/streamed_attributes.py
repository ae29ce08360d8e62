"""The attributes of the last call of a model, encoded while its input is read for the second time.

The first reading finds the answer, because its attributes are before the input.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any
from uuid import UUID

from ash_server.errors import SessionChanged
from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.projection_inputs import read_requests
from ash_server.store.conversation.redacted_rows import json_encoder
from ash_server.store.conversation.repeated_pages import MAX_KEPT_BYTES, RepeatedPages
from ash_shared.projections.otel_genai import INPUT, OUTPUT, GenAiCall, GenAiFold, GenAiInput


async def stream_otel_genai(
    connect: Connect, session_id: UUID, *, redacts: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yield the JSON of `to_otel_genai` in parts; `redacts`: without secrets.

    Raises SessionNotFound, SessionChanged, and before the first part SessionTooLarge for a very large answer.
    """
    pages = RepeatedPages(connect, session_id, redacts=redacts, keeps=False)
    fold = GenAiFold(MAX_KEPT_BYTES)
    await pages.read_first(fold)
    records = await read_requests(connect, session_id, redacts=redacts)
    call = await asyncio.to_thread(lambda: fold.end(conversation_id=str(session_id), records=records))

    encode = json_encoder(redacts=redacts, ensure_ascii=False)

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
