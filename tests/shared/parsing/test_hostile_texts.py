"""Hostile texts: minimal inputs that once broke a guarantee of the library, and the guarantee."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ash_shared import (
    StandardMessage,
    describe_message,
    parse_cli_output,
    parse_message,
    parse_message_content,
    parse_message_content_json,
    transform_messages,
)
from ash_shared.parsing.parsed_text import identify
from ash_shared.providers import discover
from tests.marking import slow_unless
from tests.shared.leaves import leaves
from tests.shared.records import claude, codex
from tests.shared.records.events import wire_event
from tests.shared.test_growth import count_lines, fold_messages
from tests.shared.transcripts import lines

HUGE = int("9" * 400)
UUID = "12345678-1234-1234-1234-123456789abc"


def _standard(**keys: Any) -> dict[str, Any]:
    return {"_original": [], "role": "user", "content": [], "metadata": {"source": "ash"}, **keys}


_event = partial(wire_event, id="e", timestamp=1, sessionId="s")

SESSIONS: list[tuple[str | None, list[Any]]] = [
    (None, [{"type": "queue-operation", "content": []}]),
    (None, [{"type": "event_msg", "payload": {"type": "item_completed", "item": {"type": "Plan", "content": []}}}]),
    (None, [{"type": "result", "result": "x", "total_cost_usd": HUGE}]),
    (None, [{"type": "result", "result": "x", "total_cost_usd": cost} for cost in (-1.7e308, 1.7e308)]),
    ("gemini_cli", [{"$rewindTo": []}]),
    (None, [_standard(usage=5)]),
    (None, [_standard(usage={})]),
    (None, [_standard(usage={"input_tokens": 1.5, "output_tokens": 1, "total_tokens": 1})]),
    (None, [_standard(error="x")]),
    (None, [_standard(error={"code": 1, "message": "m"})]),
    (None, [_standard(metadata={"messageId": 5})]),
    (None, [_standard(metadata={"messageId": [1]})]),
    (None, [_event("assistant_done", text="a"), _event("turn_end", usage=5)]),
    (None, [_event("error", message=5)]),
    ("\ud800", [{"type": "user", "message": {"content": "a"}}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "records"), SESSIONS, ids=lambda value: str(value)[:70].encode("ascii", "replace")
)
def test_messages_of_any_session_can_be_encoded(source: str | None, records: list[Any]) -> None:
    messages = transform_messages(lines(*records), source)

    dumped = [message.model_dump_json() for message in messages]

    assert [StandardMessage.model_validate_json(message) for message in dumped] == messages
    assert len({message.id for message in messages}) == len(messages)
    assert transform_messages(lines(*records), source) == messages


@pytest.mark.parametrize(
    "record",
    [
        {"type": "user", "session_id": UUID, "message": {"role": "x", "content": [{"type": "text", "text": "a"}]}},
        {"ev": "message", "data": {"type": "user", "message": {"content": "inner"}}, "type": "user",
         "message": {"content": "outer"}},
        {"type": "user", "payload": {}, "sessionId": "s", "id": "x", "message": {"content": "a"}},
        {"type": "assistant", "_original": 1, "role": "user", "content": [], "message": {"content": "a"}},
    ],
    ids=["cursor", "envelope", "event", "standard"],
)  # fmt: skip
def test_fast_path_agrees_with_full_parsing(record: dict[str, Any]) -> None:
    text = json.dumps(record)

    parsed = parse_message_content(text)

    assert parse_message(text).parsed == parsed
    assert [block.model_dump() for block in parsed] == json.loads(parse_message_content_json(text))


def _line(content: str, result: str = "0") -> str:
    return f'{{"type":"user","message":{{"role":"user","content":{content}}},"toolUseResult":{result}}}'


_FEW_VALUES, _MANY_VALUES = ("[" + "[]," * times + "[]]" for times in (200_000, 500_000))
_STRING = '"' + "[1,2]," * 200_000 + '\\""'


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        (_line('"a"', _MANY_VALUES), False),
        (_line(f'[{{"type":"tool_use","id":"c","name":"n","input":{{"a":{_MANY_VALUES}}}}}]'), False),
        (_line('"a"', _FEW_VALUES), True),
        pytest.param(_line(_STRING, _FEW_VALUES), True, marks=pytest.mark.slow),
        (_line(_STRING, f"[{_STRING},{_STRING}]"), True),
    ],
    ids=["beside the content", "in the content", "few", "few and those in a string", "only in strings"],
)
def test_text_of_too_many_values_is_not_decoded(text: str, is_read: bool) -> None:
    """Values take many times the memory of their text."""
    expected = json.loads(text)["message"]["content"] if is_read else text

    for form in (text, text.encode()):
        [block] = parse_message(form).parsed
        shown = block.model_dump(exclude_none=True)
        assert shown in (
            {"type": "text", "text": expected},
            {"type": "raw", "reason": "limit", "raw": expected},
        )
        assert (shown["type"] == "text") is is_read
        assert parse_message_content(form) == [block]
        assert json.loads(parse_message_content_json(form)) == [shown]


def test_values_of_a_text_without_an_end_are_counted_once() -> None:
    """In linear time: a quadratic count would take hours."""
    text = "[" + "0," * 500_000 + '"' + '\\"' * 1_000_000

    [block] = parse_message_content(text)

    assert block.model_dump(exclude_none=True) == {"type": "raw", "reason": "limit", "raw": text}


def _answer(**keys: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion",
        "choices": [{"message": {"role": "assistant", "content": "hi", **keys}}],
    }


KEPT: list[tuple[str | None, dict[str, Any]]] = [
    (None, _answer(tool_calls={"id": "KEPT"})),
    (None, _answer(tool_calls="KEPT")),
    (None, _answer(annotations={"url": "KEPT"})),
    (None, _answer(content=None, annotations=[{"url": "KEPT"}])),
    (None, _answer(content=None, annotations=[{"url": "KEPT"}], tool_calls=[
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}])),
    (None, _answer(reasoning={"text": "KEPT"})),
    (None, _answer(reasoning_content=["KEPT"], reasoning_details=[])),
    (None, _answer(reasoning_details={"text": "KEPT"})),
    ("openai_chat", {"choices": {"message": "KEPT"}}),
    ("openai_chat", {"messages": {"role": "KEPT"}}),
    (None, {"id": "1", "timestamp": "2025", "type": "gemini", "content": "x", "toolCalls": {"name": "KEPT"}}),
    (None, {"id": "1", "timestamp": "2025", "type": "gemini", "content": "x", "thoughts": {"subject": "KEPT"}}),
    (None, {"id": "i", "object": "interaction", "status": "completed", "steps": {"type": "KEPT"}}),
    (None, {"type": "event_msg", "payload": {"type": "user_message", "message": "m", "images": {"k": "KEPT"}}}),
    (None, {"type": "event_msg", "payload": {"type": "user_message", "message": "m", "local_images": "KEPT"}}),
    (None, {"type": "item.completed", "item": {"id": "i", "type": "reasoning", "summary": "KEPT"}}),
    (None, {"info": {"sessionID": "s", "role": "user"}, "parts": {"k": "KEPT"}}),
    ("opencode", {"info": {"sessionID": "s", "role": "user"}, "parts": {"k": "KEPT"}}),
    (None, {"role": "user", "parts": [{"type": "steering-message", "parts": {"k": "KEPT"}}]}),
    (None, {"object": "response", "output": [{"type": "message", "id": "KEPT", "role": "assistant", "content": []}]}),
    (None, {"type": "ai", "content": [{"type": "tool_call", "id": "1", "name": "a", "args": {}}],
            "tool_calls": [{"id": "1", "name": "a", "args": {"x": "KEPT"}}], "response_metadata": {}}),
    (None, {"type": "tool_use", "sessionID": "s", "part": {"type": "tool", "callID": "c", "tool": "t", "state": {
        "status": "completed", "input": {}, "output": "o", "attachments": {"k": "KEPT"}}}}),
]  # fmt: skip


@pytest.mark.parametrize("value", [5, {"a": 1}, [5], [[]]], ids=str)
def test_objects_with_a_list_are_read_by_every_provider(value: object) -> None:
    """Top-level lists are records with the key `list` for the providers that read them."""
    text = json.dumps({"list": value})

    for source in discover():
        described = describe_message(text, source)
        assert (described.source, identify(text, source).session) == (source, None)


@pytest.mark.parametrize("role", [7, ["user"], "narrator"], ids=str)
def test_message_with_an_unknown_role_is_malformed(role: object) -> None:
    record = {"type": "message", "message": {"role": role, "content": []}}

    parsed = parse_message(json.dumps(record), "droid")

    assert [block.type for block in parsed.parsed] == ["raw"]
    assert parsed.role == describe_message(json.dumps(record), "droid").role == "system"


@pytest.mark.parametrize(("source", "record"), KEPT, ids=lambda value: str(value)[-60:])
def test_keeps_values_of_the_wrong_type_instead_of_a_list(source: str | None, record: dict[str, Any]) -> None:
    blocks = json.loads(parse_message_content_json(json.dumps(record), source))

    assert (str, "KEPT") in leaves(blocks)


RECOGNIZED: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"messages": [{"role": "user", "content": [
        {"type": "text", "text": "a"}, {"type": "file", "file": {"file_id": "f"}}]}], "stream": False},
     ("openai_chat",)),
    ({"messages": [{"role": "user", "content": []}], "system": [], "inferenceConfig": {}}, ("bedrock",)),
    ({"messages": [{"role": "user", "content": "a"}], "model": "claude-x", "stream_options": {}},
     ("openai_chat",)),
    ({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "c", "content": "b"}],
      "thinking": {"type": "enabled"}}, ("openai_chat",)),
    ({"type": "result", "timestamp": "2025-01-01", "status": "success"}, ("gemini_cli",)),
    ({"type": "user", "timestamp": "2025-01-01", "payload": {}}, ("codex",)),
    ({"type": "assistant", "sessionID": "s", "part": {"type": "text", "text": "a"}}, ("opencode",)),
    ({"type": "thinking", "subtype": "delta", "session_id": "s", "thinking": "a"}, ("cursor",)),
    ({"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {}, "timestamp": 1}}, ("pi",)),
    ({"type": "message_start", "message": {"type": "message", "role": "assistant", "usage": {}, "provider": "p"}},
     ("claude",)),
    ({"type": {}, "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}, ()),
    ({"type": "message", "role": "user", "content": [], "status": "completed"}, ("openai_responses",)),
    ({"role": "user", "content": "a", "$set": {}}, ()),
    ({"$rewindTo": "1", "messages": [{"role": "user", "content": "a"}]}, ()),
    ({"error": {"code": 1, "status": "X", "message": "m"}, "choices": []}, ()),
    (_standard(), ("ash",)),
    ({**_standard(), "type": "message", "role": "assistant", "model": "claude-x"}, ("claude",)),
    ({"_original": 1, "type": "message", "role": "assistant", "content": [], "usage": {}}, ("claude",)),
]  # fmt: skip


@pytest.mark.parametrize(("record", "owners"), RECOGNIZED, ids=lambda value: str(value)[:60])
def test_at_most_one_provider_recognizes_a_record(record: dict[str, Any], owners: tuple[str, ...]) -> None:
    assert tuple(provider.source for provider in discover().values() if provider.recognize(record)) == owners


DOCUMENT = {
    "sessionId": "s",
    "projectHash": "h",
    "startTime": "2025",
    "messages": [{"id": "1", "timestamp": "2025-01-01", "type": "user", "content": "hi"}],
}


@pytest.mark.parametrize(
    "text",
    ["\ufeff" + json.dumps(DOCUMENT, indent=1), json.dumps(DOCUMENT, indent=1).replace("hi", r"\ud83d")],
    ids=["byte order mark", "surrogate"],
)
def test_multiline_document_is_one_text(text: str) -> None:
    assert [len(transform_messages(form)) for form in (text, text.encode(), [text])] == [1, 1, 1]


def test_invalid_utf8_affects_only_its_own_line() -> None:
    line = b'{"type":"user","pad":"\xff","message":{"role":"user","content":"kept"}}'

    assert transform_messages(line) == transform_messages([line]) != []


@pytest.mark.parametrize("stdout", ["\ud800", r'{"type":"result","result":"\ud800"}'])
def test_cli_output_can_be_encoded(stdout: str) -> None:
    assert json.loads(parse_cli_output(stdout, duration=1, exit_code=0).model_dump_json())


GROWING: dict[str, Callable[[int], list[Any]]] = {
    "a request of many messages": lambda n: [{"messages": [{"role": "user", "content": []}] * (4 * n)}],
    "sources of many texts": lambda n: [
        {
            "role": "assistant",
            "parts": [{"type": "text", "text": "x"}] * (n // 5) + [{"type": "source-url"}] * (n // 4),
        }
    ],
    "events without their items": lambda n: (
        [codex.message_item("assistant", "a" * 200)] * n
        + [codex.event("agent_message", message="a" * 30 + "b")] * n
    ),
    "queued prompts after a prompt of many blocks": lambda n: [
        claude.line("user", [claude.text("a")] * n),
        *({"type": "queue-operation", "content": f"b{number}"} for number in range(n)),
    ],
}


@pytest.mark.parametrize("name", slow_unless(lambda name: name != "events without their items", GROWING))
def test_work_grows_with_the_length_of_a_session(name: str) -> None:
    assert transform_messages(lines(*GROWING[name](100)))

    short, long = (count_lines(fold_messages, GROWING[name](length)) for length in (400, 800))

    assert long < 2.2 * short


@pytest.mark.slow
def test_too_many_blocks_are_counted_in_linear_time() -> None:
    message = {**dict.fromkeys(("id", "content", "timestamp"), ""), "variant": "ai"}
    blocks = [{"type": "text", "content": "x"}] * 200_000

    (block,) = parse_message_content(json.dumps([{**message, "blocks": blocks}]), "codebuff")

    assert (block.type, getattr(block, "reason", None)) == ("raw", "limit")


def test_messages_are_not_much_larger_than_their_text() -> None:
    (text,) = lines({"messages": [{"role": "user", "content": "a"}] * 500})

    dumped = sum(len(message.model_dump_json()) for message in transform_messages(text))

    assert dumped < 50 * len(text)
