"""Events that refer to the text of their message have the same JSON as events that are stored whole."""

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.store.log import stored_json
from ash_server.store.log.events import (
    StoredEvent,
    append_events,
    get_events,
    get_events_since,
    stream_events,
)
from ash_server.store.log.ranges import LogPosition, get_span
from ash_server.store.log.rebuild import rebuild_events
from ash_server.store.log.stored_json import MessageText, StoredJson, encode_whole
from ash_server.store.log.writer import derive
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.search.index import index_pending
from ash_server.store.search.query import find
from ash_server.store.sessions import create_session
from ash_shared.eventlog import Normalizer
from tests.cluster import not_on_cluster
from tests.shared.records import claude
from tests.shared.records.events import wire_event
from tests.shared.sample_files import CORPUS, MAX_FILES, spread

SAMPLES = sorted((Path(__file__).parents[4] / "ash_server" / "samples").glob("*.jsonl"))
MAX_LINES = 100
MAX_SESSIONS = max(10, MAX_FILES)
"""The number of files per format."""
NOW = 1_800_000_000_000

LONG = "näive\n" * 100
OTHER = '\x01quote" ' * 60
RESULT = {"stdout": LONG, "n": 1}


def event(**payload: Any) -> dict[str, Any]:
    head = {"id": "e", "timestamp": 1, "sessionId": "s", "type": "tool_result"}
    return {**head, "turnId": "t", "payload": payload}


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def spaced(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def filled(stored: StoredJson, text: str) -> bytes:
    """Fill in the beginning and the values in Python."""
    whole, before = b'{"id":"e","timestamp":1,"sessionId":"s","type":"tool_result",', 0
    json_text, source = stored.json.encode(), text.encode()
    for at, start, size in ranges_of(stored.ranges):
        whole += json_text[before:at] + source[start : start + size]
        before = at + 2
    return whole + json_text[before:]


# Name: (payload, text of the message, payload as stored).
ENCODED: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "a text": ({"result": LONG}, compact({"content": LONG}), {"result": ""}),
    "an object": ({"structured": RESULT}, compact([RESULT]), {"structured": {}}),
    "a list": ({"content": [RESULT]}, compact({"x": [RESULT]}), {"content": []}),
    "several values in any order": (
        {"result": LONG, "short": "x", "structured": {"a": OTHER}},
        compact({"b": {"a": OTHER}, "c": LONG}),
        {"result": "", "short": "x", "structured": {}},
    ),
    "one value twice": ({"a": LONG, "b": LONG}, compact(LONG), {"a": "", "b": ""}),
    "texts of an object with other spaces": (
        {"args": {"path": "p", "edits": [{"old": LONG, "new": OTHER}]}},
        spaced({"args": {"path": "p", "edits": [{"old": LONG, "new": OTHER}]}}),
        {"args": {"path": "p", "edits": [{"old": "", "new": ""}]}},
    ),
    "other escapes": ({"result": LONG}, json.dumps(LONG), {"result": LONG}),
    "not in the text": ({"result": LONG}, "{}", {"result": LONG}),
    "a small value": ({"result": "a" * 100}, compact("a" * 100), {"result": "a" * 100}),
    "a small part of a large text": ({"result": LONG}, compact([LONG, "x" * 50_000]), {"result": LONG}),
    "other types": (
        {"n": 1, "none": None, "yes": True},
        compact([1, None, True]),
        {"n": 1, "none": None, "yes": True},
    ),
}


@pytest.mark.parametrize("name", ENCODED)
def test_encodes_event_without_values_of_the_text(name: str) -> None:
    payload, text, stored_payload = ENCODED[name]
    stored = MessageText(text).encode(event(**payload))

    assert json.loads(f"{{{stored.json}") == {"turnId": "t", "payload": stored_payload}
    assert (stored.event_id, stored.event_time) == ("e", 1)
    assert (stored.ranges is None) == (payload == stored_payload)
    assert filled(stored, text) == encode_whole(event(**payload)).json.encode()


def test_number_of_text_ranges_is_bounded() -> None:
    """The SQL that fills them in has a part for each."""
    values = {f"v{number}": f"{number}{LONG}" for number in range(6)}
    text = compact(values)
    stored = MessageText(text).encode(event(**values))

    assert len(ranges_of(stored.ranges)) == 2
    assert filled(stored, text) == encode_whole(event(**values)).json.encode()


def test_number_of_vain_searches_is_bounded() -> None:
    absent = {f"v{number}": f"{number}{LONG}" for number in range(20)}
    within, beyond = (
        MessageText(compact(LONG)).encode(event(**values, last=LONG)) for values in ({}, absent)
    )

    assert (within.ranges is None, beyond.ranges is None) == (False, True)


def test_values_are_found_in_order() -> None:
    """Equal values are searched after the previous one, so a long text is read once."""
    stored = MessageText(compact([LONG, LONG])).encode(event(a=LONG, b=LONG))
    size = len(compact(LONG).encode())

    assert [each[1:] for each in ranges_of(stored.ranges)] == [[1, size], [size + 2, size]]


def ranges_of(ranges: str | None) -> list[list[int]]:
    decoded: list[list[int]] = json.loads((ranges or "{}").translate(str.maketrans("{}", "[]")))
    return decoded


# Sessions


def texts_of(path: Path) -> list[str]:
    text = path.read_bytes().decode("utf-8", "replace").replace("\0", "")
    lines = [text] if path.suffix == ".json" else text.split("\n")
    return list(islice(filter(str.strip, lines), MAX_LINES))


def sessions_of(path: Path) -> list[list[str]]:
    paths = spread(sorted(path.iterdir()), MAX_SESSIONS) if path.is_dir() else [path]
    return list(map(texts_of, paths))


def expected_events(session_id: UUID, texts: Iterable[str]) -> list[bytes]:
    """Return the JSON of the events as it was stored when events were stored whole."""
    normalizer = Normalizer()
    lines = [prepare_message(session_id, text, id=str(number)).line for number, text in enumerate(texts)]
    normalizer.expect(lines, NOW)
    return [
        encode_whole(each.event).json.encode()
        for sequence, line in enumerate(lines, 1)
        for each in derive(normalizer, session_id, sequence, line, NOW)
    ]


async def store_texts(connection: AsyncConnection, texts: Sequence[str]) -> UUID:
    session_id = (await create_session(connection)).session.id
    new = [prepare_message(session_id, text, id=str(number)) for number, text in enumerate(texts)]
    await append(connection, session_id, new, now=NOW)
    return session_id


async def in_pages(
    connection: AsyncConnection, session_id: UUID, limit: int
) -> AsyncGenerator[StoredEvent, None]:
    after = 0
    while page := await get_events(connection, session_id, after=after, limit=limit):
        for each in page:
            yield each
        after = page[-1].sequence


async def full_contents(connection: AsyncConnection, session_id: UUID) -> list[bytes]:
    query = "SELECT content FROM events_full WHERE session_id = %b ORDER BY sequence"
    return [row[0].encode() for row in await (await connection.execute(query, [session_id])).fetchall()]


async def sizes(connection: AsyncConnection, session_id: UUID) -> tuple[int, int]:
    """Return the number of events that refer, and the bytes of all events as stored."""
    query = "SELECT count(text_ranges), sum(octet_length(stored_json)) FROM events WHERE session_id = %b"
    row = await (await connection.execute(query, [session_id])).fetchone()
    return row or (0, 0)


async def check_reads(connection: AsyncConnection, session_id: UUID, expected: list[bytes]) -> None:
    stream = stream_events(lambda: nullcontext(connection), session_id)
    span = await get_span(connection, session_id, LogPosition(0, 0), LogPosition(len(expected), 0))
    async with aclosing(stream) as events:
        streamed = [each.content async for each in events]
    by_sequence = dict(enumerate(expected, 1))

    assert streamed == expected
    assert [each.content async for each in in_pages(connection, session_id, 7)] == expected
    assert await full_contents(connection, session_id) == expected
    assert all(each.content == by_sequence[each.sequence] for each in span.events)


FORMATS = [*SAMPLES, *sorted(CORPUS.glob("*/"))]


@pytest.mark.parametrize(
    "path",
    [pytest.param(each, id=each.name, marks=() if each in SAMPLES else pytest.mark.slow) for each in FORMATS],
)
async def test_events_read_the_same(connection: AsyncConnection, path: Path) -> None:
    for texts in sessions_of(path):
        session_id = await store_texts(connection, texts)
        expected = expected_events(session_id, texts)
        await check_reads(connection, session_id, expected)

        await rebuild_events(connection, session_id)
        assert len(await full_contents(connection, session_id)) == len(expected) + 1


# One event that refers


def result_line(content: Any, **more: Any) -> str:
    return compact(claude.line("user", [claude.tool_result("t-1", content)], **more))


CALL = compact(claude.line("assistant", [claude.call("t-1", "Bash", command="ls")], {"id": "msg_1"}))


async def results(connection: AsyncConnection, session_id: UUID, **page: Any) -> list[Any]:
    events = await get_events(connection, session_id, types=["tool_result"], **page)
    return [json.loads(each.content)["payload"]["result"] for each in events]


async def test_large_results_are_stored_once(connection: AsyncConnection) -> None:
    session_id = await store_texts(connection, [CALL, result_line(LONG, toolUseResult=RESULT)])
    references, size = await sizes(connection, session_id)

    assert (references, size < 1000) == (1, True)
    assert await results(connection, session_id) == [LONG]


async def test_fills_in_several_values(connection: AsyncConnection) -> None:
    """Texts of a list that the line spells with other spaces."""
    blocks = [{"type": "text", "text": f"{number}{LONG}"} for number in range(6)]
    texts = [spaced(json.loads(result_line(blocks)))]
    session_id = await store_texts(connection, texts)
    ranges = await connection.execute(
        "SELECT array_length(text_ranges, 1) FROM events WHERE type = 'tool_result'"
    )

    assert await ranges.fetchall() == [(2,)]
    await check_reads(connection, session_id, expected_events(session_id, texts))


@not_on_cluster("workers run the view with the encoding of the coordinator")
async def test_view_fills_in_values_for_clients_with_another_encoding(connection: AsyncConnection) -> None:
    session_id = await store_texts(connection, [result_line(LONG)])
    whole = await full_contents(connection, session_id)
    await connection.execute("SET client_encoding = 'LATIN1'")

    assert (
        await full_contents(connection, session_id)
        == whole
        == expected_events(session_id, [result_line(LONG)])
    )


async def test_value_of_an_earlier_line_is_stored_whole(connection: AsyncConnection) -> None:
    """A streamed answer is complete when a later line says so."""
    parts = [
        {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": LONG}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": OTHER}},
        {"type": "content_block_stop", "index": 0},
    ]
    texts = list(map(compact, parts))
    session_id = await store_texts(connection, texts)
    stored = await connection.execute(
        "SELECT type, text_ranges IS NULL FROM events "
        "WHERE session_id = %b AND type LIKE 'assistant%%' ORDER BY sequence",
        [session_id],
    )

    assert await stored.fetchall() == [
        ("assistant_chunk", False),
        ("assistant_chunk", False),
        ("assistant_done", True),
    ]
    await check_reads(connection, session_id, expected_events(session_id, texts))


async def test_events_with_an_id_of_the_writer_are_stored_whole(connection: AsyncConnection) -> None:
    """A repeated post is compared with the stored event."""
    own = wire_event("assistant_done", text=LONG, id="e-1", timestamp=1, sessionId="")
    session_id = await store_texts(connection, [compact(own)])
    posted = {**own, "id": "e-2"}
    first = await append_events(connection, session_id, [posted])
    again = await append_events(connection, session_id, [posted, {**own, "sessionId": str(session_id)}])

    assert await sizes(connection, session_id) == (
        0,
        sum(map(len, await full_contents(connection, session_id))),
    )
    assert [each.created for each in (*first, *again)] == [True, False, False]


async def test_pages_are_bounded_by_full_size(connection: AsyncConnection) -> None:
    session_id = await store_texts(connection, [result_line(f"{number}{LONG}") for number in range(6)])
    size = len((await full_contents(connection, session_id))[-1])
    pages = [
        len(await get_events_since(connection, session_id, 1, max_bytes=max_bytes))
        for max_bytes in (1, size, size + 1, 3 * size, 100 * size)
    ]

    assert pages == [1, 1, 2, 3, 6]


async def test_events_of_a_deleted_message_lose_its_values(connection: AsyncConnection) -> None:
    session_id = await store_texts(connection, [result_line(LONG), result_line(OTHER)])
    await connection.execute("DELETE FROM messages WHERE sequence = 1")

    assert await results(connection, session_id) == ["", OTHER]


async def test_events_of_an_agent_include_those_that_name_it_in_the_text(connection: AsyncConnection) -> None:
    other, named = (
        result_line(OTHER),
        result_line(LONG, toolUseResult={**RESULT, "to": {"targetAgentId": "a-1"}}),
    )
    session_id = await store_texts(connection, [other, named])

    assert await results(connection, session_id, agent="a-1") == [LONG]


async def test_search_finds_words_of_the_text(connection: AsyncConnection) -> None:
    session_id = await store_texts(connection, [result_line(f"{LONG} cormorant {LONG}")])
    await index_pending(connection)
    page = await find(connection, "cormorant", place="everything")

    assert [(each.session_id, "cormorant" in each.snippet) for each in page.results] == [(session_id, True)]


@not_on_cluster("EXPLAIN shows the plan of the coordinator")
async def test_reads_a_text_once_per_event(connection: AsyncConnection) -> None:
    """The plan of a page has one read of a message for the values of an event, and none for its size."""
    session_id = await store_texts(connection, [result_line([RESULT, OTHER], toolUseResult=RESULT)] * 50)
    query = (
        f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT {stored_json.event_json()} "
        "FROM events AS entry WHERE session_id = %(session_id)b"
    )
    ((plan,),) = await (await connection.execute(query, {"session_id": session_id})).fetchall()
    references, _ = await sizes(connection, session_id)

    assert [
        node["Actual Loops"] for node in nodes(plan[0]["Plan"]) if node.get("Relation Name") == "messages"
    ] == [references]


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", ()) for node in nodes(child))]
