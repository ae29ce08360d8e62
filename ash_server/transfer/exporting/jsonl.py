"""Export a session as JSON lines: its messages, byte for byte as imported, or its events."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.db.events import stream_events
from ash_server.db.messages import stream_messages
from ash_server.db.sessions import get_session, is_unterminated

Export = Callable[[AsyncConnection, UUID], AsyncGenerator[bytes, None]]


async def export_messages(conn: AsyncConnection, session_id: UUID) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of the imported file: one message per line; no final newline if the file had none."""
    unterminated = await is_unterminated(conn, session_id)
    newline = b""
    async with aclosing(stream_messages(conn, session_id)) as messages:
        async for message in messages:
            yield newline + message.content.encode()
            newline = b"\n"
    if newline and not unterminated:
        yield newline


async def export_events(conn: AsyncConnection, session_id: UUID) -> AsyncGenerator[bytes, None]:
    """Yield one event per line, without sequences. Raises SessionNotFound."""
    await get_session(conn, session_id)
    async with aclosing(stream_events(conn, session_id)) as events:
        async for event in events:
            yield f"{event.content}\n".encode()


class ExportFormat(NamedTuple):
    suffix: str
    export: Export


FORMATS: Mapping[str, ExportFormat] = {
    "jsonl": ExportFormat(".jsonl", export_messages),
    "events": ExportFormat(".events.jsonl", export_events),
}
