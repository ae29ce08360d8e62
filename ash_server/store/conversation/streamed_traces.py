"""The traces of a session, encoded while it is read for the second time.

The first reading finds what the first spans contain of the whole session: instructions, the version of the agent, and
the times of late results.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any
from uuid import UUID

from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.projection_inputs import read_requests
from ash_server.store.conversation.redacted_rows import json_encoder
from ash_server.store.conversation.repeated_pages import RepeatedPages
from ash_server.store.session_rows import get_session
from ash_shared.projections.otlp import SCOPE, TraceFold, TraceSurvey


async def stream_otlp(
    connect: Connect, session_id: UUID, *, redacts: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yield the JSON of `to_otlp` in parts; `redacts`: without secrets.

    Raises SessionNotFound, and before the first part SessionTooLarge for a very large span.
    """
    async with connect() as conn:
        session = await get_session(conn, session_id)
    pages = RepeatedPages(connect, session_id, redacts=redacts)
    survey = TraceSurvey()
    await pages.read_first(survey)
    fold = TraceFold(
        survey.facts(),
        session_id=str(session_id),
        records=await read_requests(connect, session_id, redacts=redacts),
        default_time=int(session.created_at.timestamp() * 1000),
    )

    encode = json_encoder(redacts=redacts, separators=(",", ":"))

    def encode_all(spans: Iterable[Any]) -> bytes:
        return b",".join(map(encode, spans))

    def add(messages: Iterable[Any]) -> bytes:
        for message in messages:
            fold.add(message)
        return encode_all(fold.take())

    start = b'{"resourceSpans":[{"resource":%b,"scopeSpans":[{"scope":%b,"spans":['
    separator = start % (encode(fold.resource), encode(SCOPE))
    async with aclosing(pages.read_again()) as parts:
        async for messages in parts:
            if text := await asyncio.to_thread(add, messages):
                yield separator + text
                separator = b","
    if text := await asyncio.to_thread(lambda: encode_all(fold.end())):
        yield separator + text
        separator = b","
    yield b"]}]}]}" if separator == b"," else separator + b"]}]}]}"
