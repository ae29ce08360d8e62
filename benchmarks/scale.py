"""Growth of costs with the number of stored messages: the same operations on stores of four sizes, in turn.

`python -m benchmarks.scale [--messages 10000,100000] [--rounds 15] [--keep FOLDER] [--smoke]`: a tenth of the messages
of a store are in one session, the others in sessions of 500. Ten million messages take 20 GB of disk.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import psycopg

from ash_server.store import Store
from ash_server.store.embedded.server import EmbeddedPostgres
from ash_server.store.schema.migrations import upgrade
from benchmarks import report, servers
from benchmarks.database import cluster
from benchmarks.filling import Contents, StoreSize, fill, read_contents
from benchmarks.measure import Times, take_turns_async
from benchmarks.samples import agent_line
from benchmarks.table import Details, Row, details, goals

_COMMON_WORD = "tests"
_MISSING_WORD = "quuxnope"
_LISTED = 10
"""Sessions on a page: the smallest store has not many more."""
_RECENT = 50
"""Sessions that are written, read and searched; the others are only stored."""
_SLOW = 1.0
"""Operations that take longer, in seconds, are listed in the extrapolation."""

_BYTES = "SELECT pg_database_size(current_database())"


class Plan(NamedTuple):
    messages: Sequence[int]
    rounds: int
    times: int
    """Runs of an operation per round."""


FULL = Plan((10**4, 10**5, 10**6, 10**7), 15, 10)
SMOKE = Plan((2000, 4000), 1, 1)


class Subject:
    """A filled store, and the operations on it."""

    def __init__(self, store: Store, contents: Contents) -> None:
        self._store = store
        self._largest = contents.largest
        self._length = contents.largest_messages
        self._long = contents.long
        self._recent = contents.recent
        self._topics = contents.topics
        self._largest_topic = contents.largest_topic
        self._long_topic = contents.long_topic
        self._numbers = count(random.getrandbits(32))

    async def append(self) -> None:
        await self._append(random.choice(self._recent))

    async def append_to_largest(self) -> None:
        await self._append(self._largest)

    async def read_start(self) -> None:
        await self._read(1)

    async def read_middle(self) -> None:
        await self._read(self._length // 2)

    async def read_end(self) -> None:
        await self._read(self._length - 100)

    async def read_last(self) -> None:
        await self._store.messages.list_messages(self._largest, before=self._length, limit=100)

    async def read_events(self) -> None:
        await self._store.events.get_stored_events(self._largest, after=self._events // 2, limit=100)

    async def follow(self) -> float:
        """Return the seconds from the start of an append to the receipt of its event."""
        session = random.choice(self._recent)
        last = (await self._store.events.get_stored_events(session, before=2**53 - 1, limit=1))[-1].sequence
        async with aclosing(self._store.events.subscribe_stored(session, last)) as pages:
            await anext(pages)
            began = time.perf_counter()
            appending = asyncio.create_task(self._append(session))
            while not (await anext(pages)).events:
                pass
            taken = time.perf_counter() - began
            await appending
        return taken

    async def list_first(self) -> None:
        await self._store.sessions.list_sessions(limit=_LISTED)

    async def list_next(self) -> None:
        page = await self._store.sessions.list_sessions(limit=_LISTED, after=self._cursor)
        assert page.sessions

    async def prepare(self) -> None:
        """Find the middle of the largest log, and a place in the middle of the list of sessions."""
        self._events = (await self._store.sessions.get(self._largest)).event_count
        self._long_length = (await self._store.sessions.get(self._long)).message_count
        sessions = await self._store.sessions.get_many(self._recent)
        oldest = min(sessions, key=lambda each: each.updated_at)
        self._cursor = (
            await self._store.sessions.list_sessions(limit=1, until=oldest.updated_at)
        ).next_after or ""

    async def filter_sessions(self) -> None:
        await self._store.sessions.list_sessions(limit=_LISTED, q="no title has this")

    async def list_by_cost(self) -> None:
        page = await self._store.sessions.list_sessions(limit=_LISTED, sort="cost")
        assert page.sessions

    async def list_of_no_model(self) -> None:
        await self._store.sessions.list_sessions(limit=_LISTED, sort="cost", model="none")

    async def list_changed(self) -> None:
        await self._store.sessions.list_changed()

    async def search_rare(self) -> None:
        page = await self._store.search.search(random.choice(self._topics))
        assert page.results

    async def search_common(self) -> None:
        page = await self._store.search.search(_COMMON_WORD)
        assert page.results

    async def search_common_in_session(self) -> None:
        await self._store.search.find_in_session(random.choice(self._recent), _COMMON_WORD)

    async def search_few_per_session(self) -> None:
        await self._store.search.search(_COMMON_WORD, per_session=3)

    async def search_no_word(self) -> None:
        await self._store.search.search(_MISSING_WORD)

    async def search_common_in_long(self) -> None:
        await self._search_in(self._long, _COMMON_WORD)

    async def search_rare_in_long(self) -> None:
        await self._search_in(self._long, self._long_topic)

    async def search_nothing_in_long(self) -> None:
        await self._search_in(self._long, _MISSING_WORD)

    async def search_common_in_largest(self) -> None:
        await self._search_in(self._largest, _COMMON_WORD)

    async def search_rare_in_largest(self) -> None:
        await self._search_in(self._largest, self._largest_topic)

    async def search_nothing_in_largest(self) -> None:
        await self._search_in(self._largest, _MISSING_WORD)

    async def filter_by_project(self) -> None:
        await self._store.sessions.list_sessions(limit=_LISTED, project="/nonexistent")

    async def read_images(self) -> None:
        await self._store.messages.list_page(self._largest, type="image", limit=100)

    async def read_agent(self) -> None:
        await self._store.events.get_stored_page(self._largest, agent="nobody", limit=100)

    async def read_errors(self) -> None:
        await self._store.events.get_stored_page(self._largest, types=["retraction"], limit=100)

    async def read_agent_around(self) -> None:
        await self._store.events.get_stored_page(
            self._largest, at=self._events // 2, agent="nobody", limit=100
        )

    async def read_around_message(self) -> None:
        page, _ = await self._store.events.get_stored_page(
            self._largest, message=self._length // 2, limit=100
        )
        assert page

    async def count_items(self) -> None:
        await self._store.conversation.count_items(self._largest)

    async def read_summary(self) -> None:
        await self._store.conversation.read_summary(self._largest, is_bounded=True)

    async def start_projection(self) -> None:
        async with aclosing(self._store.conversation.stream_standing(self._largest)) as parts:
            assert (await anext(parts)).events

    async def rebuild(self) -> None:
        await self._store.events.rebuild(random.choice(self._recent))

    async def delete_message(self) -> None:
        await self._store.messages.delete(self._long, random.randint(1, self._long_length // 2))

    async def pop_message(self) -> None:
        await self._store.messages.pop(self._long)

    async def append_beside_rebuild(self) -> float:
        """Return the seconds of the slowest append while the session is rebuilt."""
        rebuilding = asyncio.create_task(self._store.events.rebuild(self._long))
        slowest = 0.0
        while not rebuilding.done():
            began = time.perf_counter()
            await self._append(self._long)
            slowest = max(slowest, time.perf_counter() - began)
            await asyncio.sleep(0.01)
        await rebuilding
        return slowest

    async def _search_in(self, session_id: UUID, q: str) -> None:
        await self._store.search.find_in_session(session_id, q)

    async def _append(self, session_id: UUID) -> None:
        await self._store.messages.append(session_id, [agent_line(next(self._numbers), 700)])

    async def _read(self, after: int) -> None:
        page = await self._store.messages.list_messages(self._largest, after=after, limit=100)
        assert page


class Operation(NamedTuple):
    name: str
    run: Callable[[Subject], Awaitable[float | None]]
    """Returns its own measurement in seconds, or None."""
    limit: float | None = None
    """Largest cost, as a multiple of that in the smallest store."""
    times: int | None = None
    """Runs per round, for slow operations."""
    milliseconds: int | None = None
    """Longest time in the largest store."""
    rounds: int | None = None
    """The most rounds, for operations that change a long session."""


_OPERATIONS = (
    Operation("append to a session", Subject.append, 1.3),
    Operation("append to the largest session", Subject.append_to_largest, 1.3),
    Operation("page of 100, start of the largest session", Subject.read_start, 1.3),
    Operation("page of 100, its middle", Subject.read_middle, 1.3),
    Operation("page of 100, its end", Subject.read_end, 1.3),
    Operation("the last 100", Subject.read_last, 1.3),
    Operation("page of 100 events, its middle", Subject.read_events, 1.3),
    Operation("live tail: append to receipt", Subject.follow, 1.3),
    Operation("list of sessions, first page", Subject.list_first, 1.5),
    Operation("list of sessions, later page", Subject.list_next, 1.5),
    Operation("search of a rare word", Subject.search_rare, 2),
    Operation("search in a session", Subject.search_common_in_session),
    Operation("rebuild of a session of 500", Subject.rebuild, None, 1),
    Operation("changed sessions, for the feed", Subject.list_changed),
    Operation("list of sessions by a text in no title", Subject.filter_sessions, None, 1, 100),
    Operation("list of sessions of a project without any", Subject.filter_by_project, None, 1, 100),
    Operation("list of sessions by cost", Subject.list_by_cost, None, 1, 100),
    Operation("the same with a model of no session", Subject.list_of_no_model, None, 1, 100),
    Operation("page of images, none in the largest session", Subject.read_images, None, 1, 200),
    Operation("page of events of a type, none there", Subject.read_errors, None, 1, 200),
    Operation("page of events of an agent, none there", Subject.read_agent, None, 1, 200),
    Operation("the same around an event", Subject.read_agent_around, None, 1, 200),
    Operation("page of events around a message", Subject.read_around_message, None, 1, 200),
    Operation("counts of items of the largest session", Subject.count_items, None, 1, 50),
    Operation("summary of the largest session", Subject.read_summary, None, 1, 50),
    Operation("first messages of its projections", Subject.start_projection, None, 1, 200),
    Operation(
        "search of a common word in the second largest session", Subject.search_common_in_long, None, 1, 100
    ),
    Operation("search of a rare word there", Subject.search_rare_in_long, None, 1, 100),
    Operation("search of a word that is nowhere, there", Subject.search_nothing_in_long, None, 1, 100),
    Operation(
        "search of a common word in the largest session", Subject.search_common_in_largest, None, 1, 100
    ),
    Operation("search of a rare word in it", Subject.search_rare_in_largest, None, 1, 100),
    Operation("search of a word that is nowhere, in it", Subject.search_nothing_in_largest, None, 1, 100),
    Operation("search of a common word, three per session", Subject.search_few_per_session, None, 1),
    Operation(f"search of a common word ({_COMMON_WORD})", Subject.search_common, None, 1, 100),
    Operation("search of a word that is nowhere", Subject.search_no_word, None, 1, 100),
    Operation("deletion of a message of the second largest session", Subject.delete_message, None, 1, 300, 3),
    Operation("deletion of its last message", Subject.pop_message, None, 1, 300, 3),
    Operation("slowest append to it beside a rebuild", Subject.append_beside_rebuild, None, 1, 300, 3),
)


class Filled(NamedTuple):
    url: str
    contents: Contents
    bytes: int


class Result(NamedTuple):
    stores: Mapping[int, Filled]
    times: Mapping[Operation, Times]

    def seconds(self, operation: Operation, size: int) -> float:
        return self.times[operation].typical(str(size))

    def growth(self, operation: Operation, size: int) -> float:
        """Return the cost as a multiple of that in the smallest store."""
        return self.times[operation].typical_speed(str(min(self.stores)), against=str(size))


async def measure(plan: Plan, folder: Path | None) -> Result:
    with cluster(kept=folder) as (_, server):
        _restart_without_archive(server)
        stores = {size: await _fill(server, size) for size in plan.messages}
        async with AsyncExitStack() as stack:
            subjects = {}
            for size, filled in stores.items():
                store = await stack.enter_async_context(Store.open(filled.url))
                subjects[size] = Subject(store, filled.contents)
                await subjects[size].prepare()
            times = {}
            for operation in _OPERATIONS:
                runs = operation.times or plan.times
                cases = {
                    str(size): partial(_repeat, operation, subject, runs)
                    for size, subject in subjects.items()
                }
                rounds = min(plan.rounds, operation.rounds or plan.rounds)
                times[operation] = await take_turns_async(cases, rounds)
        return Result(stores, times)


def _restart_without_archive(server: EmbeddedPostgres) -> None:
    """Let PostgreSQL write new tables to their files only, not to its log as well."""
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute("ALTER SYSTEM SET wal_level = minimal")
        conn.execute("ALTER SYSTEM SET max_wal_senders = 0")
    server.stop()
    server.start()


async def _fill(server: EmbeddedPostgres, size: int) -> Filled:
    """Fill a database, unless it is full."""
    name = f"messages_{size}"
    server.ensure_database(name)
    url = server.url(name)
    upgrade(url)
    with psycopg.connect(url, autocommit=True) as conn:
        if read_contents(conn, _RECENT) is None:
            began = time.perf_counter()
            await fill(url, StoreSize(size, size // 10))
            print(f"filled {size:,} in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        contents = read_contents(conn, _RECENT)
        assert contents
        ((bytes_of_store,),) = conn.execute(_BYTES).fetchall()
    return Filled(url, contents, bytes_of_store)


async def _repeat(operation: Operation, subject: Subject, times: int) -> float:
    """Return the seconds of a run."""
    total = 0.0
    for _ in range(times):
        began = time.perf_counter()
        own = await operation.run(subject)
        total += time.perf_counter() - began if own is None else own
    return total / times


# --- Tables


def verdict(result: Result) -> list[Row]:
    largest = max(result.stores)
    growths = [
        Row("scale", each.name, result.growth(each, largest), each.limit, bound="<=")
        for each in _OPERATIONS
        if each.limit is not None
    ]
    times = [
        Row(
            "scale",
            each.name,
            result.seconds(each, largest) * 1000,
            each.milliseconds,
            bound="<=",
            unit=" ms",
        )
        for each in _OPERATIONS
        if each.milliseconds is not None
    ]
    return growths + times


def growth(result: Result) -> Details:
    sizes = sorted(result.stores)
    rows = []
    for each in _OPERATIONS:
        ratios = [f"{result.growth(each, size):.2f}x" for size in sizes[1:]]
        expected = _extrapolate(result, each)
        rows.append(
            (each.name, _milliseconds(result.seconds(each, sizes[0])), *ratios, _milliseconds(expected))
        )
    headings = (
        "operation",
        f"ms at {sizes[0]:,}",
        *(f"{size:,}" for size in sizes[1:]),
        f"ms expected at {10 * sizes[-1]:,}",
    )
    return Details(
        "Medians: milliseconds in the smallest store, and multiples of that in the others.", headings, rows
    )


def stores(result: Result) -> Details:
    rows = [
        (
            f"{filled.contents.messages:,}",
            f"{filled.contents.sessions:,}",
            f"{filled.contents.largest_messages:,}",
            f"{filled.bytes / 1e9:.2f}",
            f"{filled.bytes / filled.contents.messages:,.0f}",
        )
        for _, filled in sorted(result.stores.items())
    ]
    headings = ("messages", "sessions", "in the largest", "GB", "bytes per message")
    return Details("The stores.", headings, rows)


def outlook(result: Result) -> str:
    """Return a sentence about the disk and the slow operations at ten times the largest size."""
    largest = max(result.stores)
    expected = {each.name: _extrapolate(result, each) for each in _OPERATIONS}
    slow = sorted(
        (name for name in expected if expected[name] >= _SLOW), key=expected.__getitem__, reverse=True
    )
    named = ", ".join(f"{name} ({expected[name]:.1f} s)" for name in slow) or "none"
    disk = result.stores[largest].bytes * 10 / 1e9
    return (
        f"At {10 * largest:,} messages, if each cost grows once more as between the last two sizes: {disk:,.0f} GB of "
        f"disk; operations that take more than a second: {named}."
    )


def _extrapolate(result: Result, operation: Operation) -> float:
    seconds = [result.seconds(operation, size) for size in sorted(result.stores)[-2:]]
    return seconds[-1] * max(1.0, seconds[-1] / seconds[0])


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}"


def main() -> None:
    arguments = _arguments()
    plan = SMOKE if arguments.smoke else FULL._replace(messages=arguments.messages, rounds=arguments.rounds)
    result = asyncio.run(measure(plan, arguments.keep))
    rows = verdict(result)
    if plan.messages == FULL.messages:
        rows += servers.verdict(servers.measure(servers.FULL))
    text = "\n\n".join([goals(rows), details(growth(result)), outlook(result), details(stores(result))])
    print(text)
    if plan.messages == FULL.messages:
        report.write_measured("scale", text, "scale.md")
    missed = [row.what for row in rows if row.missed]
    sys.exit(f"missed: {', '.join(missed)}" if missed and not arguments.smoke else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--messages", type=_numbers, default=FULL.messages, help="sizes, separated by commas")
    parser.add_argument("--rounds", type=int, default=FULL.rounds)
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the stores here, or measure them again"
    )
    parser.add_argument("--smoke", action="store_true", help="a few seconds, without a verdict or a file")
    return parser.parse_args()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


if __name__ == "__main__":
    main()
