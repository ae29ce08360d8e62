"""P6: appending, compared with unordered inserts of the same rows and with other stores."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.ids import uuid7_text
from ash_server.store import Store
from ash_server.store.connections.pool import connect
from ash_server.store.log.writer import PreparedEvent, columns, derive
from ash_server.store.prepare import NewMessage, PreparedMessage, prepare_message
from ash_shared import PARSER_VERSION
from ash_shared.eventlog import Normalizer
from benchmarks.database import empty, new_session, settle, wal_position
from benchmarks.measure import AsyncRun, Times, take_turns_async
from benchmarks.peers.stores import Append, installed_stores
from benchmarks.peers.stores import Store as Peer
from benchmarks.samples import agent_line, chunk_event, stream_line, text_chunk
from benchmarks.table import Details, Row, factor

_ASH = "Ash"
_READ = "Ash, read before"
_PLAIN = "plain INSERT"
_ROWS = "plain INSERTs of the same rows in a transaction"
_COPY = "binary COPY"

_PLAIN_TABLES = """
    CREATE TABLE plain_messages (LIKE messages INCLUDING COMPRESSION INCLUDING DEFAULTS INCLUDING STORAGE);
    ALTER TABLE plain_messages ALTER created_at SET DEFAULT statement_timestamp();
    ALTER TABLE plain_messages ALTER sequence ADD GENERATED ALWAYS AS IDENTITY, ADD PRIMARY KEY (sequence);
    CREATE INDEX ON plain_messages (session_id, sequence);
    CREATE TABLE plain_events (LIKE events INCLUDING COMPRESSION INCLUDING DEFAULTS INCLUDING STORAGE);
    ALTER TABLE plain_events ALTER sequence ADD GENERATED ALWAYS AS IDENTITY, ADD PRIMARY KEY (sequence);
    CREATE INDEX ON plain_events (session_id, sequence)
"""
_INSERT_MESSAGES = """
    INSERT INTO plain_messages
        (session_id, id, content, role, kind, source, block_types, parser_version, created_at, digest)
    SELECT %b, id, content, role, kind, source, string_to_array(block_types, ','), %b, statement_timestamp(), digest
    FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bytea[])
        AS new (id, content, role, kind, source, block_types, digest)
"""
_EVENT_COLUMNS = "session_id, type, message_sequence, origin, explicit_id, chunk_group, stored_json"
_INSERT_EVENTS = f"""
    INSERT INTO plain_events ({_EVENT_COLUMNS})
    SELECT %b, type, message_sequence, origin, explicit_id, chunk_group, stored_json
    FROM unnest(%b::text[], %b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[])
        AS new (type, message_sequence, origin, explicit_id, chunk_group, stored_json)
"""
_COLUMNS_OF_EVENTS = ("types", "message_sequences", "origins", "explicit_ids", "chunk_groups", "stored_jsons")
_COPY_EVENTS = f"COPY plain_events ({_EVENT_COLUMNS}) FROM STDIN (FORMAT BINARY)"
_COPY_TYPES = ("uuid", "text", "int8", "text", "text", "text", "text")

Prepare = Callable[[UUID, list[str]], list[Any]]
"""Prepare the items to append, one per text; not timed."""


class Size(NamedTuple):
    rows: Mapping[int, int]
    """Rows per run, by batch size."""
    writers: tuple[int, ...]
    rounds: int
    open_text: int
    """Characters."""


FULL = Size(
    rows={1: 200, 10: 800, 100: 2000, 1000: 4000}, writers=(1, 8), rounds=3, open_text=5 * 1024 * 1024
)
SMOKE = Size(rows={1: 4, 100: 200}, writers=(2,), rounds=1, open_text=64 * 1024)


class _Goal(NamedTuple):
    case: str
    against: str
    floor: float | None
    least_batch: int = 1


class _Work(NamedTuple):
    """A kind of item to append, with the cases and goals that use it."""

    what: str
    text: Callable[[int], str]
    """Return the nth item of a session."""
    cases: Callable[[Store, list[AsyncConnection]], Mapping[str, tuple[Prepare, Append]]]
    goals: Sequence[_Goal]
    floor: float | None
    """Minimum speed relative to the other stores."""


async def measure(url: str, size: Size) -> tuple[list[Row], list[Details]]:
    stores = list(installed_stores())
    rows, tables = list[Row](), list[Details]()
    async with await connect(url) as conn:
        await conn.execute(_PLAIN_TABLES)
        for work in _WORKS:
            cells: dict[tuple[int, int], Times] = {}
            for batch in size.rows:
                for writers in size.writers:
                    await empty(conn)
                    async with _cases(url, work, batch, writers, size.rows[batch], stores) as cases:
                        cells[batch, writers] = await take_turns_async(cases, size.rounds)
            goals = [*work.goals, *(_Goal(_ASH, store.name, work.floor) for store in _fit(stores, work))]
            rows += [_row(work, cells, goal) for goal in goals]
            tables.append(_every_cell(work, cells, goals))
        async with Store.open(url) as store:
            rows += await _measure_open_text(store, conn, size)
    return rows, tables


# --- Single chunks of a long text


async def _measure_open_text(store: Store, conn: AsyncConnection, size: Size) -> list[Row]:
    """Compare chunks at the end of a long open text with those at its beginning."""
    wal: dict[str, list[float]] = {_SHORT: [], _LONG: []}
    lengths = {_SHORT: 1024, _LONG: size.open_text}
    cases = {
        name: partial(_append_chunks, store, conn, length, wal[name]) for name, length in lengths.items()
    }
    times = await take_turns_async(cases, size.rounds)
    what = f"a chunk at {size.open_text // 1024:,} KB of open text, against one at 1 KB"
    note = f"{_CHUNKS} chunks of {_CHUNK_WORDS} words, one per append"
    seconds = 1 / times.typical_speed(_LONG, _SHORT)
    written = median(wal[_LONG]) / median(wal[_SHORT])
    return [
        Row("P6", f"{what}: time", seconds, 1.5, bound="<=", note=note),
        Row(
            "P6", f"{what}: WAL", written, 1.5, bound="<=", note=f"{median(wal[_LONG]):,.0f} bytes per chunk"
        ),
    ]


_SHORT, _LONG = "short", "long"
_CHUNKS, _CHUNK_WORDS = 100, 12
_WORD_LENGTH = 5
"""Characters, with the space."""
_FILLING_WORDS = 12_000


async def _append_chunks(store: Store, conn: AsyncConnection, length: int, wal: list[float]) -> float:
    """Return the seconds for chunks after an open text of this length, each in a separate append."""
    session_id = await new_session(conn)
    for text in [stream_line(0), stream_line(1), *_filling(length)]:
        await store.messages.append(session_id, [_new_message(text)])
    await settle(conn)
    chunks = [text_chunk(number, _CHUNK_WORDS) for number in range(_CHUNKS)]
    before, began = await wal_position(conn), time.perf_counter()
    for chunk in chunks:
        await store.messages.append(session_id, [_new_message(chunk)])
    seconds = time.perf_counter() - began
    wal.append((await wal_position(conn) - before) / _CHUNKS)
    return seconds


def _filling(length: int) -> Iterator[str]:
    """Yield chunks with about so many characters in all."""
    words = length // _WORD_LENGTH
    for start in range(0, words, _FILLING_WORDS):
        yield text_chunk(start, min(_FILLING_WORDS, words - start))


def _row(work: _Work, cells: Mapping[tuple[int, int], Times], goal: _Goal) -> Row:
    speeds = {
        cell: times.typical_speed(goal.case, goal.against)
        for cell, times in cells.items()
        if cell[0] >= goal.least_batch
    }
    slowest = min(speeds, key=speeds.__getitem__)
    note = f"median of {len(speeds)} cells; slowest {factor(speeds[slowest])} at {slowest[0]} x {slowest[1]}"
    suffix = ", read before" if goal.case == _READ else ""
    what = f"{work.what}{suffix}, against {goal.against}"
    return Row("P6", what, median(speeds.values()), goal.floor, note=note)


def _every_cell(work: _Work, cells: Mapping[tuple[int, int], Times], goals: Sequence[_Goal]) -> Details:
    rows = [
        (
            f"{batch} x {writers}",
            *(
                factor(times.typical_speed(goal.case, goal.against)) if batch >= goal.least_batch else ""
                for goal in goals
            ),
        )
        for (batch, writers), times in cells.items()
    ]
    headings = [f"{goal.against}{' (read before)' * (goal.case == _READ)}" for goal in goals]
    title = f"Appending {work.what}, by the size of a batch and the number of writers, against"
    return Details(title, ("batch x writers", *headings), rows)


def _fit(stores: Iterable[Peer], work: _Work) -> list[Peer]:
    """Return the stores that accept these items: all accept messages, some accept any JSON."""
    return [store for store in stores if work is _MESSAGES or store.item is json.loads]


@asynccontextmanager
async def _cases(
    url: str, work: _Work, batch: int, writers: int, rows: int, stores: Iterable[Peer]
) -> AsyncIterator[dict[str, AsyncRun]]:
    async with AsyncExitStack() as stack:
        conns = [await stack.enter_async_context(await connect(url)) for _ in range(writers)]
        ash = await stack.enter_async_context(Store.open(url))
        run = partial(_run, conns, work.text, batch, max(1, rows // batch // writers))
        cases: dict[str, AsyncRun] = {
            name: partial(run, prepare, appending)
            for name, (prepare, appending) in work.cases(ash, conns).items()
            if name != _COPY or batch >= _LARGE
        }
        for store in _fit(stores, work):
            opened = await stack.enter_async_context(store.open(url, writers))
            cases[store.name] = partial(run, _each(store.item), opened.append)
        yield cases


def _each(item: Callable[[str], Any]) -> Prepare:
    return lambda session_id, texts: list(map(item, texts))


async def _run(
    conns: list[AsyncConnection],
    text: Callable[[int], str],
    batch: int,
    batches: int,
    prepare: Prepare,
    append: Append,
) -> float:
    """Return the seconds that all writers take; each writes its own rows to its own session."""
    sessions = [await new_session(conns[0]) for _ in conns]
    texts = list(map(text, range(batch * batches)))
    work = [prepare(session_id, texts) for session_id in sessions]
    began = time.perf_counter()
    await asyncio.gather(
        *(_write(append, *each, batch) for each in zip(range(len(conns)), sessions, work, strict=True))
    )
    return time.perf_counter() - began


async def _write(append: Append, writer: int, session_id: UUID, items: list[Any], batch: int) -> None:
    for start in range(0, len(items), batch):
        await append(writer, session_id, items[start : start + batch])


# --- Messages with their events


def _messages(store: Store, conns: list[AsyncConnection]) -> Mapping[str, tuple[Prepare, Append]]:
    async def append_texts(_writer: int, session_id: UUID, texts: list[str]) -> None:
        await store.messages.append(session_id, map(_new_message, texts))

    async def append_read(_writer: int, session_id: UUID, messages: list[PreparedMessage]) -> None:
        await store.messages.append_prepared(session_id, messages)

    async def insert(writer: int, session_id: UUID, rows: list[_Rows]) -> None:
        async with conns[writer].transaction():
            await _insert_messages(conns[writer], session_id, [row.message for row in rows])
            await _insert_events(conns[writer], session_id, [event for row in rows for event in row.events])

    return {
        _ASH: (_each(str), append_texts),
        _READ: (lambda session_id, texts: [_message(session_id, text) for text in texts], append_read),
        _ROWS: (_rows, insert),
    }


class _Rows(NamedTuple):
    """The message and the event rows of a text."""

    message: PreparedMessage
    events: list[tuple[Any, ...]]


def _rows(session_id: UUID, texts: list[str]) -> list[_Rows]:
    normalizer = Normalizer()
    messages = [_message(session_id, text) for text in texts]
    return [
        _Rows(message, _event_rows(derive(normalizer, session_id, sequence, message.line, 0)))
        for sequence, message in enumerate(messages, 1)
    ]


def _new_message(text: str) -> NewMessage:
    return NewMessage(text, id=uuid7_text())


def _message(session_id: UUID, text: str) -> PreparedMessage:
    return prepare_message(session_id, text, id=uuid7_text())


def _event_rows(events: Iterable[PreparedEvent]) -> list[tuple[Any, ...]]:
    """Return the column values, one tuple per event."""
    values = columns(list(events))
    return list(zip(*(values[name] for name in _COLUMNS_OF_EVENTS), strict=True))


async def _insert_messages(conn: AsyncConnection, session_id: UUID, messages: list[PreparedMessage]) -> None:
    values: list[list[Any]] = [
        [message.id for message in messages],
        [message.content for message in messages],
        [message.described.role for message in messages],
        [message.described.kind for message in messages],
        [message.described.source for message in messages],
        [",".join(message.described.block_types) for message in messages],
        [message.described.digest for message in messages],
    ]
    await conn.execute(_INSERT_MESSAGES, [session_id, PARSER_VERSION, *values])


async def _insert_events(conn: AsyncConnection, session_id: UUID, rows: list[tuple[Any, ...]]) -> None:
    if rows:
        await conn.execute(_INSERT_EVENTS, [session_id, *map(list, zip(*rows, strict=True))])


# --- Posted events


def _events(store: Store, conns: list[AsyncConnection]) -> Mapping[str, tuple[Prepare, Append]]:
    async def post(_writer: int, session_id: UUID, events: list[Any]) -> None:
        await store.events.append_prepared(session_id, events)

    async def insert(writer: int, session_id: UUID, rows: list[tuple[Any, ...]]) -> None:
        await _insert_events(conns[writer], session_id, rows)

    async def copy(writer: int, session_id: UUID, rows: list[tuple[Any, ...]]) -> None:
        async with conns[writer].cursor() as cursor, cursor.copy(_COPY_EVENTS) as copying:
            copying.set_types(_COPY_TYPES)
            for row in rows:
                await copying.write_row((session_id, *row))

    return {
        _ASH: (_each(json.loads), post),
        _PLAIN: (_posted_rows, insert),
        _COPY: (_posted_rows, copy),
    }


def _posted_rows(session_id: UUID, texts: list[str]) -> list[tuple[Any, ...]]:
    return _event_rows(PreparedEvent(json.loads(text)) for text in texts)


_LARGE = 100

_AGENT_LINES = [agent_line(number, 2500) for number in range(1000)]

_OF_MESSAGES = (_Goal(_ASH, _ROWS, None), _Goal(_READ, _ROWS, 0.75))

_MESSAGES = _Work(
    "messages of 2.5 KB with their events",
    lambda number: _AGENT_LINES[number % len(_AGENT_LINES)],
    _messages,
    _OF_MESSAGES,
    None,
)
_WORKS = (
    _MESSAGES,
    _Work("pieces of a stream with their events", stream_line, _messages, _OF_MESSAGES, None),
    _Work(
        "posted events of 300 B",
        chunk_event,
        _events,
        (_Goal(_ASH, _PLAIN, 0.7), _Goal(_ASH, _COPY, 0.7, least_batch=_LARGE)),
        1.1,
    ),
)
