"""Sessions: made once, found again, listed by what happened last."""

import json
from asyncio import gather
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import AsyncConnection

from ash_server.db.connection import connect
from ash_server.db.messages import append
from ash_server.db.sessions import (
    Session,
    create_session,
    delete_session,
    find_sessions,
    get_session,
    is_unterminated,
    list_sessions,
    session_id_for,
    set_unterminated,
    update_session,
    uuid7,
)
from ash_server.errors import InvalidParameter, InvalidUtf8, NulByte, SessionNotFound
from ash_server.ingest import prepare_message

STRANGER = UUID("00000000-0000-4000-8000-000000000000")


def nest(levels: int) -> dict[str, Any]:
    return {"a": nest(levels - 1)} if levels else {}


def shape(session: Session) -> dict[str, Any]:
    """As it leaves over the wire, without its times."""
    dumped = session.model_dump(mode="json")
    return {key: value for key, value in dumped.items() if not key.endswith("At")}


async def titles(connection: AsyncConnection, **wanted: Any) -> list[Any]:
    return [session.title for session in (await list_sessions(connection, **wanted)).sessions]


async def test_a_new_session_has_what_was_said_of_it(connection: AsyncConnection) -> None:
    session, created = await create_session(
        connection,
        source="claude",
        external_id="projects/a/b.jsonl",
        parent_id=STRANGER,
        title="Ünïcode\nand lines",
        metadata={"nul": "a\0b", "big": 2**70, "deep": {"list": [1, None, True, 1.5]}},
    )

    assert created
    assert shape(session) == {
        "id": str(session_id_for("claude", "projects/a/b.jsonl")),
        "source": "claude",
        "externalId": "projects/a/b.jsonl",
        "parentId": str(STRANGER),
        "title": "Ünïcode\nand lines",
        "messageCount": 0,
        "eventCount": 0,
        "errorCount": 0,
        "unrecognisedCount": 0,
        "metadata": {"nul": "a\0b", "big": 2**70, "deep": {"list": [1, None, True, 1.5]}},
    }
    assert session == await get_session(connection, session.id)


async def test_keys_of_which_nothing_is_known_are_absent(connection: AsyncConnection) -> None:
    session, _ = await create_session(connection)

    assert session.id.version == 7
    assert set(session.model_dump(mode="json")) == {
        "id",
        "source",
        "createdAt",
        "updatedAt",
        "messageCount",
        "eventCount",
        "errorCount",
        "unrecognisedCount",
        "metadata",
    }


async def test_an_external_id_is_one_session(connection: AsyncConnection) -> None:
    first = await create_session(connection, source="codex", external_id="x", title="first")
    again = await create_session(connection, source="codex", external_id="x", title="again")
    other = await create_session(connection, source="claude", external_id="x")
    empty = await create_session(connection, source="codex", external_id="")

    assert again == (first.session, False)
    assert len({first.session.id, other.session.id, empty.session.id}) == 3


async def test_writers_that_race_get_one_session(database_url: str) -> None:
    async def create() -> tuple[UUID, bool]:
        async with await connect(database_url) as conn:
            session, created = await create_session(conn, source="claude", external_id="hot")
            return session.id, created

    outcomes = await gather(*(create() for _ in range(12)))

    assert sorted(created for _, created in outcomes) == [False] * 11 + [True]
    assert {session_id for session_id, _ in outcomes} == {session_id_for("claude", "hot")}


def test_ids_that_were_computed_once_stay_as_they_are() -> None:
    assert str(session_id_for("claude", "projects/a/b.jsonl")) == "5143c82b-3db7-52b5-a31e-0d3960974e1d"
    assert session_id_for("a", "bc") != session_id_for("ab", "c")


def test_random_ids_are_ordered_by_time_and_valid() -> None:
    ids = [uuid7() for _ in range(1000)]

    assert {(each.version, each.variant) for each in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 1000
    assert [each.int >> 80 for each in ids] == sorted(each.int >> 80 for each in ids)


async def test_the_list_has_the_newest_activity_first(connection: AsyncConnection) -> None:
    ids = {title: (await create_session(connection, title=title)).session.id for title in "abcd"}
    await append(connection, ids["b"], [prepare_message(ids["b"], "hello")])
    await update_session(connection, ids["a"], metadata={"seen": True})

    assert await titles(connection) == ["a", "b", "d", "c"]


async def test_pages_of_the_list_follow_each_other(connection: AsyncConnection) -> None:
    async with connection.transaction():  # one moment for all of them: the id decides
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


async def test_a_last_page_that_is_full_says_so(connection: AsyncConnection) -> None:
    for _ in range(2):
        await create_session(connection)

    assert "nextAfter" not in (await list_sessions(connection, limit=2)).model_dump()
    assert "nextAfter" in (await list_sessions(connection, limit=1)).model_dump()


async def test_the_list_can_be_narrowed(connection: AsyncConnection) -> None:
    await create_session(connection, source="claude", title="Fix the PARSER", external_id="one.jsonl")
    await create_session(connection, source="codex", title="100% done_", external_id="two.jsonl")
    await create_session(connection, source="codex", title="İstanbul")

    found = {
        "codex": await titles(connection, source="codex"),
        "parser": await titles(connection, q="parser"),
        "ONE.JSON": await titles(connection, q="ONE.JSON"),
        "%": await titles(connection, q="%"),
        "codex, .jsonl": await titles(connection, source="codex", q=".jsonl"),
        "nothing": await titles(connection, q="' OR true --"),
    }

    assert found == {
        "codex": ["İstanbul", "100% done_"],
        "parser": ["Fix the PARSER"],
        "ONE.JSON": ["Fix the PARSER"],
        "%": ["100% done_"],
        "codex, .jsonl": ["100% done_"],
        "nothing": [],
    }


async def test_the_list_can_be_narrowed_by_what_messages_tell(connection: AsyncConnection) -> None:
    parent, *children = [(await create_session(connection, title=title)).session.id for title in "pab"]
    await create_session(connection, parent_id=parent, title="forked")
    for minute, child in enumerate(children, 1):
        failed = {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": minute == 2}
        line = {
            "type": "user",
            "sessionId": "theirs",
            "timestamp": f"2026-11-02T09:0{minute}:00Z",
            "message": {"role": "user", "content": [failed]},
        }
        await append(connection, child, [prepare_message(child, json.dumps(line))])

    def at(minute: int) -> datetime:
        return datetime(2026, 11, 2, 9, minute, tzinfo=UTC)

    found = {
        "of a parent": await titles(connection, parent_id=parent),
        "of a stranger": await titles(connection, parent_id=STRANGER),
        "of the provider's session": await titles(connection, provider_session_id="theirs"),
        "of another": await titles(connection, provider_session_id="' OR true --"),
        "since": await titles(connection, provider_session_id="theirs", since=at(2)),
        "until": await titles(connection, provider_session_id="theirs", until=at(2)),
        "between": await titles(connection, since=at(0), until=at(2)),
        "with errors": await titles(connection, errors=True),
        "without errors": await titles(connection, errors=False),
    }

    assert found == {
        "of a parent": ["forked"],
        "of a stranger": [],
        "of the provider's session": ["b", "a"],
        "of another": [],
        "since": ["b"],
        "until": ["a"],
        "between": ["a"],
        "with errors": ["b"],
        "without errors": ["forked", "p", "a"],
    }


async def test_a_list_out_of_bounds_is_refused(connection: AsyncConnection) -> None:
    before_time = urlsafe_b64encode(
        b"0001-01-01T00:00:00+23:59 00000000-0000-0000-0000-000000000000"
    ).decode()
    cursors = ["x", "====", "é", "\0", "2024", "MjAyNC0wMS0wMQ==", "bm90IGEgdGltZSB4", before_time]
    wanted: list[dict[str, Any]] = [{"after": cursor} for cursor in cursors]
    for each in [*wanted, {"limit": 0}, {"limit": -1}, {"limit": 1001}]:
        with pytest.raises(InvalidParameter):
            await list_sessions(connection, **each)


async def test_a_cursor_in_another_time_zone_is_the_same_time(connection: AsyncConnection) -> None:
    await create_session(connection)
    forged = urlsafe_b64encode(b"2001-01-01T00:00:00+23:59 00000000-0000-0000-0000-000000000000").decode()

    assert (await list_sessions(connection, after=forged)).sessions == []


async def test_changes_touch_only_what_they_name(connection: AsyncConnection) -> None:
    session, _ = await create_session(connection, title="old", metadata={"a": 1, "b": 2})
    steps = [
        await update_session(connection, session.id, title="new"),
        await update_session(connection, session.id, metadata={"c": 3}),
        await update_session(connection, session.id, title=None, metadata={}),
    ]

    assert [(each.model_dump().get("title"), each.metadata) for each in steps] == [
        ("new", {"a": 1, "b": 2}),
        ("new", {"c": 3}),
        (None, {}),
    ]


REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"title": "a\0"}, NulByte),
    ({"title": "\ud800"}, InvalidUtf8),
    ({"source": "\0"}, NulByte),
    ({"external_id": "\0"}, NulByte),
    ({"external_id": "\udfff"}, InvalidUtf8),
    ({"metadata": {"a": "\ud800"}}, InvalidUtf8),
    ({"metadata": nest(201)}, InvalidParameter),
]


async def test_what_cannot_be_stored_is_refused(connection: AsyncConnection) -> None:
    for fields, refusal in REFUSED:
        with pytest.raises(refusal):
            await create_session(connection, **fields)

    assert await titles(connection) == []


async def test_nobody_knows_a_stranger(connection: AsyncConnection) -> None:
    for call in (
        get_session(connection, STRANGER),
        update_session(connection, STRANGER, title="x"),
        delete_session(connection, STRANGER),
        is_unterminated(connection, STRANGER),
        set_unterminated(connection, STRANGER, True),
    ):
        with pytest.raises(SessionNotFound):
            await call


async def test_a_session_takes_its_messages_along(connection: AsyncConnection) -> None:
    doomed, kept = [(await create_session(connection)).session.id for _ in range(2)]
    for session_id in (doomed, kept):
        await append(connection, session_id, [prepare_message(session_id, "hello")])
    await delete_session(connection, doomed)

    left = [
        await (await connection.execute(f"SELECT {column} FROM {table}")).fetchall()
        for column, table in [
            ("id", "sessions"),
            ("session_id", "session_counters"),
            ("session_id", "messages"),
            ("session_id", "search_progress"),
        ]
    ]
    assert left == [[(kept,)]] * 4


async def test_a_person_finds_a_session_by_what_they_type(connection: AsyncConnection) -> None:
    twins = [UUID(f"abcdef00-0000-4000-8000-00000000000{digit}") for digit in (1, 2)]
    for twin in twins:
        await create_session(connection, id=twin)
    named, _ = await create_session(connection, id=uuid4(), external_id="abcdef")
    other, _ = await create_session(connection, source="codex", id=uuid4(), external_id="abcdef")

    async def found(reference: str) -> set[UUID]:
        return {session.id for session in await find_sessions(connection, reference)}

    references = {
        str(twins[0]): {twins[0]},
        str(twins[0]).upper(): {twins[0]},
        twins[1].hex: {twins[1]},
        "abcdef00-0000": set(twins),
        "abcdef": {named.id, other.id},
        str(STRANGER): set(),
        "": set(),
        "-": set(),
        "xyz": set(),
        "a" * 33: set(),
        "%": set(),
    }
    assert {reference: await found(reference) for reference in references} == references


async def test_the_end_of_the_imported_text_is_remembered(
    connection: AsyncConnection, session_id: UUID
) -> None:
    seen = [await is_unterminated(connection, session_id)]
    for unterminated in (True, False):
        await set_unterminated(connection, session_id, unterminated)
        seen.append(await is_unterminated(connection, session_id))

    assert seen == [False, True, False]
