"""Decoded JSON objects and lists read as their text does; everything else is a TypeError."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from ash_shared import (
    Context,
    Normalizer,
    describe_message,
    filter_system_messages,
    parse_cli_output,
    parse_jsonl,
    parse_message,
    parse_message_content,
    parse_message_content_json,
    to_openai_messages,
    to_session_summary,
    transform_messages,
)
from ash_shared.testing import groups, vectors
from tests.shared.records import claude

PROMPT: dict[str, Any] = claude.line("user", "list it", sessionId="s")
ANSWER: dict[str, Any] = {"role": "assistant", "content": "Done."}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def in_prompt(value: Any) -> dict[str, Any]:
    return claude.line("user", [{"type": "tool_use", "name": "n", "input": value}])


DECODED: dict[str, Any] = {
    "message": PROMPT,
    "list": [PROMPT, ANSWER],
    "list of blocks": [{"type": "text", "text": "a"}],
    "empty object": {},
    "empty list": [],
    "unknown record": {"a": {"b": None}},
    "deepest allowed": in_prompt(nested(195)),
    "too deep": in_prompt(nested(220)),
    "too many blocks": [{"type": "text", "text": "a"}] * 10_001,
    "huge integer": in_prompt(10**4000),
    "integer beyond 64 bits": in_prompt(2**70),
    "NaN": in_prompt(float("nan")),
    "NaN outside the content": {**PROMPT, "cost": float("nan")},
    "infinity": [float("inf")],
    "lone surrogate": in_prompt("a\ud800"),
    "lone surrogate as a key": in_prompt({"\ud800": 1, chr(0xDC00): 2}),
    "not ASCII": in_prompt("žluťoučký 🐎"),
    "numbers as keys": in_prompt({1: "a"}),
}


def results(message: Any, source: str | None = None) -> list[Any]:
    events = Normalizer(source).normalize(
        message, Context("s", iter(map(str, range(999))).__next__, lambda: 1)
    )
    return [
        [block.model_dump(mode="json") for block in parse_message_content(message, source)],
        json.loads(parse_message_content_json(message, source)),
        parse_message(message, source).model_dump(mode="json"),
        describe_message(message, source),
        [event.model_dump(mode="json") for event in events],
    ]


@pytest.mark.parametrize("name", DECODED)
def test_decoded_messages_read_as_their_text(name: str) -> None:
    message = DECODED[name]
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))

    assert results(message) == results(text)
    assert transform_messages([message]) == transform_messages([text])


@pytest.mark.parametrize("group", groups())
def test_decoded_vectors_read_as_their_text(group: str) -> None:
    checked = 0
    for vector in vectors(group):
        try:
            message = json.loads(vector.raw)
        except (ValueError, RecursionError):
            continue
        if isinstance(message, dict | list) and "1e400" not in vector.raw.lower():
            checked += 1
            expected = json.loads(parse_message_content_json(vector.raw, vector.source))
            if not expected or expected[0].get("reason") not in ("limit", "invalid_json"):
                assert json.loads(parse_message_content_json(message, vector.source)) == expected, vector.name
    assert checked


TEXT = json.dumps(PROMPT, separators=(",", ":"))
TRANSCRIPTS: dict[str, Any] = {
    "texts": [TEXT, json.dumps(ANSWER, separators=(",", ":"))],
    "bytes": [TEXT.encode(), bytearray(json.dumps(ANSWER, separators=(",", ":")).encode())],
    "dicts": [PROMPT, ANSWER],
    "generator": (message for message in (PROMPT, ANSWER)),
    "rows of one column": [(PROMPT,), (ANSWER,)],
    "rows with a source": [(PROMPT, "claude"), (ANSWER, None)],
    "texts with a source": [(TEXT, "claude"), (ANSWER, None)],
    "one text": f"{TEXT}\n{json.dumps(ANSWER, separators=(',', ':'))}\n",
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_reads_transcripts(name: str) -> None:
    messages = transform_messages(TRANSCRIPTS[name])

    assert [(message.role, message.content[0].model_dump()) for message in messages] == [
        ("user", {"type": "text", "text": "list it"}),
        ("assistant", {"type": "text", "text": "Done."}),
    ]


def test_uses_the_source_of_a_row() -> None:
    (message,) = transform_messages([({"role": "user", "content": "hi"}, "pi")], "claude")

    assert message.metadata.source == "pi"


def test_cli_output_may_be_a_buffer() -> None:
    buffer: Any = bytearray(b"Done.")

    assert parse_cli_output(buffer).data == parse_cli_output("Done.").data == "Done."


def normalize(message: Any) -> Any:
    return Normalizer().normalize(message, Context("s", str, lambda: 1))


MESSAGE, ONE_OR_MANY = "a message (str, bytes, dict or list), got", "one text or an iterable of messages"
STANDARD = transform_messages([PROMPT])
REJECTED: list[tuple[Callable[[Any], Any], Any, str]] = [
    *(
        (function, value, f"{MESSAGE} {type(value).__name__}")
        for function in (parse_message_content, parse_message_content_json, parse_message, describe_message, normalize)
        for value in (None, 5, 0.5, True, (PROMPT,), {"a"}, object(), STANDARD[0])
    ),
    (parse_message_content, {"at": datetime(2026, 1, 1)}, "that JSON can represent: Object of type datetime"),
    (parse_message_content, {("a",): 1}, "that JSON can represent: keys must be str"),
    (parse_message_content, nested(10_000), "that JSON can represent: maximum recursion depth"),
    (transform_messages, PROMPT, f"{ONE_OR_MANY}.*, got dict"),
    (transform_messages, None, f"{ONE_OR_MANY}.*, got NoneType"),
    (transform_messages, 5, f"{ONE_OR_MANY}.*, got int"),
    (transform_messages, STANDARD[0], f"{ONE_OR_MANY}.*, got StandardMessage"),
    (transform_messages, [None], f"{MESSAGE} NoneType"),
    (transform_messages, [5], f"{MESSAGE} int"),
    (transform_messages, [(PROMPT, 5)], "a source of type int"),
    (transform_messages, [(PROMPT, None, None)], "got 3 columns"),
    (filter_system_messages, STANDARD[0], "an iterable of StandardMessage, got one StandardMessage"),
    (filter_system_messages, PROMPT, "an iterable of StandardMessage, got one that contains a str"),
    (filter_system_messages, [PROMPT], "an iterable of StandardMessage, got one that contains a dict"),
    (to_session_summary, PROMPT, "an iterable of events, got one dict"),
    (to_openai_messages, "text", "an iterable of events, got one str"),
    (parse_cli_output, PROMPT, "a text (str or bytes), got dict"),
    (lambda value: list(parse_jsonl(value)), [TEXT], "a text (str or bytes), got list"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "value", "problem"), REJECTED)
def test_rejects_other_types(function: Callable[[Any], Any], value: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem.replace("(", r"\(").replace(")", r"\)")):
        function(value)
