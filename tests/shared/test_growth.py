"""The work for one long answer grows with its length, not with its square: each executed line counts."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import pytest

from ash_shared import transform_messages
from ash_shared.eventlog import Normalizer, parse_line
from ash_shared.eventlog.state import MAX_ANSWERED, MAX_CALLS, MAX_OPEN_SLOTS, decode_state
from tests.shared.logs import context
from tests.shared.records import antigravity, claude, opencode
from tests.shared.records.opencode import Record

LENGTH = MAX_ANSWERED // 2
"""Longer answers evict calls, at a cost that `MAX_CALLS` limits."""


def part(number: int, kind: str, **more: Any) -> Record:
    return {**opencode.part(kind, **more), "id": f"prt_{number}"}


def calls_without_id(length: int) -> Iterator[Record]:
    yield antigravity.response(0, None, *[antigravity.call("view_file", line=n) for n in range(length)])
    yield from (antigravity.step(n + 1, "VIEW_FILE", content="fine") for n in range(length))


def texts_of_a_prompt(length: int) -> Iterator[Record]:
    yield opencode.info("msg_2", "user")
    yield from (part(n, "text", text=f"Word {n}.") for n in range(length))


def revised_texts(length: int) -> Iterator[Record]:
    yield opencode.info("msg_2", "assistant")
    for words in ("Word.", "Other word."):
        yield from (part(n, "text", text=words, time={"start": 1}) for n in range(length))


def steps_with_costs(length: int) -> Iterator[Record]:
    yield opencode.info("msg_2", "assistant")
    for cost in (0.5, 0.25):
        counts = {"tokens": opencode.TOKENS, "cost": cost, "reason": "tool-calls"}
        yield from (part(n, "step-finish", **counts) for n in range(length))


def derive_events(records: Iterable[Record]) -> None:
    normalizer = Normalizer()
    for number, record in enumerate(records):
        normalizer.follow(parse_line(json.dumps(record)), context(number))


def fold_messages(records: Iterable[Record]) -> None:
    transform_messages(map(json.dumps, records))


@pytest.mark.parametrize("read", [derive_events, fold_messages])
@pytest.mark.parametrize("records", [calls_without_id, revised_texts, steps_with_costs, texts_of_a_prompt])
def test_work_grows_with_the_length_of_an_answer(
    records: Callable[[int], Iterable[Record]], read: Callable[[Iterable[Record]], None]
) -> None:
    read(records(1))
    short, long = (count_lines(read, records(length)) for length in (LENGTH, 2 * LENGTH))

    assert long < 2.2 * short


def count_lines(read: Callable[[Iterable[Record]], None], records: Iterable[Record]) -> int:
    """Return the number of executed lines; each iteration of a comprehension counts."""
    lines, count, before = list(records), 0, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        read(lines)
    finally:
        sys.settrace(before)
    return count


def open_texts_of_claude(length: int) -> Iterator[Record]:
    yield from (claude.stream_event(claude.block_start(n, claude.text(f"Text {n}."))) for n in range(length))


def open_calls_of_chat_completions(length: int) -> Iterator[Record]:
    for n in range(length):
        call = {"index": n, "id": f"call_{n}", "function": {"name": "read", "arguments": "{}"}}
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
        yield {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}


@pytest.mark.parametrize("records", [open_calls_of_chat_completions, open_texts_of_claude])
def test_work_grows_with_the_number_of_open_texts(
    records: Callable[[int], Iterable[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ash_shared.eventlog.streaming.MAX_OPEN_SLOTS", 20)
    derive_events(records(1))
    short, long = (count_lines(derive_events, records(length)) for length in (100, 200))

    assert long < 2.2 * short


def test_the_oldest_of_many_open_texts_ends() -> None:
    normalizer, events = Normalizer(), list[dict[str, Any]]()
    for number in range(MAX_OPEN_SLOTS + 10):
        record = claude.stream_event(claude.block_start(number, claude.text(f"Text {number}.")))
        events += normalizer.follow(parse_line(json.dumps(record)), context(number))

    assert len(decode_state(normalizer.state()).slots) == MAX_OPEN_SLOTS
    assert [event["payload"] for event in events if event["type"] == "assistant_done"] == [
        {"text": f"Text {number}.", "partial": True} for number in range(10)
    ]


def test_later_chunks_of_a_text_that_ended_early_are_emitted() -> None:
    starts = [claude.block_start(number, claude.text("One, ")) for number in range(MAX_OPEN_SLOTS + 1)]
    late = claude.stream_event(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "two."}}
    )
    normalizer, events = Normalizer(), list[dict[str, Any]]()
    for number, record in enumerate([*map(claude.stream_event, starts), late]):
        events += normalizer.follow(parse_line(json.dumps(record)), context(number))
    events += normalizer.close(context("end"))
    texts = [event["payload"]["text"] for event in events if event["type"] == "assistant_done"]

    assert texts == ["One, "] * (MAX_OPEN_SLOTS + 1) + ["two."]


def test_forgets_calls_without_id_with_their_calls() -> None:
    normalizer = Normalizer()
    for number in range(MAX_CALLS + 10):
        record = antigravity.response(number, None, antigravity.call("view_file", line=number))
        normalizer.follow(parse_line(json.dumps(record)), context(number))
    state = decode_state(normalizer.state())

    assert state.calls_without_id == list(state.calls)
