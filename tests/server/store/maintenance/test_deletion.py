"""Deleting a message or a session: the text and everything derived from it goes, the place of a message stays."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection, sql

from ash_server import NewMessage, Store
from ash_server.errors import MessageNotFound
from ash_server.store.connections.pool import connect, libpq_url
from ash_server.store.log import kept_states, rebuild
from ash_server.store.log.writer import StreamIds
from ash_server.store.maintenance.vacuum import vacuum
from ash_shared.model.events import ChatEvent
from tests.cluster import not_on_cluster
from tests.marking import slow_after
from tests.shared.records import codex
from tests.shared.records.claude import call, line
from tests.shared.records.events import wire_event
from tests.shared.records.openai_chat import delta_chunk
from tests.waiting import until, wait_until

CANARY = "zqcanary7"
BIG = f"{CANARY} {'word ' * 200}"
"""Large enough for events that refer to the text of their message."""


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with Store.open(database_url) as store:
        yield store


@pytest.fixture(autouse=True)
def without_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive also short logs without a lock, with a state after each message."""
    monkeypatch.setattr(rebuild, "_MAX_LOCKED", 0)
    monkeypatch.setattr(kept_states, "INTERVAL", 1)


@pytest.fixture
async def tables(database_url: str) -> AsyncIterator[AsyncConnection]:
    async with await connect(database_url) as conn:
        yield conn


async def places_of(tables: AsyncConnection, text: str) -> list[str]:
    """Return the tables that contain a text in any column, also as bytes."""
    names = await (
        await tables.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    ).fetchall()
    found = []
    for (name,) in names:
        query = sql.SQL("SELECT count(*) FROM {table} AS entry WHERE entry::text ILIKE ANY(%s)")
        patterns = [f"%{text}%", f"%{text.encode().hex()}%"]
        row = await (await tables.execute(query.format(table=sql.Identifier(name)), [patterns])).fetchone()
        found += [name] if row and row[0] else []
    return sorted(found)


def claude(type: str, uuid: str, content: Any, **fields: Any) -> str:
    return json.dumps(line(type, content, uuid=uuid, **fields))


def delta(content: str | None, reason: str | None = None) -> str:
    return json.dumps(delta_chunk({"content": content} if content else {}, reason))


class Case(NamedTuple):
    messages: Sequence[str | NewMessage]
    deleted: tuple[int, ...]
    """The messages with the canary."""
    is_reset: bool = False
    """True if other events depend on the message."""


TOOL_USE = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"echo {BIG}"}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": BIG}
GO = claude("user", "u0", "go")
DONE = claude("assistant", "u9", [{"type": "text", "text": "done"}])

CODEX = tuple(
    map(
        json.dumps,
        (
            codex.line("session_meta", id="s1", cwd="/w"),
            codex.event("user_message", message=BIG),
            codex.message_item("user", BIG),
            codex.event("agent_message", message="ok"),
        ),
    )
)

CASES = {
    "only message": Case([claude("user", "u1", BIG)], (1,)),
    "last prompt": Case([GO, DONE, claude("user", "u1", BIG)], (3,)),
    "first prompt": Case([claude("user", "u1", BIG), DONE], (1,), is_reset=True),
    "answer": Case([GO, claude("assistant", "u1", [{"type": "text", "text": BIG}]), DONE], (2,)),
    "thinking": Case(
        [GO, claude("assistant", "u1", [{"type": "thinking", "thinking": BIG, "signature": CANARY}]), DONE],
        (2,),
    ),
    "call": Case([GO, claude("assistant", "u1", [TOOL_USE]), DONE], (2,)),
    "call with a result": Case(
        [
            GO,
            claude("assistant", "u1", [TOOL_USE]),
            claude("user", "u2", [{**TOOL_RESULT, "content": "ok"}]),
            DONE,
        ],
        (2,),
        is_reset=True,
    ),
    "calls with a file and a task": Case(
        [
            GO,
            claude("assistant", "u1", [call("w", "Write", file_path=f"/{CANARY}", content=CANARY)]),
            claude(
                "assistant", "u2", [call("t", "TodoWrite", todos=[{"content": CANARY, "status": "pending"}])]
            ),
            DONE,
        ],
        (2, 3),
    ),
    "result": Case(
        [
            GO,
            claude("assistant", "u1", [{**TOOL_USE, "input": {}}]),
            claude("user", "u2", [TOOL_RESULT], toolUseResult={"stdout": CANARY}),
            DONE,
        ],
        (3,),
    ),
    "all fields of a line": Case(
        [
            GO,
            claude(
                "assistant",
                "u1",
                [{"type": "text", "text": BIG}, {"type": f"new_{CANARY}", "value": CANARY}],
                cwd=f"/{CANARY}",
                gitBranch=CANARY,
                version=CANARY,
                sessionId=CANARY,
                slug=CANARY,
            ),
            DONE,
        ],
        (2,),
    ),
    "title": Case([GO, json.dumps({"type": "summary", "summary": CANARY, "leafUuid": "u0"}), DONE], (2,)),
    "copy, then original": Case(CODEX, (3, 2)),
    "original, then copy": Case(CODEX, (2, 3), is_reset=True),
    "chunk of a stream": Case(
        [delta("one "), delta(f"{CANARY} "), delta("two"), delta(None, "stop")],
        (2,),
        is_reset=True,
    ),
    "chunk of an open stream": Case([delta("one "), delta(f"{CANARY} ")], (2,)),
    "chunk of a long open stream": Case(
        [delta("one "), delta(f"{CANARY} "), *[delta("word " * 100) for _ in range(6)]], (2,)
    ),
    "event": Case([GO, json.dumps(wire_event("user_message", text=BIG, id="e1", timestamp=5)), DONE], (2,)),
    "plain text": Case([GO, NewMessage(BIG, role="assistant", source="unknown"), DONE], (2,)),
    "not JSON": Case([GO, NewMessage(f'{{"{CANARY}', source="claude"), DONE], (2,)),
    "error": Case(
        [GO, claude("assistant", "u1", [{"type": "text", "text": CANARY}], isApiErrorMessage=True), DONE],
        (2,),
    ),
    "code of an error": Case(
        [
            GO,
            DONE,
            claude("assistant", "u1", "x", isApiErrorMessage=True, error=CANARY),
            claude("user", "u2", "next"),
        ],
        (3,),
    ),
}


async def stored_log(store: Store, session: UUID) -> list[ChatEvent]:
    """Return the events after the last reset, without the retractions of deletions."""
    events = await store.events.get_events(session, limit=1000)
    resets = [index for index, event in enumerate(events) if event.type == "reset"]
    kept = events[resets[-1] + 1 :] if resets else events
    return [each for each in kept if each.model_dump()["payload"].get("reason") != "deleted"]


def content_of(events: Sequence[ChatEvent]) -> list[dict[str, Any]]:
    ignored = {"sequence", "timestamp", "messageSequence", "id", "turnId", "sessionId", "recordId"}
    return [{key: each[key] for key in each.keys() - ignored} for each in (e.model_dump() for e in events)]


@pytest.mark.parametrize("name", slow_after(7, CASES))
async def test_nothing_of_the_text_remains(store: Store, tables: AsyncConnection, name: str) -> None:
    case = CASES[name]
    session = (await store.sessions.create()).id
    for each in case.messages:
        await store.messages.append(session, [each])
    await index(store)
    before = await store.events.get_events(session, limit=1000)
    assert "messages" in await places_of(tables, CANARY)

    for sequence in case.deleted:
        deleted = await store.messages.delete(session, sequence)
        assert deleted is not None
        assert CANARY in deleted.content

    assert await places_of(tables, CANARY) == []
    after = await store.events.get_events(session, limit=1000)
    assert any(each.type == "reset" for each in after) == case.is_reset
    assert case.is_reset or len(after) == len(before) + len(case.deleted)
    sequences = [each.sequence or 0 for each in after]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    log = await stored_log(store, session)
    await store.events.rebuild(session)
    await store.messages.reindex(session)
    assert content_of(await stored_log(store, session)) == content_of(log)
    await index(store)
    assert await places_of(tables, CANARY) == []


@pytest.mark.slow
async def test_the_rest_is_as_if_the_message_had_not_been_stored(store: Store) -> None:
    assert [name for name, case in CASES.items() if await differs_from_rest(store, case)] == []


async def differs_from_rest(store: Store, case: Case) -> bool:
    """Compare a session after a deletion with one that never stored the message."""
    session, other = (await store.sessions.create()).id, (await store.sessions.create()).id
    for number, each in enumerate(case.messages, 1):
        await store.messages.append(session, [each])
        if number not in case.deleted:
            await store.messages.append(other, [each])
    for sequence in case.deleted:
        await store.messages.delete(session, sequence)
    for id in (session, other):
        await store.messages.append(id, [claude("user", "next", "and then?")], end=True)

    logs = [content_of(await stored_log(store, id)) for id in (session, other)]
    ours, theirs = [(await store.sessions.get(id)).model_dump() for id in (session, other)]
    names = {"title", "source", "firstAt", "lastAt", "errorCount", "unrecognisedCount", "metadata", "prompt"}
    return logs[0] != logs[1] or any(ours.get(name) != theirs.get(name) for name in names)


@pytest.mark.slow
async def test_nothing_of_deleted_sessions_remains(store: Store, tables: AsyncConnection) -> None:
    created = [await store.sessions.create(title=CANARY, metadata={CANARY: CANARY}) for _ in CASES]
    for session, case in zip(created, CASES.values(), strict=True):
        await store.messages.append(session.id, case.messages)
        await store.events.append(session.id, wire_event("user_message", text=CANARY))
    await index(store)

    for session in created:
        await store.sessions.delete(session.id)

    assert await places_of(tables, CANARY) == []


@not_on_cluster("the files are on the workers")
async def test_deleted_texts_are_in_no_file_after_a_vacuum(store: Store, database_url: str) -> None:
    """Searches the files of the tables, which a superuser can read."""
    session = (await store.sessions.create()).id
    await store.messages.append(session, [claude("user", "u1", CANARY)])
    await index(store)
    await store.sessions.delete(session)

    with psycopg.connect(libpq_url(database_url), autocommit=True) as conn:
        conn.execute("CHECKPOINT")
        assert files_with(conn, CANARY)
        wait_until(lambda: not files_after_vacuum(conn, CANARY))


def files_after_vacuum(conn: psycopg.Connection, text: str) -> list[str]:
    """Return what contains the text after a vacuum, which leaves rows that an older transaction can see."""
    vacuum(conn)
    conn.execute("CHECKPOINT")
    return files_with(conn, text)


def files_with(conn: psycopg.Connection, text: str) -> list[str]:
    """Return the tables, indexes and TOAST tables with the text in their files."""
    query = """
        SELECT oid::regclass::text, pg_read_binary_file(pg_relation_filepath(oid), 0, 100000000)
        FROM pg_class WHERE relkind IN ('r', 't', 'i') AND oid >= 16384 AND pg_relation_size(oid) > 0
    """
    return [name for name, data in conn.execute(query) if text.encode() in data]


@pytest.mark.slow
async def test_follower_receives_the_retraction_once(store: Store) -> None:
    assert [name for name, case in CASES.items() if not await is_retracted_once(store, case)] == []


async def is_retracted_once(store: Store, case: Case) -> bool:
    """Follow a session while its message is deleted: True if there is one retraction, and no event is missing."""
    session = (await store.sessions.create()).id
    await store.messages.append(session, case.messages)
    sequence = case.deleted[0]
    stored = await store.events.get_events(session)
    own = [each.id for each in stored if each.message_sequence == sequence]
    received = list[ChatEvent]()
    async with aclosing(store.events.subscribe(session)) as events:
        async for event in events:
            received.append(event)
            if len(received) == len(stored):
                await store.messages.delete(session, sequence)
                await store.messages.delete(session, sequence)
                await store.events.append(session, wire_event("error", code="last", message=""))
            if event.model_dump()["payload"].get("code") == "last":
                break

    payloads = [each.model_dump()["payload"] for each in received]
    retractions = [payload for payload in payloads if "messageSequences" in payload]
    expected = {"eventIds": own, "messageSequences": [sequence], "reason": "deleted"}
    is_complete = [each.sequence for each in received] == list(range(1, len(received) + 1))
    return is_complete and retractions == [expected]


async def test_log_with_turns_of_the_writer_and_posted_events(store: Store) -> None:
    logs = []
    for deletes in (True, False):
        session = (await store.sessions.create()).id
        await store.messages.append(session, [GO, DONE], ids=StreamIds(turn_id="t1"))
        posted = wire_event("user_message", text="posted", id="p1", turnId="t2")
        await store.events.append(session, posted)
        if deletes:
            line = claude("assistant", "u2", [{"type": "text", "text": CANARY}])
            await store.messages.append(session, [line], ids=StreamIds(turn_id="t2"))
        await store.events.append(session, {**posted, "id": "p2"})
        if deletes:
            assert await store.messages.delete(session, 3) is not None
        line = claude("assistant", "u3", [{"type": "text", "text": "end"}])
        await store.messages.append(session, [line], ids=StreamIds(turn_id="t2"), end=True)
        logs.append(await stored_log(store, session))

    deleted, expected = logs
    assert content_of(deleted) == content_of(expected)
    assert [each.id for each in deleted if not each.message_sequence and each.type == "user_message"] == [
        "p1",
        "p2",
    ]


async def test_log_of_an_older_version_is_derived_again(store: Store, tables: AsyncConnection) -> None:
    session = (await store.sessions.create()).id
    await store.messages.append(session, [GO, claude("assistant", "u1", CANARY), DONE])
    await tables.execute("UPDATE session_counters SET normalizer_version = 1")

    await store.messages.delete(session, 2)

    assert (await store.events.get_events(session))[0].type == "reset"
    assert await store.events.list_outdated() == []


async def test_nothing_of_the_state_remains_after_the_last_message(
    store: Store, tables: AsyncConnection
) -> None:
    session = (await store.sessions.create()).id
    lines = [claude("user", f"u{n}", f"task {n}", timestamp=f"2026-01-01T00:00:0{n}.000Z") for n in range(2)]
    await store.messages.append(session, lines)

    while await store.messages.pop(session):
        pass

    rows = await tables.execute(
        "SELECT normalizer_state FROM session_counters WHERE session_id = %s", [session]
    )
    assert await rows.fetchall() == [(None,)]


@pytest.mark.slow
async def test_appends_and_deletions_at_the_same_time(store: Store, tables: AsyncConnection) -> None:
    session = (await store.sessions.create()).id
    count = 30

    async def append() -> None:
        for number in range(count):
            line = claude("user", f"u{number}", f"{CANARY} {number}")
            await store.messages.append(session, [line])

    async def delete() -> None:
        for sequence in range(1, count + 1):
            while True:
                with suppress(MessageNotFound):
                    await store.messages.delete(session, sequence)
                    break

    async def pop() -> list[int]:
        popped = [await store.messages.pop(session) for _ in range(count // 2)]
        return [each.sequence for each in popped if each is not None]

    _, _, popped, others, _ = await asyncio.gather(append(), delete(), pop(), pop(), index(store))
    await index(store)

    assert len({*popped, *others}) == len(popped) + len(others)
    tombstones = await store.messages.list_messages(session, kinds=("deleted",), limit=100)
    assert [each.sequence for each in tombstones] == list(range(1, count + 1))
    assert await places_of(tables, CANARY) == []
    log = [each.sequence or 0 for each in await store.events.get_events(session, limit=1000)]
    assert log == list(range(log[0], log[0] + len(log)))


async def index(store: Store) -> None:
    await until(store.search.index_pending)
