"""Cold sessions: their texts are in archives, and every reader restores them byte for byte."""

import asyncio
import subprocess
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any, get_args
from uuid import UUID

import psycopg
import pytest

from ash_server.errors import ArchiveDamaged, IdConflict, SessionNotFound
from ash_server.retention.cold_policy import (
    NewColdPolicy,
    check_cold_policy,
    end_cold_policy,
    get_cold_policy,
    run_cold_policy,
    set_cold_policy,
)
from ash_server.retention.cold_runner import ColdRunner
from ash_server.store import Store
from ash_server.store.cold import archiving
from ash_server.store.cold.policies import ColdBusy
from ash_server.store.connections import archive_parts
from ash_server.store.connections.archive_parts import ArchivePart, pack, unpack
from ash_server.store.connections.archived_texts import read_parts
from ash_server.store.connections.pool import direct_url
from ash_server.store.connections.tenants import get_or_create_tenant
from ash_server.store.message_pages import StoredMessage
from ash_server.store.prepare import NewMessage
from ash_server.transfer.exporting.jsonl import FORMATS
from ash_shared.model.message import StoredKind
from tests.marking import slow_after
from tests.server.trajectories import read_trajectory
from tests.shared.records.events import wire_event
from tests.waiting import TIMEOUT

LATER = datetime.now(UTC) + timedelta(days=800)
"""Long after the sessions of the tests."""

LINES = [
    '{"type":"user","uuid":"u1","message":{"role":"user","content":"Where is the zebra\\u0000? 🦓"}}',
    '{"type":"assistant","uuid":"a1","message":{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":'
    '"Read","input":{"file_path":"/zoo/zebra.txt"}}]}}',
    '{"type":"user","uuid":"u2","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",'
    '"content":"' + "striped and \\n fast " * 200 + '"}]}}',
    " not JSON at all\t",
    "",
]


async def create(store: Store, name: str = "old") -> UUID:
    session = await store.sessions.create(source="claude", external_id=name, title=f"The {name} one")
    await store.messages.append(session.id, LINES)
    posted: Any = wire_event("custom", name="note", value="kept", id="e1")
    await store.events.append(session.id, posted)
    return session.id


async def archive(store: Store, *ids: UUID) -> None:
    for id in ids:
        assert await store.cold.archive(id, LATER)


async def is_cold(store: Store) -> bool:
    return await store.cold.count() > 0


async def read_texts(store: Store, id: UUID) -> list[str]:
    return [each.content async for each in store.messages.stream_messages(id)]


async def read_log(store: Store, id: UUID) -> list[str]:
    return [each.wire() for each in await store.events.get_stored_events(id, limit=1000)]


async def export(store: Store, id: UUID) -> bytes:
    return b"".join([chunk async for chunk in FORMATS["jsonl"].export(store, id, redacts=False)])


async def by_subscription(store: Store, id: UUID) -> list[str]:
    async for batch in store.events.subscribe_stored(id):
        if batch.events:
            return [each.wire() for each in batch.events]
    raise AssertionError


READERS: dict[str, Callable[[Store, UUID], Awaitable[Any]]] = {
    "subscription": by_subscription,
    "events": read_log,
    "backwards": lambda store, id: store.events.get_stored_events(id, before=1000),
    "of an agent": lambda store, id: store.events.get_stored_events(id, agent="someone"),
    "messages": lambda store, id: store.messages.list_messages(id),
    "chunks": lambda store, id: store.messages.list_messages(id, kinds=["message", "chunk"], type="text"),
    "blocks": lambda store, id: store.messages.list_blocks(id),
    "message": lambda store, id: store.messages.get_message(id, 3),
    "conversation": lambda store, id: store.conversation.get_page(id, after=0, limit=10),
    "trajectory": read_trajectory,
    "cursor": lambda store, id: store.events.get_stored_events(id, after="e1"),
    "hits": lambda store, id: store.search.find_in_session(id, "zebra"),
    "hits of a session": lambda store, id: store.search.search("zebra", session_id=id),
}


@pytest.mark.parametrize("reader", slow_after(6, READERS))
async def test_reading_restores(store: Store, reader: str) -> None:
    id = await create(store)
    await store.search.catch_up()
    before = await READERS[reader](store, id)
    await archive(store, id)

    assert await READERS[reader](store, id) == before
    assert reader == "cursor" or not await is_cold(store)


async def test_texts_and_log_are_the_same_bytes(store: Store, database_url: str) -> None:
    id = await create(store)
    texts, log, raw = await read_texts(store, id), await read_log(store, id), await export(store, id)
    with psycopg.connect(direct_url(database_url), autocommit=True) as conn:
        rows = "SELECT * FROM messages ORDER BY sequence", "SELECT * FROM events ORDER BY sequence"
        before = [conn.execute(each).fetchall() for each in rows]
        await archive(store, id)
        ((left,),) = conn.execute("SELECT count(*) FROM messages WHERE content <> ''").fetchall()
        ((words,),) = conn.execute("SELECT count(*) FROM search").fetchall()
        with pytest.raises(psycopg.DatabaseError, match="ash cold restore"):
            conn.execute("SELECT content FROM events_full").fetchall()
        await store.cold.verify(id)
        assert await store.cold.restore(id)
        after = [conn.execute(each).fetchall() for each in rows]

    assert (left, words) == (0, 0)
    assert after == before
    assert (await read_texts(store, id), await read_log(store, id), await export(store, id)) == (
        texts,
        log,
        raw,
    )
    assert texts == LINES
    assert not await store.cold.restore(id)


async def test_long_sessions_have_several_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "_MAX_ROWS", 2)
    monkeypatch.setattr(archiving, "MAX_PART_BYTES", 100)
    id = await create(store)
    texts, log = await read_texts(store, id), await read_log(store, id)
    await archive(store, id)
    await store.cold.verify(id)

    assert await store.cold.count() == 1
    assert (await read_texts(store, id), await read_log(store, id)) == (texts, log)


async def test_lists_facts_and_titles_need_no_texts(store: Store) -> None:
    id = await create(store)
    facts = (await store.sessions.get_facts(id)).model_dump()
    await archive(store, id)
    listed = (await store.sessions.list_sessions(q="the old", edited=None)).sessions

    assert [each.id for each in listed] == [id]
    assert (await store.sessions.list_sessions(tool=["Read"])).sessions == listed
    assert (await store.sessions.with_activity(listed))[0].id == id
    found = await store.search.search("zebra")
    assert (found.results, found.cold_sessions) == ([], 1)
    assert await store.messages.list_outdated() == await store.events.list_outdated() == []
    assert await is_cold(store)
    assert (await store.sessions.get_facts(id)).model_dump() == facts


async def small_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """Archive a session in parts of two texts, with a deleted message and a later one."""
    monkeypatch.setattr(archiving, "_MAX_ROWS", 2)
    monkeypatch.setattr(archiving, "MAX_PART_BYTES", 100)
    id = await create(store)
    await store.messages.append(id, ["deleted", "after it"])
    await store.messages.delete(id, 6)
    await archive(store, id)
    await store.messages.append(id, ["later"])
    return id


async def stream(store: Store, id: UUID, **options: Any) -> list[StoredMessage]:
    return [each async for each in store.messages.stream_messages(id, **options)]


async def test_a_stream_leaves_a_session_cold(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    id = await small_parts(store, monkeypatch)
    options: list[dict[str, Any]] = [{"after": after} for after in range(9)]
    options += [{"kinds": [kind]} for kind in get_args(StoredKind)]
    cold = [await stream(store, id, **each) for each in options]
    exported = await export(store, id)

    assert await store.cold.list_cold() == [id]
    assert [each.content for each in cold[0]] == [*LINES, "after it", "later"]
    await store.cold.restore(id)
    assert cold == [await stream(store, id, **each) for each in options]
    assert exported == await export(store, id)


async def pages(store: Store, id: UUID, limit: int) -> list[StoredMessage]:
    rows, cursor = list[Any](), {"nextAfter": 0}
    while "nextAfter" in cursor:
        options: Any = {"after": cursor["nextAfter"], "limit": limit, "kinds": get_args(StoredKind)}
        page, cursor = await store.messages.list_page(id, **options)
        rows += page
    return rows


async def test_pages_of_all_texts_leave_a_session_cold(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    id = await small_parts(store, monkeypatch)
    cold = [await pages(store, id, limit) for limit in (1, 2, 3, 100)]

    assert await store.cold.list_cold() == [id]
    await store.cold.restore(id)
    assert cold == [await pages(store, id, 100)] * 4


async def test_a_session_restored_during_a_stream(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    id = await small_parts(store, monkeypatch)
    texts = []
    async for message in store.messages.stream_messages(id):
        await store.cold.restore(id)
        texts.append(message.content)

    assert texts == [*LINES, "after it", "later"]


async def test_words_are_indexed_again_after_a_restore(store: Store) -> None:
    id = await create(store)
    before = (await store.search.search("zebra")).results
    await archive(store, id)
    await store.cold.restore(id)

    found = await store.search.search("zebra")
    assert (found.results, found.cold_sessions) == (before, None)
    assert before


async def test_an_append_stores_and_the_next_run_restores(store: Store) -> None:
    id = await create(store)
    await set_cold_policy(store, NewColdPolicy("90d"))
    assert (await run_cold_policy(store, now=LATER)).archived == 1
    with pytest.raises(SessionNotFound):
        await store.messages.append(UUID(int=1), ["x"])

    await store.messages.append(id, ["new"])
    assert await is_cold(store)
    assert [each.content for each in await store.messages.list_messages(id, after=5)] == ["new"]
    run = await run_cold_policy(store, now=datetime.now(UTC))
    assert (run.archived, run.restored, run.total) == (0, 1, 0)
    assert await read_texts(store, id) == [*LINES, "new"]


async def test_without_a_policy_a_server_restores_changed_sessions(store: Store) -> None:
    id, unchanged = await create(store), await create(store, "unchanged")
    await archive(store, id, unchanged)
    await store.messages.append(id, ['{"type":"user","uuid":"u9","message":{"content":"giraffe"}}'])
    await ColdRunner(store).run_all(datetime.now(UTC))

    assert len((await store.search.search("giraffe")).results) == 1
    assert await store.cold.list_cold() == [unchanged]


async def test_a_session_restored_during_a_check_is_not_damaged(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await create(store)
    await archive(store, id)

    async def read_after_restore(conn: psycopg.AsyncConnection, session_id: UUID) -> Any:
        async for part in read_parts(conn, session_id):
            await store.cold.restore(id)
            yield part

    monkeypatch.setattr(archiving, "read_parts", read_after_restore)
    await store.cold.verify(id)
    assert not await is_cold(store)


async def test_repeated_texts_are_compared_with_the_archive(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "_MAX_ROWS", 2)
    monkeypatch.setattr(archiving, "MAX_PART_BYTES", 100)
    id = await create(store)
    stored = await store.messages.list_messages(id)
    await archive(store, id)
    await store.messages.append(id, [NewMessage("new", id="n")])
    ids = [each.id for each in stored[1:4]]
    digests = {each.id: sha256(each.content.encode()).digest() for each in stored} | {ids[-1]: b""}

    assert await store.messages.get_contents(id, ids) == dict(zip(ids, LINES[1:4], strict=True))
    assert await store.messages.get_contents(id, ["n", "unknown"]) == {"n": "new"}
    compared = await store.messages.compare_contents(id, digests)
    assert (compared.equal, compared.different) == ([each.id for each in stored[:3]], (ids[-1], LINES[3]))
    posted: Any = wire_event("custom", name="note", value="kept", id="e1")
    assert (await store.events.append(id, posted)).created is False
    places = await store.messages.append(id, LINES[:3])

    assert [(each.sequence, each.created, each.deleted) for each in places] == [
        (1, False, False),
        (2, False, False),
        (3, False, False),
    ]
    for conflict in (
        store.messages.append(id, [NewMessage("other", id=ids[0])]),
        store.events.append(id, posted | {"payload": {"name": "other", "value": None}}),
    ):
        with pytest.raises(IdConflict):
            await conflict
    assert await store.cold.list_cold() == [id]
    assert await read_texts(store, id) == [*LINES, "new"]


@pytest.mark.parametrize("sequence", [1, 5])
async def test_deleting_a_message_restores_first(store: Store, database_url: str, sequence: int) -> None:
    id = await create(store)
    await archive(store, id)
    await store.messages.delete(id, sequence)

    assert await read_texts(store, id) == LINES[: sequence - 1] + LINES[sequence:]
    with psycopg.connect(direct_url(database_url)) as conn:
        assert conn.execute("SELECT count(*) FROM cold_archives").fetchall() == [(0,)]


async def test_deleting_a_session_deletes_its_archive(store: Store, database_url: str) -> None:
    id = await create(store)
    await archive(store, id)
    await store.sessions.delete(id)

    with psycopg.connect(direct_url(database_url)) as conn:
        counts = "SELECT (SELECT count(*) FROM cold_archives), (SELECT count(*) FROM cold_sessions)"
        assert conn.execute(counts).fetchall() == [(0, 0)]


async def test_rebuild_and_reindex_restore(store: Store) -> None:
    first, second = await create(store, "first"), await create(store, "second")
    await archive(store, first, second)

    assert (await store.events.rebuild(first)).messages == len(LINES)
    assert (await store.messages.reindex(second)).read == len(LINES)
    assert not await is_cold(store)


async def test_a_session_changed_meanwhile_is_not_archived(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await create(store)
    packed = archiving._pack
    loop = asyncio.get_running_loop()

    def pack_slowly(part: ArchivePart) -> Any:
        monkeypatch.setattr(archiving, "_pack", packed)
        asyncio.run_coroutine_threadsafe(store.messages.append(id, ["meanwhile"]), loop).result(10)
        return packed(part)

    monkeypatch.setattr(archiving, "_pack", pack_slowly)
    assert not await store.cold.archive(id, LATER)
    assert not await is_cold(store)
    assert await read_texts(store, id) == [*LINES, "meanwhile"]


async def test_a_text_that_differs_from_the_archive_stays(
    store: Store, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await create(store)
    packed = archiving._pack

    def pack_other(part: ArchivePart) -> Any:
        return packed(ArchivePart([(sequence, text + " ") for sequence, text in part.messages], part.events))

    monkeypatch.setattr(archiving, "_pack", pack_other)
    assert not await store.cold.archive(id, LATER)
    assert await read_texts(store, id) == LINES
    with psycopg.connect(direct_url(database_url)) as conn:
        assert conn.execute("SELECT count(*) FROM cold_archives").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE cold_archives SET data = set_byte(data, 40, 255 - get_byte(data, 40))",
        "DELETE FROM cold_archives",
    ],
)
async def test_a_damaged_archive_is_an_error_that_names_the_session(
    store: Store, database_url: str, damage: str
) -> None:
    id = await create(store)
    await archive(store, id)
    with psycopg.connect(direct_url(database_url), autocommit=True) as conn:
        conn.execute(damage)

    for reading in (store.cold.verify(id), read_texts(store, id), read_log(store, id), export(store, id)):
        with pytest.raises(ArchiveDamaged, match=str(id)):
            await reading
    assert (await store.sessions.get(id)).id == id
    await set_cold_policy(store, NewColdPolicy("90d"))
    await run_cold_policy(store)


@pytest.mark.parametrize("reader", ["outside a transaction", "in a transaction"])
async def test_missing_texts_of_a_session_that_is_not_cold_are_an_error(
    store: Store, database_url: str, reader: str
) -> None:
    id = await create(store)
    await archive(store, id)
    with psycopg.connect(direct_url(database_url), autocommit=True) as conn:
        conn.execute("DELETE FROM cold_sessions")

    reading: Any = read_log(store, id) if reader == "outside a transaction" else store.events.rebuild(id)
    with pytest.raises(ArchiveDamaged, match=str(id)):
        await asyncio.wait_for(reading, TIMEOUT)


async def test_tenants_archive_and_restore_only_their_sessions(store: Store, database_url: str) -> None:
    async with store._connections.owner() as conn:
        other = store.for_tenant(await get_or_create_tenant(conn, "red"))
    mine, theirs = await create(store), await create(other)
    await archive(store, mine)
    await archive(other, theirs)

    assert not await other.cold.archive(mine, LATER)
    assert not await other.cold.restore(mine)
    assert await other.cold.list_cold() == [theirs]
    assert await read_texts(other, theirs) == LINES
    assert await other.cold.restore(theirs)
    assert await store.cold.list_cold() == [mine]
    with psycopg.connect(direct_url(database_url)) as conn:
        owners = "SELECT DISTINCT tenant FROM search_progress WHERE session_id = %s"
        assert conn.execute(owners, [theirs]).fetchall() == [(other.tenant.number,)]


async def test_many_readers_restore_once(store: Store) -> None:
    id = await create(store)
    await archive(store, id)
    results = await asyncio.gather(*(read_texts(store, id) for _ in range(12)))

    assert results == [LINES] * 12


async def test_policy_and_runs(store: Store) -> None:
    old = await create(store)
    await set_cold_policy(store, NewColdPolicy("90d"))
    planned = await run_cold_policy(store, is_dry_run=True, now=LATER)
    assert (planned.archived, planned.total, await is_cold(store)) == (1, 1, False)

    await check_cold_policy(store, now=LATER)
    shown = await get_cold_policy(store)
    assert (shown.age, shown.sessions, shown.checked_at) == ("90d", 1, LATER)
    assert shown.text_bytes > shown.archive_bytes > 0
    assert await store.cold.restore(old)
    again = await run_cold_policy(store, now=datetime.now(UTC) + timedelta(days=89))
    assert again.archived == 0  # a restore counts as a use
    assert (await run_cold_policy(store, now=LATER)).archived == 1
    await end_cold_policy(store)
    assert (await get_cold_policy(store)).sessions == 1


async def test_a_session_that_cannot_be_archived_is_skipped(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await create(store, "first")
    second = await create(store, "second")
    packed = archiving._pack

    def fail_once(part: ArchivePart) -> Any:
        monkeypatch.setattr(archiving, "_pack", packed)
        raise psycopg.errors.QueryCanceled

    monkeypatch.setattr(archiving, "_pack", fail_once)
    await set_cold_policy(store, NewColdPolicy("90d"))
    assert (await run_cold_policy(store, now=LATER)).archived == 1
    assert await store.cold.list_cold() == [second]
    assert "cannot archive session" in caplog.text


async def test_one_process_at_a_time(store: Store) -> None:
    await set_cold_policy(store, NewColdPolicy("90d"))
    await store.cold.extend_lease(store.tenant)
    with pytest.raises(ColdBusy):
        await run_cold_policy(store)
    await ColdRunner(store).run_all(LATER)
    await store.cold.end_lease(store.tenant)
    await create(store)
    await ColdRunner(store).run_all(LATER)
    assert await is_cold(store)


def test_parts_read_back() -> None:
    part = ArchivePart([(1, "é\x01🦓"), (2**40, " ")], [(3, "{}")])
    packed = pack(part)

    assert unpack(packed.data, packed.digest) == part
    assert archive_parts.MAX_PART_BYTES == 8 << 20
    with pytest.raises(ValueError, match="digest"):
        unpack(packed.data + b"x", packed.digest)


IMAGE = b64encode(Random(1).randbytes(150_000)).decode()


@pytest.mark.parametrize(
    ("text", "is_xz"), [(IMAGE, False), (IMAGE + IMAGE, True), ("a few words " * 20_000, True)]
)
def test_only_compressible_texts_are_in_xz(text: str, is_xz: bool) -> None:
    part = ArchivePart([(1, text)], [])
    packed = pack(part)

    assert packed.data.startswith(b"\xfd7zXZ") == is_xz
    assert len(packed.data) < 0.8 * len(text)
    assert unpack(packed.data, packed.digest) == part


KILLED = """
import asyncio, os, signal, sys
from datetime import UTC, datetime, timedelta
from uuid import UUID
from ash_server.store import Store
from ash_server.store.connections.driver import Connection

url, id = sys.argv[1], UUID(sys.argv[2])
later = datetime.now(UTC) + timedelta(days=800)

async def run(work):
    async with Store.connect(url) as store:
        await store.sessions.get(id)
        await work(store)

def killed_before(number, work):
    def begin_to_count():
        wait, count = Connection.wait, 0
        async def counting(self, *args, **kwargs):
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return await wait(self, *args, **kwargs)
        Connection.wait = counting

    async def counted(store):
        begin_to_count()
        await work(store)

    child = os.fork()
    if not child:
        asyncio.run(run(counted))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

async def archive(store):
    await store.cold.archive(id, later)

async def restore(store):
    await store.cold.restore(id)

async def check(store):
    sessions = await store.cold.count()
    if sessions:
        await store.cold.verify(id)
    states.append(sessions)

states = []
for work in (archive, restore):
    number = 1
    while killed_before(number, work):
        asyncio.run(run(check))
        number += 1
    asyncio.run(run(check))
    print(work.__name__, number - 1, *states, flush=True)
    states.clear()
"""


@pytest.mark.slow
async def test_a_process_killed_at_any_step_loses_nothing(store: Store, database_url: str) -> None:
    id = await create(store)
    before = await read_texts(store, id), await read_log(store, id)
    arguments = [sys.executable, "-c", KILLED, database_url, str(id)]
    ran = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, check=False)
    lines = [line.split() for line in ran.stdout.splitlines()]

    assert [name for name, *_ in lines] == ["archive", "restore"], ran.stderr
    for (_, kills, *states), (first, last) in zip(lines, [("0", "1"), ("1", "0")], strict=True):
        assert int(kills) > 10
        assert (states[0], states[-1]) == (first, last)
        assert sorted(states, reverse=first == "1") == states  # archived or not, once and for all
    assert (await read_texts(store, id), await read_log(store, id)) == before
