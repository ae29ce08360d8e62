"""The beginnings of open texts, next to the state of the normaliser, which has their ends.

The lock of the session's counters orders reads and writes, as it does for the state.
"""

from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_shared.eventlog.normalizer import SavedState

_READ = "SELECT number, content FROM open_texts WHERE session_id = %b ORDER BY number, start"
_INSERT = """
    INSERT INTO open_texts (session_id, number, start, content)
    SELECT session_id, number, start, content
    FROM session_counters, unnest(%b::integer[], %b::bigint[], %b::text[]) AS new (number, start, content)
    WHERE session_id = %b
"""
_DELETE = "DELETE FROM open_texts WHERE session_id = %b AND number = ANY(%b)"
_DELETE_ALL = "DELETE FROM open_texts WHERE session_id = %b"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode


async def read(conn: AsyncConnection, session_id: UUID) -> dict[int, str]:
    """Return the stored beginnings of a session's open texts, by number."""
    parts: dict[int, list[str]] = {}
    for number, content in await (await conn.execute(_READ, [session_id])).fetchall():
        parts.setdefault(number, []).append(_decode(content))
    return {number: "".join(each) for number, each in parts.items()}


async def write(conn: AsyncConnection, session_id: UUID, saved: SavedState) -> None:
    """Store the additions to the beginnings of open texts, and delete the beginnings of ended texts."""
    if saved.ended:
        await conn.execute(_DELETE, [session_id, saved.ended])
    if saved.added:
        numbers, starts, texts = zip(*saved.added, strict=True)
        contents = [_encode(text).decode() for text in texts]
        await conn.execute(_INSERT, [list(numbers), list(starts), contents, session_id])


async def delete(conn: AsyncConnection, session_id: UUID) -> None:
    await conn.execute(_DELETE_ALL, [session_id])
