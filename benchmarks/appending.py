"""P6: appending messages, against inserting the same rows without an order of their own, and against other stores."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import cycle, islice
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.db.engine import connect
from ash_server.db.messages import NewMessage, append
from ash_server.db.sessions import uuid7
from ash_server.ingest import new_message
from ash_shared import PARSER_VERSION
from benchmarks.database import agent_message, new_session, settle
from benchmarks.measure import AsyncRun, Times, take_turns_async
from benchmarks.peers.stores import Append, Store, installed_stores
from benchmarks.samples import agent_line
from benchmarks.table import Details, Row, factor

_ASH = "Ash"
_FROM_TEXT = "Ash, described on the way"
_TRANSACTION = "plain INSERT in a transaction"
_PLAIN = "plain INSERT"
_COPY = "binary COPY"

_PLAIN_TABLE = """
    CREATE TABLE plain_messages (LIKE messages INCLUDING COMPRESSION);
    ALTER TABLE plain_messages ALTER created_at SET DEFAULT statement_timestamp();
    ALTER TABLE plain_messages ALTER sequence ADD GENERATED ALWAYS AS IDENTITY, ADD PRIMARY KEY (sequence);
    CREATE INDEX ON plain_messages (session_id, sequence)
"""
_COLUMNS = "session_id, id, content, role, kind, source, block_types, parser_version, created_at"
_INSERT = f"""
    INSERT INTO plain_messages ({_COLUMNS})
    SELECT %b, id, content, role, kind, source, string_to_array(block_types, ','), %b, statement_timestamp()
    FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[])
        AS new (id, content, role, kind, source, block_types)
"""
_COPY_IN = f"COPY plain_messages ({_COLUMNS.removesuffix(', created_at')}) FROM STDIN (FORMAT BINARY)"
_COPY_TYPES = ("uuid", "text", "text", "text", "text", "text", "text[]", "int4")

_TABLES = """
    SELECT string_agg(tablename, ', ') FROM pg_tables
    WHERE schemaname = 'public' AND tablename <> 'alembic_version'
"""

_TEXTS = [agent_line(number, 2500) for number in range(1000)]


class Size(NamedTuple):
    rows: Mapping[int, int]
    """How many rows one run writes, by the size of a batch."""
    writers: tuple[int, ...]
    rounds: int


FULL = Size(rows={1: 400, 10: 1500, 100: 3000, 1000: 6000}, writers=(1, 8), rounds=5)
SMOKE = Size(rows={1: 4, 100: 200}, writers=(2,), rounds=1)


async def measure(url: str, size: Size) -> tuple[list[Row], list[Details]]:
    stores = list(installed_stores())
    cells: dict[tuple[int, int], Times] = {}
    async with await connect(url) as conn:
        await conn.execute(_PLAIN_TABLE)
        for batch, rows in size.rows.items():
            for writers in size.writers:
                await _empty(conn)
                async with _cases(url, batch, writers, rows, stores) as cases:
                    cells[batch, writers] = await take_turns_async(cases, size.rounds)
    large = {cell: times for cell, times in cells.items() if cell[0] >= 100}
    rows_of = [
        _row(cells, _ASH, _TRANSACTION, 0.6),
        _row(cells, _ASH, _PLAIN, None),
        _row(large, _ASH, _COPY, 0.7),
        *(_row(cells, _FROM_TEXT, store.name, 1.3) for store in stores),
    ]
    return rows_of, [_every_cell(cells, stores)]


def _row(cells: Mapping[tuple[int, int], Times], case: str, against: str, floor: float | None) -> Row:
    speeds = {cell: times.typical_speed(case, against) for cell, times in cells.items()}
    slowest = min(speeds, key=speeds.__getitem__)
    note = f"median of {len(speeds)} cells; slowest {factor(speeds[slowest])} at {slowest[0]} x {slowest[1]}"
    return Row("P6", f"append, against {against}", median(speeds.values()), floor, note=note)


def _every_cell(cells: Mapping[tuple[int, int], Times], stores: Iterable[Store]) -> Details:
    pairs = [(_ASH, _TRANSACTION), (_ASH, _PLAIN), (_ASH, _COPY)]
    pairs += [(_FROM_TEXT, store.name) for store in stores]
    rows = [
        (
            f"{batch} x {writers}",
            *(
                factor(times.typical_speed(case, against)) if against in times.names else ""
                for case, against in pairs
            ),
        )
        for (batch, writers), times in cells.items()
    ]
    title = "Appending messages of 2.5 KB, by the size of a batch and the number of writers, against"
    return Details(title, ("batch x writers", *(against for _, against in pairs)), rows)


async def _empty(conn: AsyncConnection) -> None:
    ((tables,),) = await (await conn.execute(_TABLES)).fetchall()
    await conn.execute(f"TRUNCATE {tables}")
    await settle(conn)


@asynccontextmanager
async def _cases(
    url: str, batch: int, writers: int, rows: int, stores: Iterable[Store]
) -> AsyncIterator[dict[str, AsyncRun]]:
    async with AsyncExitStack() as stack:
        conns = [await stack.enter_async_context(await connect(url)) for _ in range(writers)]
        run = partial(_run, conns, batch, max(1, rows // batch // writers))
        cases: dict[str, AsyncRun] = {
            _ASH: partial(run, agent_message, partial(_append, conns)),
            _FROM_TEXT: partial(run, str, partial(_append_texts, conns)),
            _TRANSACTION: partial(run, agent_message, partial(_insert_in_transaction, conns)),
            _PLAIN: partial(run, agent_message, partial(_insert, conns)),
        }
        if batch >= 100:
            cases[_COPY] = partial(run, agent_message, partial(_copy, conns))
        for store in stores:
            cases[store.name] = partial(
                run, store.item, await stack.enter_async_context(store.open(url, writers))
            )
        yield cases


async def _run(
    conns: list[AsyncConnection], batch: int, batches: int, item: Callable[[str], Any], append: Append
) -> float:
    """The seconds that the writers take, each with a session and rows of its own, which are made before."""
    sessions = [await new_session(conns[0]) for _ in conns]
    texts = cycle(_TEXTS)
    work = [[[item(text) for text in islice(texts, batch)] for _ in range(batches)] for _ in conns]
    began = time.perf_counter()
    await asyncio.gather(
        *(_write(append, *each) for each in zip(range(len(conns)), sessions, work, strict=True))
    )
    return time.perf_counter() - began


async def _write(append: Append, writer: int, session_id: UUID, batches: list[list[Any]]) -> None:
    for batch in batches:
        await append(writer, session_id, batch)


async def _append(
    conns: list[AsyncConnection], writer: int, session_id: UUID, messages: list[NewMessage]
) -> None:
    await append(conns[writer], session_id, messages)


async def _append_texts(
    conns: list[AsyncConnection], writer: int, session_id: UUID, texts: list[str]
) -> None:
    await append(
        conns[writer],
        session_id,
        [new_message(session_id, text, id=str(uuid7())) for text in texts],
    )


async def _insert_in_transaction(
    conns: list[AsyncConnection], writer: int, session_id: UUID, messages: list[NewMessage]
) -> None:
    async with conns[writer].transaction():
        await _insert(conns, writer, session_id, messages)


async def _insert(
    conns: list[AsyncConnection], writer: int, session_id: UUID, messages: list[NewMessage]
) -> None:
    columns: list[list[str]] = [
        [message.id for message in messages],
        [message.content for message in messages],
        [message.described.role for message in messages],
        [message.described.kind for message in messages],
        [message.described.source for message in messages],
        [",".join(message.described.block_types) for message in messages],
    ]
    await conns[writer].execute(_INSERT, [session_id, PARSER_VERSION, *columns])


async def _copy(
    conns: list[AsyncConnection], writer: int, session_id: UUID, messages: list[NewMessage]
) -> None:
    async with conns[writer].cursor() as cursor, cursor.copy(_COPY_IN) as copy:
        copy.set_types(_COPY_TYPES)
        for message in messages:
            of = message.described
            told = (of.role, of.kind, of.source, list(of.block_types))
            await copy.write_row((session_id, message.id, message.content, *told, PARSER_VERSION))
