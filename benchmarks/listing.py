"""P7 and P8: reading a whole session compared with COPY, and a late page compared with the first."""

from collections.abc import Iterator
from contextlib import aclosing, nullcontext
from typing import NamedTuple
from uuid import UUID

import psycopg
from psycopg import AsyncConnection

from ash_server.store.connections.pool import connect
from ash_server.store.message_pages import list_messages, stream_messages
from benchmarks.database import fill, new_session, settle
from benchmarks.measure import AsyncRun, Times, take_turns_async
from benchmarks.samples import agent_line
from benchmarks.table import Row

_COPY = "COPY"
_PAGES = "pages of 1,000"
_STREAM = "streamed"
_FIRST = "the first page"
_LAST = "the last page"

_COPY_SESSION = """
    COPY (SELECT id, role, kind, source, content, sequence, created_at FROM messages
          WHERE session_id = '{}' ORDER BY sequence) TO STDOUT
"""
_MANY = """
    INSERT INTO messages
        (session_id, sequence, id, role, kind, source, content, block_types, parser_version, created_at)
    SELECT %s, n, 'message-' || n, 'assistant', 'message', 'claude',
        rpad('{"type":"assistant","n":' || n || ',"text":"', 198, md5(n::text)) || '"}',
        '{text}', 1, statement_timestamp()
    FROM generate_series(1, %s) AS n
"""


class Size(NamedTuple):
    messages: int
    many: int
    pages: int
    """Reads of a page in one run."""
    rounds: int


FULL = Size(messages=10_000, many=1_000_000, pages=100, rounds=15)
SMOKE = Size(messages=200, many=2_000, pages=2, rounds=1)


async def measure(url: str, size: Size) -> list[Row]:
    async with await connect(url) as conn:
        large = await _list(conn, url, 2500, size)
        small = await _list(conn, url, 200, size)
        return [
            *_rows("2.5 KB", large, 1.15),
            *_rows("200 B", small, 1.6),
            await _page_far_behind(conn, size),
        ]


def _rows(of: str, times: Times, floor: float) -> Iterator[Row]:
    for case in (_PAGES, _STREAM):
        taken = times.typical_speed(_COPY, case)
        yield Row("P7", f"session of {of} rows, {case}: time against COPY", taken, floor, bound="<=")


async def _list(conn: AsyncConnection, url: str, text_size: int, size: Size) -> Times:
    session_id = await fill(conn, [agent_line(number, text_size) for number in range(size.messages)])

    async def copy() -> None:
        # Without asyncio, which would slow it down.
        with other.cursor().copy(_COPY_SESSION.format(session_id)) as rows:
            for _ in rows:
                pass

    async def pages() -> None:
        page = await list_messages(conn, session_id, limit=1000)
        while len(page) == 1000:
            page = await list_messages(conn, session_id, after=page[-1].sequence, limit=1000)

    async def stream() -> None:
        async with aclosing(stream_messages(lambda: nullcontext(conn), session_id)) as messages:
            async for _ in messages:
                pass

    with psycopg.connect(url) as other:
        # The setting of Ash's own connections. Without it, COPY follows the index or sorts the session (three times as
        # slow) depending on random statistics, which would favour Ash.
        other.execute("SET random_page_cost = 1")
        return await take_turns_async({_COPY: copy, _PAGES: pages, _STREAM: stream}, size.rounds)


async def _page_far_behind(conn: AsyncConnection, size: Size) -> Row:
    session_id = await new_session(conn)
    await conn.execute(_MANY, [session_id, size.many])
    await settle(conn)
    cases = {
        _FIRST: _page_after(conn, session_id, 0, size),
        _LAST: _page_after(conn, session_id, size.many - 100, size),
    }
    times = await take_turns_async(cases, size.rounds)
    what = f"page of 100 at row {size.many - 100:,} of {size.many:,}: time against the first page"
    return Row("P8", what, times.typical_speed(_FIRST, _LAST), 1.5, bound="<=")


def _page_after(conn: AsyncConnection, session_id: UUID, after: int, size: Size) -> AsyncRun:
    async def run() -> None:
        for _ in range(size.pages):
            await list_messages(conn, session_id, after=after, limit=100)

    return run
