"""Sessions: creating, listing, finding, changing and deleting them."""

import json
from asyncio import gather
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import AsyncConnection

from ash_server.errors import InvalidParameter, InvalidUtf8, NulByte, SessionNotFound
from ash_server.ids import uuid7
from ash_server.store.connections.pool import connect
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.session_rows import find_sessions, get_session, list_sessions
from ash_server.store.sessions import (
    create_session,
    delete_session,
    lacks_final_newline,
    session_id_for,
    set_lacks_final_newline,
    set_parent,
    update_session,
)
from ash_shared.model.session import Session, transcript_name
from tests.server.transcripts import TRANSCRIPT_NAMES

UNKNOWN_SESSION = UUID("00000000-0000-4000-8000-000000000000")


def nest(levels: int) -> dict[str, Any]:
    return {"a": nest(levels - 1)} if levels else {}


def shape(session: Session) -> dict[str, Any]:
    """The session as JSON, without timestamps."""
    dumped = session.model_dump(mode="json")
    return {key: value for key, value in dumped.items() if not key.endswith("At")}


async def titles(connection: AsyncConnection, **filters: Any) -> list[Any]:
    return [session.title for session in (await list_sessions(connection, **filters)).sessions]


def test_names_of_transcripts() -> None:
    assert {path: transcript_name(path) for path in TRANSCRIPT_NAMES} == TRANSCRIPT_NAMES


async def test_new_session_has_given_fields(connection: AsyncConnection) -> None:
    parent = (await create_session(connection)).session.id
    session, created = await create_session(
        connection,
        source="claude",
        external_id="projects/a/b.jsonl",
        parent_id=parent,
        title="Ünïcode\nand lines",
        metadata={"nul": "a\0b", "big": 2**70, "deep": {"list": [1, None, True, 1.5]}},
    )

    assert created
    assert shape(session) == {
        "id": str(session_id_for("claude", "projects/a/b.jsonl")),
        "source": "claude",
        "externalId": "projects/a/b.jsonl",
        "parentId": str(parent),
        "title": "Ünïcode\nand lines",
        "messageCount": 0,
        "eventCount": 0,
        "errorCount": 0,
        "unrecognisedCount": 0,
        "metadata": {"nul": "a\0b", "big": 2**70, "deep": {"list": [1, None, True, 1.5]}},
    }
    assert session == await get_session(connection, session.id)


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
        line = json.dumps(
            {"type": "user", "sessionId": "theirs", "message": {"role": "user", "content": "hi"}}
        )
        await append(connection, each, [prepare_message(each, line)])
    await set_parent(connection, ids[1], ids[0])
    await set_parent(connection, ids[2], session_id_for("claude", "elsewhere"), "elsewhere")

    assert [each.id for each in await find_sessions(connection, "theirs")] == [ids[0]]


async def test_keeps_the_first_parent(connection: AsyncConnection) -> None:
    session_id = (await create_session(connection)).session.id
    for name in ("first", "second"):
        await set_parent(connection, session_id, session_id_for("claude", name), name)

    assert (await get_session(connection, session_id)).parent_external_id == "first"


async def test_external_id_identifies_session_per_source(connection: AsyncConnection) -> None:
    first = await create_session(connection, source="codex", external_id="x", title="first")
    again = await create_session(connection, source="codex", external_id="x", title="again")
    other = await create_session(connection, source="claude", external_id="x")
    empty = await create_session(connection, source="codex", external_id="")

    assert again == (first.session, False)
    assert len({first.session.id, other.session.id, empty.session.id}) == 3


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


def test_random_ids_are_valid_and_ordered_by_time() -> None:
    ids = [uuid7() for _ in range(1000)]

    assert {(each.version, each.variant) for each in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 1000
    assert [each.int >> 80 for each in ids] == sorted(each.int >> 80 for each in ids)


async def test_lists_newest_activity_first(connection: AsyncConnection) -> None:
    ids = {title: (await create_session(connection, title=title)).session.id for title in "abcd"}
    await append(connection, ids["b"], [prepare_message(ids["b"], "hello")])
    await update_session(connection, ids["a"], metadata={"seen": True})

    assert await titles(connection) == ["a", "b", "d", "c"]


async def test_list_pages_are_consecutive(connection: AsyncConnection) -> None:
    async with connection.transaction():  # equal times: ordered by id
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


async def test_full_last_page_has_no_cursor(connection: AsyncConnection) -> None:
    for _ in range(2):
        await create_session(connection)

    assert "nextAfter" not in (await list_sessions(connection, limit=2)).model_dump()
    assert "nextAfter" in (await list_sessions(connection, limit=1)).model_dump()


async def test_filters_list_by_source_and_text(connection: AsyncConnection) -> None:
    await create_session(connection, source="claude", title="Fix the PARSER", external_id="one.jsonl")
    await create_session(connection, source="codex", title="100% done_", external_id="two.jsonl")
    await create_session(connection, source="codex", title="İstanbul")

    listed = {
        "codex": await titles(connection, source="codex"),
        "parser": await titles(connection, q="parser"),
        "ONE.JSON": await titles(connection, q="ONE.JSON"),
        "%": await titles(connection, q="%"),
        "codex, .jsonl": await titles(connection, source="codex", q=".jsonl"),
        "external id": await titles(connection, external_id="two.jsonl"),
        "part of an external id": await titles(connection, external_id="two"),
        "prefix t": await titles(connection, external_id_prefix="t"),
        "prefix %": await titles(connection, external_id_prefix="%"),
        "nothing": await titles(connection, q="' OR true --"),
    }

    assert listed == {
        "codex": ["İstanbul", "100% done_"],
        "parser": ["Fix the PARSER"],
        "ONE.JSON": ["Fix the PARSER"],
        "%": ["100% done_"],
        "codex, .jsonl": ["100% done_"],
        "external id": ["100% done_"],
        "part of an external id": [],
        "prefix t": ["100% done_"],
        "prefix %": [],
        "nothing": [],
    }


async def test_filters_list_by_fields_from_messages(connection: AsyncConnection) -> None:
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

    listed = {
        "parent": await titles(connection, parent_id=parent),
        "unknown parent": await titles(connection, parent_id=UNKNOWN_SESSION),
        "provider session": await titles(connection, provider_session_id="theirs"),
        "unknown provider session": await titles(connection, provider_session_id="' OR true --"),
        "since": await titles(connection, provider_session_id="theirs", since=at(2)),
        "until": await titles(connection, provider_session_id="theirs", until=at(2)),
        "between": await titles(connection, since=at(0), until=at(2)),
        "with errors": await titles(connection, errors=True),
        "without errors": await titles(connection, errors=False),
    }

    assert listed == {
        "parent": ["forked"],
        "unknown parent": [],
        "provider session": ["b", "a"],
        "unknown provider session": [],
        "since": ["b"],
        "until": ["a"],
        "between": ["a"],
        "with errors": ["b"],
        "without errors": ["forked", "p", "a"],
    }


async def test_lists_the_sessions_of_a_project(connection: AsyncConnection) -> None:
    lines = {
        "claude": '{"type":"user","cwd":"/home/ada/site","message":{"content":"hi"}}',
        "codex": '{"type":"session_meta","payload":{"id":"1","cwd": "/home/ada/site/docs"}}',
        "opencode": '{"id":"ses_1","projectID":"p","directory":"/home/ada/site"}',
        "windows": r'{"type":"user","cwd":"C:\\Users\\ada\\site"}',
        "gemini": json.dumps({"projectHash": sha256(b"/home/ada/site").hexdigest()}),
        "sibling": '{"type":"user","cwd":"/home/ada/site-2"}',
        "quoting": r'{"type":"user","message":{"content":"{\"cwd\":\"/home/ada/site\"}"}}',
    }
    for name, line in lines.items():
        session = (await create_session(connection, source=name, external_id=name, title=name)).session
        await append(connection, session.id, [prepare_message(session.id, line)])
    for title, folder in (("cursor", "home-ada-site"), ("cursor sibling", "home-ada-site-2")):
        name = f"projects/{folder}/agent-transcripts/1.jsonl"
        await create_session(connection, source="cursor", external_id=name, title=title)

    in_folder = ["claude", "codex", "cursor", "gemini", "opencode"]
    expected: dict[str, list[str]] = {
        "/home/ada/site": in_folder,
        "/home/ada/site/": in_folder,
        "site": ["claude", "codex", "cursor", "opencode", "windows"],
        "docs": ["codex"],
        "ada/site": ["claude", "codex", "cursor", "opencode"],
        r"C:\Users\ada": ["windows"],
        "it": [],
        "/": [],
        ".*": [],
    }
    assert {each: sorted(await titles(connection, project=each)) for each in expected} == expected


async def test_rejects_invalid_cursor_and_limit(connection: AsyncConnection) -> None:
    before_time = urlsafe_b64encode(
        b"0001-01-01T00:00:00+23:59 00000000-0000-0000-0000-000000000000"
    ).decode()
    cursors = ["x", "====", "é", "\0", "2024", "MjAyNC0wMS0wMQ==", "bm90IGEgdGltZSB4", before_time]
    pages: list[dict[str, Any]] = [{"after": cursor} for cursor in cursors]
    for each in [*pages, {"limit": 0}, {"limit": -1}, {"limit": 1001}]:
        with pytest.raises(InvalidParameter):
            await list_sessions(connection, **each)


async def test_accepts_cursor_in_other_time_zone(connection: AsyncConnection) -> None:
    await create_session(connection)
    forged = urlsafe_b64encode(b"2001-01-01T00:00:00+23:59 00000000-0000-0000-0000-000000000000").decode()

    assert (await list_sessions(connection, after=forged)).sessions == []


REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"title": "a\0"}, NulByte),
    ({"title": "\ud800"}, InvalidUtf8),
    ({"source": "\0"}, NulByte),
    ({"external_id": "\0"}, NulByte),
    ({"external_id": "\udfff"}, InvalidUtf8),
    ({"metadata": {"a": "\ud800"}}, InvalidUtf8),
    ({"metadata": nest(201)}, InvalidParameter),
]


async def test_rejects_invalid_fields(connection: AsyncConnection) -> None:
    for fields, refusal in REFUSED:
        with pytest.raises(refusal):
            await create_session(connection, **fields)

    assert await titles(connection) == []


async def test_rejects_unknown_session(connection: AsyncConnection) -> None:
    for call in (
        get_session(connection, UNKNOWN_SESSION),
        update_session(connection, UNKNOWN_SESSION, title="x"),
        delete_session(connection, UNKNOWN_SESSION),
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
