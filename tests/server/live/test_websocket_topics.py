"""Topics contain all messages of a span, or the cursors of the rest."""

import json
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.live.websocket_topics import _BLOCKS, _to_blocks, to_topic
from ash_server.store.log import ranges
from ash_server.store.log.events import append_events, check_cursor
from ash_server.store.log.ranges import get_turn, place_of
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_shared.parsing.parse import parse_message_content
from tests.shared.records.claude import text
from tests.shared.records.events import wire_event

PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
PROMPT = '{"type":"user","uuid":"u1","message":{"role":"user","content":"How many?"}}'
CHUNK = '{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"y"}}]}'


async def post(conn: AsyncConnection, session_id: UUID, *events: tuple[str, dict[str, Any]]) -> None:
    start = await check_cursor(conn, session_id, 0)
    await append_events(
        conn,
        session_id,
        [
            wire_event(type, **payload, id=f"e{number}", timestamp=1)
            for number, (type, payload) in enumerate(events, start + 1)
        ],
    )


async def store(conn: AsyncConnection, session_id: UUID, *lines: str) -> None:
    await append(conn, session_id, [prepare_message(session_id, line) for line in lines])


async def last_turn(conn: AsyncConnection, session_id: UUID) -> dict[str, Any]:
    last = await check_cursor(conn, session_id, 0)
    span = await get_turn(conn, session_id, await place_of(conn, session_id, last))
    topic: dict[str, Any] = json.loads(to_topic(span))
    return topic


def conversation(topic: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(message["role"], message["content"]) for message in topic["messages"]]


START: tuple[str, dict[str, Any]] = ("turn_start", {"trigger": "user"})
END: tuple[str, dict[str, Any]] = ("turn_end", {})


def test_all_content_events_have_blocks() -> None:
    assert set(_BLOCKS) <= set(ranges._TOPIC_TYPES)


async def test_answer_without_response_id(connection: AsyncConnection, session_id: UUID) -> None:
    """Also after a stored line without one in its message."""
    await post(connection, session_id, START)
    await store(connection, session_id, PROMPT)
    await post(connection, session_id, ("assistant_done", {"text": "Three."}), END)

    assert conversation(await last_turn(connection, session_id)) == [
        ("user", [text("How many?")]),
        ("assistant", [text("Three.")]),
    ]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (("user_audio", {"transcription": "Aloud.", "durationMs": 3.0}), ("user", [text("Aloud.")])),
        (("user_message", {"text": "See.", "content": [PICTURE]}), ("user", [text("See."), PICTURE])),
        (("assistant_done", {"text": "See.", "content": [PICTURE]}), ("assistant", [text("See."), PICTURE])),
        (("assistant_done", {"text": "", "content": [PICTURE]}), ("assistant", [PICTURE])),
        (
            ("user_message", {"text": "a", "content": [text("b"), PICTURE]}),
            ("user", [text("a"), text("b"), PICTURE]),
        ),
        (
            ("user_message", {"text": "a\n\nb", "content": [text("a"), text("b")]}),
            ("user", [text("a"), text("b")]),
        ),
        (("assistant_done", {"text": ""}), ("assistant", [text("")])),
        (("assistant_done", {"text": "a", "content": []}), ("assistant", [text("a")])),
    ],
)
async def test_blocks_of_events(
    connection: AsyncConnection,
    session_id: UUID,
    event: tuple[str, dict[str, Any]],
    expected: tuple[str, list[dict[str, Any]]],
) -> None:
    await post(connection, session_id, START, event, END)

    assert conversation(await last_turn(connection, session_id)) == [expected]


async def test_event_larger_than_a_span(connection: AsyncConnection, session_id: UUID) -> None:
    answer = ("assistant_done", {"text": "x" * (ranges._MAX_BYTES + 1)})
    await post(connection, session_id, START, answer, END)

    topic = await last_turn(connection, session_id)
    assert (len(conversation(topic)), "nextEventAfter" in topic) == (1, False)


@pytest.mark.parametrize(
    ("count", "included", "rest"),
    [(3, 3, {}), (4, 4, {}), (5, 4, {"nextEventAfter": 5}), (9, 4, {"nextEventAfter": 5})],
)
async def test_too_many_events_for_a_span(  # fixtures and table columns
    connection: AsyncConnection,
    session_id: UUID,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    included: int,
    rest: dict[str, int],
) -> None:
    monkeypatch.setattr(ranges, "_MAX_ENTRIES", 4)
    prompts = [("user_message", {"text": str(number)}) for number in range(count)]
    await post(connection, session_id, START, *prompts, END)

    topic = await last_turn(connection, session_id)
    messages = topic.pop("messages")
    assert ([message["id"] for message in messages], topic) == (
        [f"e{n}" for n in range(2, 2 + included)],
        rest,
    )


@pytest.mark.parametrize(
    ("posted", "rest"), [([], {}), ([("assistant_done", {"text": "b"})], {"nextEventAfter": 3})]
)
async def test_events_without_lines_continue_after_lines(
    connection: AsyncConnection,
    session_id: UUID,
    monkeypatch: pytest.MonkeyPatch,
    posted: list[tuple[str, dict[str, Any]]],
    rest: dict[str, int],
) -> None:
    monkeypatch.setattr(ranges, "_MAX_ENTRIES", 2)
    several = ",".join(f'{{"type":"text","text":"{number}"}}' for number in range(4))
    line = (
        f'{{"type":"assistant","uuid":"u1","message":{{"id":"m1","role":"assistant","content":[{several}]}}}}'
    )
    await store(connection, session_id, line)
    await post(connection, session_id, *posted, END)

    topic = await last_turn(connection, session_id)
    assert conversation(topic) == [("assistant", [text(str(number)) for number in range(4)])]
    assert {name: topic[name] for name in topic if name != "messages"} == rest


async def test_too_large_events_for_a_span(
    connection: AsyncConnection, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_MAX_BYTES", 1000)
    prompts = [("user_message", {"text": "x" * 400}) for _ in range(5)]
    await post(connection, session_id, START, *prompts, END)

    topic = await last_turn(connection, session_id)
    assert (len(topic["messages"]), topic["nextEventAfter"]) == (2, 3)


@pytest.mark.parametrize(("count", "included", "rest"), [(4, 4, {}), (5, 3, {"nextAfter": 3})])
async def test_too_many_lines_for_a_span(  # fixtures and table columns
    connection: AsyncConnection,
    session_id: UUID,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    included: int,
    rest: dict[str, int],
) -> None:
    """Lines after the span and stream chunks are not part of the rest. Four fit, and the last may continue."""
    monkeypatch.setattr(ranges, "_MAX_BYTES", 400)
    answer = (
        '{"type":"assistant","uuid":"u%d","message":{"id":"m%d","role":"assistant","content":'
        '[{"type":"text","text":"a"}]}}'
    )
    await store(connection, session_id, *(answer % (number, number) for number in range(count)), CHUNK)
    end = await place_of(connection, session_id, await check_cursor(connection, session_id, 0))
    await store(connection, session_id, PROMPT)

    topic = json.loads(to_topic(await get_turn(connection, session_id, end)))
    messages = topic.pop("messages")
    assert (len(messages), topic) == (included, rest)


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
CONTENTS: list[dict[str, Any]] = [
    {"text": "a"},
    {"text": ""},
    {"text": "a", "content": []},
    {"text": "", "content": [IMAGE]},
    {"text": "a", "content": [IMAGE]},
    {"text": "a\n\nb", "content": [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}]},
]


@pytest.mark.parametrize("payload", CONTENTS, ids=json.dumps)
@pytest.mark.parametrize("name", ["assistant_done", "user_message"])
def test_topics_and_stored_events_have_the_same_blocks(name: str, payload: dict[str, Any]) -> None:
    event = wire_event(name, **payload, id="e", timestamp=1, sessionId="s")

    read = [
        block.model_dump(exclude={"source_type"}) for block in parse_message_content(json.dumps(event), "ash")
    ]

    assert read == _to_blocks(event)


def test_a_text_that_differs_from_the_content_is_kept() -> None:
    payload = {"text": "a", "content": [{"type": "text", "text": "b"}]}
    event = wire_event("user_message", **payload, id="e", timestamp=1, sessionId="s")

    blocks = parse_message_content(json.dumps(event), "ash")
    assert [block.model_dump()["text"] for block in blocks] == ["a", "b"]
