"""The beginnings of open texts, next to the state of the normaliser, which has their ends.

The lock of the session's counters orders reads and writes, as it does for the state.
"""

from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.store.statements import statements
from ash_shared.eventlog.normalizer import SavedState

SQL = statements(__file__)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode


async def read(conn: AsyncConnection, session_id: UUID) -> dict[int, str]:
    """Return the stored beginnings of a session's open texts, by number."""
    parts: dict[int, list[str]] = {}
    for number, content in await (await conn.execute(SQL.read, [session_id])).fetchall():
        parts.setdefault(number, []).append(_decode(content))
    return {number: "".join(each) for number, each in parts.items()}


async def write(conn: AsyncConnection, session_id: UUID, saved: SavedState) -> None:
    """Store the additions to the beginnings of open texts, and delete the beginnings of ended texts."""
    if saved.ended:
        await conn.execute(SQL.delete_ended, [session_id, saved.ended])
    if saved.added:
        numbers, starts, texts = zip(*saved.added, strict=True)
        contents = [_encode(text).decode() for text in texts]
        await conn.execute(SQL.insert, [list(numbers), list(starts), contents, session_id])


async def delete(conn: AsyncConnection, session_id: UUID) -> None:
    await conn.execute(SQL.delete_all, [session_id])
