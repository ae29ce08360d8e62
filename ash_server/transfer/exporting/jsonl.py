"""Export a session as JSON lines: its messages, byte for byte as imported, or its events."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import NamedTuple
from uuid import UUID

from ash_server.offload import offload
from ash_server.store import Store
from ash_server.store.conversation.redacted_rows import redact_event, redact_message

Export = Callable[..., AsyncGenerator[bytes, None]]
"""Accepts the store, the id of a session, and the keyword `redacts`; yields the lines in pieces."""


async def export_messages(
    store: Store, session_id: UUID, *, redacts: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of the imported file: one message per line; no final newline if the file had none."""
    lacks_newline = await store.sessions.lacks_final_newline(session_id)
    newline = b""
    async with aclosing(store.messages.stream_messages(session_id)) as messages:
        async for message in messages:
            shown = await offload(redact_message, message) if redacts else message
            yield newline + shown.content.encode()
            newline = b"\n"
    if newline and not lacks_newline:
        yield newline


async def export_events(
    store: Store, session_id: UUID, *, redacts: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yield one event per line, without sequences. Raises SessionNotFound."""
    await store.sessions.get(session_id)
    async with aclosing(store.events.stream_stored_events(session_id)) as events:
        async for event in events:
            shown = await offload(redact_event, event) if redacts else event
            yield shown.content + b"\n"


class ExportFormat(NamedTuple):
    suffix: str
    export: Export


FORMATS: Mapping[str, ExportFormat] = {
    "jsonl": ExportFormat(".jsonl", export_messages),
    "events": ExportFormat(".events.jsonl", export_events),
}
