"""Updates of a growing session, which add up to its standard messages."""

import json
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import pytest

from ash_shared import StandardMessage, transform_messages
from ash_shared.conversation.live_messages import LiveMessages, Update
from ash_shared.model.message import StandardTokenUsage
from tests.shared.records.claude import line, text
from tests.shared.sample_files import CORPUS

SAMPLES = {path.name: path.read_text().splitlines() for path in (files("ash_server") / "samples").iterdir()}
TRANSCRIPTS = [
    path
    for folder in ("agent_sdk_stream", "claude_code_jsonl", "claude_stream_json")
    for path in sorted((CORPUS / folder).glob("*.jsonl"))
]
MAX_BYTES = 1024 * 1024


def answer(uuid: str, *content: dict[str, Any], id: str = "m1", output: int = 1) -> str:
    usage = {"input_tokens": 10, "output_tokens": output}
    return json.dumps(line("assistant", content, {"id": id, "usage": usage}, uuid=uuid))


CALL = {"type": "tool_use", "id": "c1", "name": "count", "input": {}}
ASKED = '{"type":"user","uuid":"u0","message":{"role":"user","content":"How many?"}}'
RESULT = json.dumps(
    {
        "type": "result",
        "result": "Three.",
        "usage": {"input_tokens": 99, "output_tokens": 9},
        "total_cost_usd": 2.0,
    }
)
QUEUED = '{"type":"queue-operation","operation":"enqueue","content":"How many?"}'
QUEUED_ID = transform_messages([QUEUED])[0].id

Row = tuple[str, list[str | dict[str, Any]], tuple[int, int] | None]
"""Id, content and tokens of a message."""


def row(message: StandardMessage) -> Row:
    content = [block.text if block.type == "text" else block.model_dump() for block in message.content]
    usage = message.usage
    return message.id, content, (usage.input_tokens, usage.output_tokens) if usage else None


GROWTH: dict[str, list[tuple[str, list[Row]]]] = {
    "usage follows the last line of a message": [
        (ASKED, [("u0", ["How many?"], None)]),
        (answer("u1", text("Let me see.")), [("u1", ["Let me see."], None)]),
        (answer("u2", CALL, output=7), [("u1", [CALL], None)]),
        (answer("u3", text("Three."), id="m2"), [("u1", [], (10, 7)), ("u3", ["Three."], None)]),
        ("", [("u3", [], (10, 1))]),
    ],
    "the result of a run adds no message": [
        (answer("u1", text("Three.")), [("u1", ["Three."], None)]),
        (RESULT, [("u1", [], (10, 1))]),
        ("", []),
    ],
    "a text that has grown replaces its message": [
        (answer("u1", text("Thr")), [("u1", ["Thr"], None)]),
        (answer("u2", text("Three.")), [("u1", ["Three."], None)]),
        ("", [("u1", [], (10, 1))]),
    ],
    "a queued prompt waits for its delivery": [
        (QUEUED, []),
        (ASKED, [("u0", ["How many?"], None)]),
        ("", []),
    ],
    "a queued prompt is sent at the latest with the end of the turn": [
        (answer("u1", text("One.")), [("u1", ["One."], None)]),
        (QUEUED, []),
        ("", [("u1", [], (10, 1)), (QUEUED_ID, ["How many?"], None)]),
        (ASKED, [("u0", ["How many?"], None)]),
        ("", []),
    ],
}
"""Lines with what each adds; an empty one ends the turn."""


@pytest.mark.parametrize("name", GROWTH)
def test_updates(name: str) -> None:
    live = LiveMessages()

    rows = [
        [row(message) for message in live.add([(line, None)] if line else [], is_turn_over=not line).messages]
        for line, _ in GROWTH[name]
    ]

    assert rows == [expected for _, expected in GROWTH[name]]


REPLACED: dict[str, tuple[list[str], list[list[str]]]] = {
    "a text that has grown": ([answer("u1", text("Thr")), answer("u2", text("Three."))], [[], ["u1"]]),
    "a copy sent before its original": ([QUEUED, "", ASKED, ""], [[], [], [QUEUED_ID], []]),
    "no message that only became longer": ([answer("u1", text("Thr")), answer("u2", CALL)], [[], []]),
}


@pytest.mark.parametrize("name", REPLACED)
def test_replaced_messages(name: str) -> None:
    live, (lines, expected) = LiveMessages(), REPLACED[name]

    updates = [live.add([(line, None)] if line else [], is_turn_over=not line) for line in lines]

    assert [update.replaced for update in updates] == expected


@pytest.mark.parametrize(
    ("is_turn_over", "expected"),
    [
        (False, [("u1", ["Three."], (10, 7))]),
        (True, [("u2", ["Three."], (10, 7))]),
    ],
)
def test_continues_after_earlier_lines(is_turn_over: bool, expected: list[Row]) -> None:
    """Only additions: the usage is one, unless the turn had ended."""
    before = answer("u1", text("Let me see."), id="m0" if is_turn_over else "m1")
    live = LiveMessages(before=[(ASKED, None), (before, None)], is_turn_over=is_turn_over)

    update = live.add([(answer("u2", text("Three."), output=7), None)], is_turn_over=True)

    assert (list(map(row, update.messages)), update.replaced) == (expected, [])


@pytest.mark.parametrize("name", SAMPLES)
def test_updates_of_samples_add_up(name: str) -> None:
    assert sums_of_updates(SAMPLES[name]) == sums(originals(SAMPLES[name]))


@pytest.mark.slow
@pytest.mark.skipif(not TRANSCRIPTS, reason="no corpus")
def test_updates_of_transcripts_add_up() -> None:
    for path in TRANSCRIPTS:
        if path.stat().st_size < MAX_BYTES:
            lines = path.read_text(errors="replace").split("\n")
            assert sums_of_updates(lines) == sums(originals(lines)), path


def originals(lines: Iterable[str]) -> list[StandardMessage]:
    return [message for message in transform_messages(lines) if message.metadata.shadow_of is None]


def sums_of_updates(lines: Iterable[str]) -> tuple[int, Counter[str], Counter[str]]:
    live = LiveMessages()
    updates = [live.add([(line, None)]) for line in lines]
    return sums(received([*updates, live.add([], is_turn_over=True)]))


def received(updates: Iterable[Update]) -> list[StandardMessage]:
    """Return a reader's messages, joined from their parts."""
    messages = list[StandardMessage]()
    for update in updates:
        messages = [each for each in messages if each.id not in update.replaced] + update.messages
    return messages


def sums(messages: list[StandardMessage]) -> tuple[int, Counter[str], Counter[str]]:
    """Number of messages, their texts, and their usage."""
    texts = Counter(
        str(getattr(block, block.type))
        for message in messages
        for block in message.content
        if block.type in ("text", "thinking")
    )
    usage = Counter[str]()
    for message in messages:
        usage.update(token_counts(message.usage))
    return len({message.id for message in messages}), texts, usage


def token_counts(usage: StandardTokenUsage | None) -> dict[str, int]:
    counts = usage.model_dump() if usage else {}
    return {name: count for name, count in counts.items() if isinstance(count, int)}
