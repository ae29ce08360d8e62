"""Sessions, as far as no route can test them: simultaneous calls, and arguments that only the functions accept."""

import json
from asyncio import create_task, gather
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.errors import InvalidParameter, InvalidUtf8, NulByte, SessionNotFound
from ash_server.ids import uuid7
from ash_server.store.connections.pool import connect
from ash_server.store.lists.session_lists import list_sessions
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.session_rows import find_sessions, get_session
from ash_server.store.sessions import (
    create_session,
    delete_session,
    find_named,
    lacks_final_newline,
    session_id_for,
    set_lacks_final_newline,
    set_parent,
)
from ash_shared.model.session import Session, transcript_name
from tests.server.transcripts import TRANSCRIPT_NAMES
from tests.shared.records import claude
from tests.waiting import until_blocked

UNKNOWN_SESSION = UUID("00000000-0000-4000-8000-000000000000")


def nest(levels: int) -> dict[str, Any]:
    return {"a": nest(levels - 1)} if levels else {}


def shape(session: Session) -> dict[str, Any]:
    """The session as JSON, without timestamps."""
    dumped = session.model_dump(mode="json")
    return {key: value for key, value in dumped.items() if not key.endswith("At")}


def test_names_of_transcripts() -> None:
    assert {path: transcript_name(path) for path in TRANSCRIPT_NAMES} == TRANSCRIPT_NAMES


async def test_finds_stored_sessions_of_a_source_by_name(connection: AsyncConnection) -> None:
    stored = (await create_session(connection, source="otel", external_id="a")).session.id
    await create_session(connection, source="other", external_id="b")

    assert await find_named(connection, "otel", ["a", "b", "c"]) == {"a": stored}


async def test_shows_the_parent_while_it_is_stored(connection: AsyncConnection) -> None:
    parent = session_id_for("claude", "parent")
    named = (await create_session(connection)).session.id
    unnamed = (await create_session(connection, parent_id=parent)).session.id
    await set_parent(connection, named, parent, "parent")

    async def shown() -> list[dict[str, Any]]:
        keys = ("parentId", "parentExternalId")
        shapes = [shape(await get_session(connection, each)) for each in (named, unnamed)]
        return [{key: each[key] for key in keys if key in each} for each in shapes]

    before = await shown()
    await create_session(connection, source="claude", external_id="parent")
    stored = await shown()
    await delete_session(connection, parent)

    assert (
        before
        == await shown()
        == [
            {"parentExternalId": "parent"},
            {"parentExternalId": str(parent)},
        ]
    )
    assert stored == [{"parentId": str(parent)}] * 2


async def test_finds_the_main_session_by_the_id_of_the_provider(connection: AsyncConnection) -> None:
    """Subagents have the same id, also without a stored parent."""
    ids = [(await create_session(connection)).session.id for _ in range(3)]
    for each in ids:
        line = json.dumps(claude.line("user", "hi", sessionId="theirs"))
        await append(connection, each, [prepare_message(each, line)])
    await set_parent(connection, ids[1], ids[0])
    await set_parent(connection, ids[2], session_id_for("claude", "elsewhere"), "elsewhere")

    assert [each.id for each in await find_sessions(connection, "theirs")] == [ids[0]]


async def test_keeps_the_first_parent(connection: AsyncConnection) -> None:
    session_id = (await create_session(connection)).session.id
    for name in ("first", "second"):
        await set_parent(connection, session_id, session_id_for("claude", name), name)

    assert (await get_session(connection, session_id)).parent_external_id == "first"


async def test_concurrent_creates_return_one_session(database_url: str) -> None:
    async def create() -> tuple[UUID, bool]:
        async with await connect(database_url) as conn:
            session, created = await create_session(conn, source="claude", external_id="hot")
            return session.id, created

    outcomes = await gather(*(create() for _ in range(12)))

    assert sorted(created for _, created in outcomes) == [False] * 11 + [True]
    assert {session_id for session_id, _ in outcomes} == {session_id_for("claude", "hot")}


def test_derived_ids_are_stable() -> None:
    assert str(session_id_for("claude", "projects/a/b.jsonl")) == "5143c82b-3db7-52b5-a31e-0d3960974e1d"
    assert session_id_for("a", "bc") != session_id_for("ab", "c")


def test_random_ids_are_valid_and_in_the_order_of_their_creation() -> None:
    ids = [uuid7() for _ in range(1000)]

    assert {(each.version, each.variant) for each in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 1000
    assert ids == sorted(ids)


async def test_pages_of_sessions_of_the_same_time_are_consecutive(connection: AsyncConnection) -> None:
    async with connection.transaction():
        for number in range(7):
            await create_session(connection, title=str(number))
    pages, after = [], None
    while True:
        page = await list_sessions(connection, after=after, limit=3)
        pages.append([session.id for session in page.sessions])
        if "nextAfter" not in page.model_dump():
            break
        after = page.model_dump()["nextAfter"]

    ids = sorted((each for page_ids in pages for each in page_ids), reverse=True)
    assert len(set(ids)) == 7
    assert pages == [ids[:3], ids[3:6], ids[6:]]


REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"title": "\ud800"}, InvalidUtf8),
    ({"source": "\0"}, NulByte),
    ({"external_id": "\udfff"}, InvalidUtf8),
    ({"metadata": {"a": "\ud800"}}, InvalidUtf8),
    ({"metadata": nest(201)}, InvalidParameter),
]


async def test_rejects_invalid_fields(connection: AsyncConnection) -> None:
    for fields, refusal in REFUSED:
        with pytest.raises(refusal):
            await create_session(connection, **fields)

    assert (await list_sessions(connection)).sessions == []


async def test_rejects_unknown_session(connection: AsyncConnection) -> None:
    for call in (
        lacks_final_newline(connection, UNKNOWN_SESSION),
        set_lacks_final_newline(connection, UNKNOWN_SESSION, True),
    ):
        with pytest.raises(SessionNotFound):
            await call


async def test_finds_sessions_by_id_prefix_or_external_id(connection: AsyncConnection) -> None:
    twins = [UUID(f"abcdef00-0000-4000-8000-00000000000{digit}") for digit in (1, 2)]
    for twin in twins:
        await create_session(connection, id=twin)
    named, _ = await create_session(connection, id=uuid4(), external_id="abcdef")
    other, _ = await create_session(connection, source="codex", id=uuid4(), external_id="abcdef")

    async def find(reference: str) -> set[UUID]:
        return {session.id for session in await find_sessions(connection, reference)}

    references = {
        str(twins[0]): {twins[0]},
        str(twins[0]).upper(): {twins[0]},
        twins[1].hex: {twins[1]},
        "abcdef00-0000": set(twins),
        "abcdef": {named.id, other.id},
        str(UNKNOWN_SESSION): set(),
        "": set(),
        "-": set(),
        "xyz": set(),
        "a" * 33: set(),
        "%": set(),
    }
    assert {reference: await find(reference) for reference in references} == references


async def test_stores_whether_import_is_unterminated(connection: AsyncConnection, session_id: UUID) -> None:
    seen = [await lacks_final_newline(connection, session_id)]
    for lacks_newline in (True, False):
        await set_lacks_final_newline(connection, session_id, lacks_newline)
        seen.append(await lacks_final_newline(connection, session_id))

    assert seen == [False, True, False]


async def test_a_longer_import_decides_on_the_final_newline(
    store: Store, connection: AsyncConnection, session_id: UUID
) -> None:
    """The shorter import waits for the messages of the longer one, and changes nothing."""
    lines = [json.dumps(claude.line("user", text, uuid=text)) for text in ("Open.", "Close.")]
    first, second = [prepare_message(session_id, each) for each in lines]
    await append(connection, session_id, [first])
    async with connection.transaction():
        await append(connection, session_id, [second])
        shorter = create_task(store.sessions.set_lacks_final_newline(session_id, True, last_message=first.id))
        await until_blocked(shorter, connection)
    await shorter

    assert not await store.sessions.lacks_final_newline(session_id)
