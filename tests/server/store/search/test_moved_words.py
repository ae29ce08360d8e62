"""After a deletion that gives events other sequences, their words are moved, as if all events were indexed again."""

import json
from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.store.connections.pool import connect
from ash_server.store.log import kept_states, rebuild
from ash_server.store.maintenance import splicing
from ash_server.store.search import index, moved_words
from ash_server.store.search.moved_words import Moved, words_to_move
from tests.marking import slow_unless
from tests.server.store.maintenance.test_replaced_parts import mixed_turn, turn
from tests.shared.records import claude
from tests.shared.records.events import wire_event

CANARY = "zqcanary7"
NOTE = wire_event("system_message", text="Note", variant="hook")
COLUMNS = "sequence, part, weight, readers, role, at, words::text"


@pytest.fixture
async def store(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setattr(kept_states, "INTERVAL", 5)
    monkeypatch.setattr(rebuild, "_MAX_LOCKED", 0)
    async with Store.open(database_url) as store:
        yield store


@pytest.fixture
async def tables(database_url: str) -> AsyncIterator[AsyncConnection]:
    async with await connect(database_url) as conn:
        yield conn


async def words_of(tables: AsyncConnection, session: UUID) -> Sequence[tuple[Any, ...]]:
    query = f"SELECT {COLUMNS} FROM search WHERE session_id = %s ORDER BY sequence, part"  # constants
    return await (await tables.execute(query, [session])).fetchall()


async def index_all(store: Store) -> None:
    while not await store.search.index_pending():
        pass


async def index_pages(store: Store, session: UUID, pages: int) -> None:
    async with store._connections.connection() as conn:
        for _ in range(pages):
            await index._index_page(conn, session)


def record_indexed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the events that will be read, to index their words."""
    read, write_rows = list[int](), index._write_rows

    async def record(conn: Any, session_id: UUID, events: Any, now: Any) -> None:
        read.extend(event.sequence for event in events)
        await write_rows(conn, session_id, events, now)

    monkeypatch.setattr(index, "_write_rows", record)
    return read


async def create_session(store: Store, turns: int, size: int = 7) -> UUID:
    session = (await store.sessions.create()).id
    lines = [json.dumps(record) for number in range(turns) for record in turn(number)]
    for first in range(0, len(lines), size):
        await store.messages.append(session, lines[first : first + size])
    return session


@pytest.mark.parametrize("seed", slow_unless((1).__eq__, range(6)))
async def test_words_are_as_after_indexing_everything(
    store: Store, tables: AsyncConnection, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Deletions and appends of a log that is indexed up to some page, also in steps."""
    monkeypatch.setattr(rebuild, "_MIN_AHEAD", seed % 2 * 2_000)
    monkeypatch.setattr(splicing, "_COPIED", 7)
    monkeypatch.setattr(index, "_MAX_EVENTS", 20)
    monkeypatch.setattr(moved_words, "_MAX_ROWS", 15)
    monkeypatch.setattr(moved_words, "_MAX_BYTES", 500 if seed % 2 else 2**20)
    monkeypatch.setattr(moved_words, "MAX_RANGES", 3 if seed % 3 == 0 else 50)
    random, session = Random(seed), (await store.sessions.create()).id
    lines = [json.dumps(record) for number in range(25) for record in mixed_turn(random, number)]
    for first in range(0, len(lines), 20):
        await store.messages.append(session, lines[first : first + 20], end=random.random() < 0.1)
        if random.random() < 0.3:
            await store.events.append(session, NOTE)
    await index_pages(store, session, random.choice([3, 100]))

    for sequence in random.sample(range(1, len(lines)), 10):
        await store.messages.delete(session, sequence)
        for change in random.sample(CHANGES, random.choice([0, 0, 1, 2])):
            await change(store, session, lines, random)
    await index_all(store)

    words = await words_of(tables, session)
    assert await store.search.count_pending() == 0
    await store.search.reindex(session)
    assert words == await words_of(tables, session) != []
    moved = await tables.execute("SELECT moved FROM search_progress WHERE session_id = %s", [session])
    assert await moved.fetchone() == ([],)


async def append(store: Store, session: UUID, lines: Sequence[str], random: Random) -> None:
    await store.messages.append(session, lines[:5])


async def index_some(store: Store, session: UUID, lines: Sequence[str], random: Random) -> None:
    await index_pages(store, session, random.randint(1, 4))


async def index_rest(store: Store, session: UUID, lines: Sequence[str], random: Random) -> None:
    await index_all(store)


async def derive_again(store: Store, session: UUID, lines: Sequence[str], random: Random) -> None:
    if random.random() < 0.2:
        await store.events.rebuild(session)


CHANGES = [append, index_some, index_rest, derive_again]


async def test_only_the_replaced_part_is_indexed_again(
    store: Store, tables: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await create_session(store, 60)
    await index_all(store)
    before = await words_of(tables, session)
    read = record_indexed(monkeypatch)

    await store.messages.delete(session, 60)
    await index_all(store)

    after = await words_of(tables, session)
    assert 0 < len(read) < len(before) / 3
    assert [row[1:] for row in after] == [
        row[1:] for row in before if "'14'" not in row[-1] or "done" not in row[-1]
    ]


@pytest.mark.slow
async def test_deletions_before_the_words_are_moved_move_them_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await create_session(store, 40)
    await index_all(store)
    read = record_indexed(monkeypatch)

    for sequence in (60, 20, 100):
        await store.messages.delete(session, sequence)
    await index_all(store)

    assert 0 < len(read) < 90


DELETED = {
    "an answer that others depend on": (
        63,
        claude.line("assistant", [claude.text(CANARY)], {"usage": claude.USAGE}),
    ),
    "the last prompt": (76, claude.user(CANARY)),
    "a text": (63, claude.line("assistant", [claude.text(CANARY)])),
}


@pytest.mark.parametrize("indexed", slow_unless((1).__eq__, [0, 1, 2]))
@pytest.mark.parametrize("name", DELETED)
async def test_deleted_words_are_gone_whatever_is_indexed(
    store: Store, tables: AsyncConnection, monkeypatch: pytest.MonkeyPatch, name: str, indexed: int
) -> None:
    monkeypatch.setattr(moved_words, "_MAX_ROWS", 20)
    session = (await store.sessions.create()).id
    records = [record for number in range(20) for record in turn(number)]
    place, record = DELETED[name]
    records.insert(place, record)
    await store.messages.append(session, list(map(json.dumps, records)))
    await index_all(store)
    await store.messages.delete(session, 20)
    await index_pages(store, session, indexed)
    has_canary = [CANARY in row[-1] for row in await words_of(tables, session)]
    before = await store.events.get_events(session, limit=1)

    await store.messages.delete(session, place + 1)

    after = await store.events.get_events(session, limit=1)
    assert any(has_canary)
    assert not any(CANARY in row[-1] for row in await words_of(tables, session))
    assert (before == after) is (name == "a text")


@pytest.mark.parametrize("earlier", [(), (20,)])
async def test_deleted_words_are_gone_after_a_rebuild_that_is_not_indexed(
    store: Store, tables: AsyncConnection, earlier: Sequence[int]
) -> None:
    session = (await store.sessions.create()).id
    records = [record for number in range(20) for record in turn(number)]
    records.insert(63, claude.line("assistant", [claude.text(CANARY)]))
    await store.messages.append(session, list(map(json.dumps, records)))
    await index_all(store)
    for sequence in earlier:
        await store.messages.delete(session, sequence)
    await store.events.rebuild(session)

    await store.messages.delete(session, 64)

    assert not any(CANARY in row[-1] for row in await words_of(tables, session))


@pytest.mark.slow
async def test_searches_find_what_has_been_moved(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results belong to their events, also between words that wait for a move."""
    monkeypatch.setattr(moved_words, "_MAX_ROWS", 20)
    session = await create_session(store, 30)
    other = await create_session(store, 3)
    await index_all(store)
    await store.messages.delete(session, 60)
    await index_pages(store, session, 3)

    found, after = list[tuple[UUID, str]](), None
    while True:
        page = await store.search.find("task or done", limit=7, after=after)
        found += [(each.session_id, each.snippet) for each in page.results]
        for each in page.results:
            [event] = await store.events.get_events(each.session_id, after=each.event_sequence - 1, limit=1)
            assert (each.event_id, each.type) == (event.id, event.type)
        if not (after := page.next_after):
            break
    within = await store.search._find_in_session(session, "task or done")

    assert len(found) == len(set(found))
    assert {snippet for id, snippet in found if id == other} == {
        f"{word} {n}" for n in range(3) for word in ("task", "done")
    }
    assert within.hits
    assert within.total == len(within.hits) == sum(id == session for id, _ in found)


def test_words_to_move_follow_an_event() -> None:
    moved = [[1, 10, 100], [20, 30, 110]]

    assert words_to_move(moved, 101) == [Moved(1, 10, 100), Moved(20, 30, 110)]
    assert words_to_move(moved, 104) == [Moved(4, 10, 100), Moved(20, 30, 110)]
    assert words_to_move(moved, 110) == [Moved(20, 30, 110)]
    assert words_to_move(moved, 140) == []
