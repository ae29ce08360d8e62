"""P10: the disk space and the WAL of messages with their events, and reading events that refer to their messages."""

import tempfile
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from litestar import Litestar
from psycopg import AsyncConnection

from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.connections.pool import connect
from ash_server.transfer.importing.file_import import import_file
from benchmarks.database import empty, new_session, settle, wal_position
from benchmarks.http import requests
from benchmarks.measure import take_turns_async
from benchmarks.samples import Samples
from benchmarks.table import Row

_SIZE = "SELECT pg_total_relation_size(%s::regclass)"
_COPY_WHOLE = """
    INSERT INTO events (session_id, sequence, type, message_sequence, origin, explicit_id, chunk_group, stored_json)
    SELECT %s, sequence, type, message_sequence, origin, given_id, piece_of, content
    FROM events_full WHERE session_id = %s
"""
_LAST = "SELECT max(sequence) FROM events WHERE session_id = %s"
_PAGES = (500, 50)
_REFERRING = "events that refer"
_WHOLE = "events stored whole"


class Size(NamedTuple):
    lines: int
    rounds: int


FULL = Size(lines=6_000, rounds=9)
SMOKE = Size(lines=60, rounds=1)


async def measure(url: str, samples: Samples, size: Size) -> list[Row]:
    lines = list(islice(cycle(samples.lines), size.lines))
    with tempfile.TemporaryDirectory(prefix="ash-bench-") as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        async with Store.open(url, lock_timeout=None) as store, await connect(url) as conn:
            await empty(conn)
            before = await wal_position(conn)
            session_id = (await import_file(store, path, "session")).session_id
            wal = await wal_position(conn) - before
            await settle(conn)
            messages, events = [await _number(conn, _SIZE, name) for name in ("messages", "events")]
            return [
                Row(
                    "P10",
                    "messages and events on disk, against messages alone",
                    (messages + events) / messages,
                    1.25,
                    bound="<=",
                ),
                Row(
                    "P10",
                    "WAL of an import, against its text",
                    wal / sum(map(len, lines)),
                    1.0,
                    bound="<=",
                ),
                *await _read(url, conn, session_id, size.rounds),
            ]


async def _number(conn: AsyncConnection, query: str, *params: object) -> int:
    ((number,),) = await (await conn.execute(query, params)).fetchall()
    return int(number)


async def _read(url: str, conn: AsyncConnection, session_id: UUID, rounds: int) -> list[Row]:
    whole = await new_session(conn)
    await conn.execute(_COPY_WHOLE, [whole, session_id])
    await settle(conn)
    last = await _number(conn, _LAST, session_id)
    ash = create_app(Settings(), database_url=url)
    async with ash.lifespan():
        return [
            await _read_pages(ash, (session_id, whole), limit, range(0, last, limit), rounds)
            for limit in _PAGES
        ]


async def _read_pages(
    app: Litestar, sessions: tuple[UUID, UUID], limit: int, afters: Sequence[int], rounds: int
) -> Row:
    referring, whole = (
        requests(app, f"/api/sessions/{session}/events", afters, limit=str(limit)) for session in sessions
    )
    times = await take_turns_async({_REFERRING: referring, _WHOLE: whole}, rounds)
    what = f"pages of {limit} events that refer to their messages: time against events stored whole"
    return Row("P10", what, times.speed(_WHOLE, _REFERRING), 1.3, bound="<=")
