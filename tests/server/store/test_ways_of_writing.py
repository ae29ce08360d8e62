"""Every way of writing keeps the usage, the tool calls and the counts of a session as a rebuild would."""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.store.maintenance.backup import restore_backup, write_backup
from ash_server.store.transcripts import Copy
from ash_server.store.usage.answers import count_again
from ash_server.transfer.importing.file_import import import_file
from tests.cluster import not_on_cluster
from tests.marking import slow_unless
from tests.server.store import test_stored_answers as answers
from tests.server.store import test_stored_facts as facts
from tests.shared.records import codex
from tests.shared.records.events import token_usage, tool_call, tool_result, turn_start, wire_event

SAMPLES = sorted((Path(__file__).parents[3] / "ash_server" / "samples").glob("*.jsonl"))
LINES = [*facts.LINES, *answers.LINES]

Rows = dict[str, list[tuple[Any, ...]]]


async def read_rows(connection: AsyncConnection) -> Rows:
    return {**await answers.read_rows(connection), **await facts.read_rows(connection)}


async def append_lines(store: Store, lines: Sequence[str] = LINES) -> UUID:
    session = await store.sessions.create(source="claude")
    for line in lines:
        await store.messages.append(session.id, [line])
    return session.id


async def append_all(store: Store) -> UUID:
    session = await store.sessions.create(source="claude")
    await store.messages.append(session.id, LINES, end=True)
    return session.id


async def append_in_parts(store: Store) -> None:
    session = await store.sessions.create(source="claude")
    for start in range(0, len(LINES), 3):
        await store.messages.append(session.id, LINES[start : start + 3])


async def end(store: Store) -> None:
    await store.events.end(await append_lines(store))


async def post(store: Store) -> None:
    session = await append_lines(store, LINES[:2])
    posted = [
        turn_start(id="s"),
        wire_event("user_message", text="Posted", id="u"),
        tool_call("p1", "edit", {"path": "p.py", "old_str": "a", "new_str": "b"}, id="c"),
        tool_result("p1", "ok", id="r"),
        wire_event("turn_end", reason="done", usage=token_usage(5, 6), id="e"),
    ]
    times = [{"turnId": "t", "timestamp": 1_793_610_000_000 + 1000 * number} for number in range(5)]
    events = [{**event, **time} for event, time in zip(posted, times, strict=True)]
    await store.events.append_batch(session, events[:3])
    await store.events.append_batch(session, events[3:])
    await store.messages.append(session, LINES[2:])


async def delete_each(store: Store) -> None:
    """Two of each session, far from each other."""
    half = (len(LINES) + 1) // 2
    for sequence in range(1, half + 1):
        session = await append_all(store)
        await store.messages.delete(session, sequence)
        if sequence + half <= len(LINES):
            await store.messages.delete(session, sequence + half)


async def pop(store: Store) -> None:
    session = await append_lines(store)
    for _ in range(4):
        await store.messages.pop(session)
    await store.messages.append(session, LINES[-2:])


async def import_samples(store: Store) -> None:
    for path in SAMPLES:
        await import_file(store, path, path.name, identify=True)


async def mark_copy(store: Store) -> None:
    original, copy = await append_lines(store), await append_lines(store)
    await store.transcripts.set_copy(copy, Copy(original, 25))
    await store.messages.append(copy, [json.dumps(answers.answer(6))])


async def remove_mark(store: Store) -> None:
    copy = await append_lines(store)
    await store.transcripts.set_copy(copy, Copy(uuid4(), 25))
    await store.transcripts.set_copy(copy, None)


async def delete_original(store: Store) -> None:
    original, *copies = [await append_lines(store) for _ in range(3)]
    async with store._connections.connection() as conn:
        await conn.execute("UPDATE sessions SET lineage = ARRAY['same']")
    for number, copy in enumerate(copies):
        await store.transcripts.set_copy(copy, Copy(original, 2 * number + 23))
    await store.sessions.delete(original)


async def inherit(store: Store) -> None:
    """A subagent of Codex that begins with messages of its parent."""
    session = await store.sessions.create(source="codex")
    header: codex.Record = {"id": "c1", "parent_thread_id": "c0", "subagent_history_start_ordinal": 3}
    total = {"input_tokens": 30, "cached_input_tokens": 10, "output_tokens": 5, "total_tokens": 35}
    double = {name: 2 * count for name, count in total.items()}
    usages = [codex.token_count(each, total) for each in (total, double)]
    records = [codex.line("session_meta", **header), codex.message_item("user", "Go"), usages[0]]
    records += [codex.message_item("user", "Count"), codex.message_item("assistant", "1"), usages[1]]
    records += [codex.call_item(), codex.output_item()]
    numbered = [{**record, "ordinal": number} for number, record in enumerate(records)]
    for record in numbered:
        await store.messages.append(session.id, [json.dumps(record)])


async def reindex(store: Store) -> None:
    await store.messages.reindex(await append_lines(store))


WAYS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "append line by line": append_lines,
    "append at once": append_all,
    "append in parts": append_in_parts,
    "end": end,
    "posted events": post,
    "deletion of each message": delete_each,
    "deletion of the last messages": pop,
    "import": import_samples,
    "mark of a copy": mark_copy,
    "removal of a mark": remove_mark,
    "deletion of an original": delete_original,
    "inherited messages": inherit,
    "reindex": reindex,
}


@pytest.mark.parametrize(
    "write", slow_unless(lambda write: write is not delete_each, WAYS.values()), ids=WAYS
)
async def test_rows_are_those_of_a_rebuild(
    write: Callable[[Store], Awaitable[Any]], store: Store, connection: AsyncConnection
) -> None:
    """The sums also equal the answers."""
    await write(store)
    written = await read_rows(connection)
    sessions = [id async for id in store.sessions.list_ids()]

    assert written["answers"]
    assert written["calls"]
    await facts.check_counters(connection)
    async with store._connections.connection() as conn:
        for session in sessions:
            await count_again(conn, session)
    assert written == await read_rows(connection)
    for session in sessions:
        await store.events.rebuild(session)
    assert written == await read_rows(connection)
    await facts.check_counters(connection)


async def test_deleted_session_has_no_rows(store: Store, connection: AsyncConnection) -> None:
    await store.sessions.delete(await append_lines(store))
    session = await store.sessions.create(source="claude", external_id="again")
    await store.messages.append(session.id, LINES)
    await store.sessions.recreate(session.id, source="claude", external_id="again")

    counters = [(session.id, *[0] * 8)]
    assert await read_rows(connection) == {"answers": [], "sums": [], "calls": [], "counters": counters}


@pytest.mark.slow
@not_on_cluster("backups of clusters are restored into other databases")
async def test_backup_has_the_rows(database_url: str, bare_database_url: str, tmp_path: Path) -> None:
    async with Store.open(database_url) as store:
        await append_lines(store)
        await mark_copy(store)
    path = tmp_path / "backup.zip"
    with psycopg.connect(database_url, autocommit=True) as conn, path.open("wb") as file:
        write_backup(conn, file)
    restore_backup(bare_database_url, path)
    rows = []
    for url in (database_url, bare_database_url):
        async with await AsyncConnection.connect(url) as conn:
            rows.append(await read_rows(conn))

    assert rows[0] == rows[1]
    assert rows[0]["sums"]
    assert rows[0]["calls"]
