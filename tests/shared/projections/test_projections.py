"""Projections of logs: tables compared whole, and random logs checked against the rules of the APIs."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.eventlog import OpenTurn
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.events import read_event
from ash_shared.projections import (
    AgentSpending,
    count_models,
    to_anthropic_messages,
    to_claude_prompt,
    to_codex_prompt,
    to_openai_messages,
    to_session_summary,
    total_spending,
)
from ash_shared.projections.spending import Spending
from ash_shared.projections.summary_fold import SummaryFold
from tests.shared.records import claude
from tests.shared.records.events import Event, numbered, tool_call, tool_result, turn_start, wire_event

Json = dict[str, Any]

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQK"

# The rules of the APIs. Anthropic: "Handle tool calls" and the errors that name a field; OpenAI: the reference of Chat
# Completions and its errors ("An assistant message with 'tool_calls' must be followed by tool messages …").

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@cache
def adapters() -> dict[str, TypeAdapter[Any]]:
    """Return the vendors' types. Each process collects this file, and importing their packages takes seconds."""
    from anthropic import types as anthropic
    from openai.types import chat as openai

    return {
        "document": TypeAdapter(anthropic.DocumentBlockParam),
        "image": TypeAdapter(anthropic.ImageBlockParam),
        "text": TypeAdapter(anthropic.TextBlockParam),
        "tool_result": TypeAdapter(anthropic.ToolResultBlockParam),
        "tool_use": TypeAdapter(anthropic.ToolUseBlockParam),
        "part of OpenAI": TypeAdapter(openai.ChatCompletionContentPartParam),
        "call of OpenAI": TypeAdapter(openai.ChatCompletionMessageFunctionToolCallParam),
    }


def assert_openai_accepts(messages: list[Json], *, is_open: bool = False) -> None:
    json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    called: list[str] = []
    due: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message.keys() == {"role", "tool_call_id", "content"}
            assert isinstance(message["content"], str)
            due.remove(message["tool_call_id"])
            continue
        assert due == [], "a message before the results of all calls"
        due = _CHECKS[message["role"]](message)
        called += due
    assert due == [] or is_open
    assert len(set(called)) == len(called)


def _check_openai_user(message: Json) -> list[str]:
    content = message["content"]
    assert message.keys() == {"role", "content"}
    assert content.strip() if isinstance(content, str) else content
    for part in content if isinstance(content, list) else ():
        adapters()["part of OpenAI"].validate_python(part, strict=True)
        assert part["type"] != "text" or part["text"].strip()
        assert part["type"] != "image_url" or re.match(r"https://|data:image/(png|jpeg|gif|webp);base64,",
                                                       part["image_url"]["url"])  # fmt: skip
    return []


def _check_openai_assistant(message: Json) -> list[str]:
    calls = message.get("tool_calls", [])
    assert message.keys() == ({"role", "content", "tool_calls"} if calls else {"role", "content"})
    assert bool(message["content"].strip() if message["content"] is not None else calls)
    assert len(calls) <= 128
    for call in calls:
        adapters()["call of OpenAI"].validate_python(call, strict=True)
        assert _ID.fullmatch(call["id"])
        assert _NAME.fullmatch(call["function"]["name"])
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
    return [call["id"] for call in calls]


_CHECKS: dict[str, Callable[[Json], list[str]]] = {
    "assistant": _check_openai_assistant,
    "user": _check_openai_user,
}


def assert_anthropic_accepts(messages: list[Json], *, is_open: bool = False) -> None:
    json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[place % 2] for place in range(len(messages))]
    called: list[str] = []
    due: list[str] = []
    for place, message in enumerate(messages):
        is_last = place == len(messages) - 1
        assert message.keys() == {"role", "content"}
        assert message["content"]
        for block in message["content"]:
            _check_anthropic_block(block, message["role"])
        answered = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        types = [block["type"] == "tool_result" for block in message["content"]]
        assert types == sorted(types, reverse=True), "a result after another block"
        assert len(set(answered)) == len(answered)
        if message["role"] == "user":
            assert set(answered) <= set(due) if is_open and is_last else sorted(answered) == sorted(due)
        due = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        called += due
        assert message["role"] == "user" or not is_last or _ends_without_space(message["content"][-1])
    assert due == [] or is_open
    assert len(set(called)) == len(called)


def _ends_without_space(block: Json) -> bool:
    return block["type"] != "text" or not str(block["text"])[-1].isspace()


def _check_anthropic_block(block: Json, role: str) -> None:
    wire = block["type"]
    adapters()[wire].validate_python(block, strict=True)
    assert (
        wire
        in {"assistant": ("text", "tool_use"), "user": ("text", "image", "document", "tool_result")}[role]
    )
    if wire == "text":
        assert block["text"].strip()
    elif wire == "tool_use":
        assert _ID.fullmatch(block["id"])
        assert _NAME.fullmatch(block["name"])
        assert isinstance(block["input"], dict)
    elif wire == "tool_result":
        _check_anthropic_result(block)


def _check_anthropic_result(block: Json) -> None:
    content = block.get("content", [{"type": "text", "text": "-"}])
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    assert blocks
    for inner in blocks:
        assert inner["type"] in ("text", "image", "document")
        _check_anthropic_block(inner, "user")
    if block.get("is_error"):
        assert "content" in block
        assert all(inner["type"] == "text" for inner in blocks)


# Logs


log = partial(numbered, first=0, sessionId="s")


def user(text: str, **more: Any) -> Event:
    return wire_event("user_message", text=text, **more)


def reply(text: str, response: str | None = None, /, **more: Any) -> Event:
    return wire_event("assistant_done", text=text, **of_response(response), **more)


def call(id: str, response: str | None = None, /, name: str = "Bash", args: Any = None, **more: Any) -> Event:
    args = {"command": "ls"} if args is None else args
    return tool_call(id, name, args, **of_response(response), **more)


def of_response(id: str | None) -> dict[str, str]:
    return {"responseId": id} if id else {}


def result(id: str, answer: Any = "ok", **more: Any) -> Event:
    return tool_result(id, answer, **more)


def start(turn: str = "t") -> Event:
    return turn_start(turnId=turn)


retraction = partial(wire_event, "retraction")


def call_msg(
    id: str = "c1", text: str | None = None, name: str = "Bash", arguments: str = '{"command": "ls"}'
) -> Json:
    calls = [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def result_msg(id: str = "c1", text: str = "ok") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": text}


def user_msg(text: Any) -> Json:
    return {"role": "user", "content": text}


def assistant_msg(text: str) -> Json:
    return {"role": "assistant", "content": text}


Q, A = user_msg("Q"), assistant_msg("A")
TWO_CALLS = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [*call_msg("c1")["tool_calls"], *call_msg("c2")["tool_calls"]],
}
LONG_ID = "0123456789/" * 5

CASES: dict[str, tuple[list[Json], list[Json]]] = {
    "nothing": ([], []),
    "a question and its answer": (
        log(start(), user("Q"), reply("A"), wire_event("turn_end", turnId="t")),
        [Q, A],
    ),
    "a text that its blocks do not have": (
        log(wire_event("user_message", text="Q", content=[{"type": "text", "text": "R"}]), reply("A")),
        [user_msg("Q\n\nR"), A],
    ),
    "a text that its blocks repeat": (
        log(wire_event("user_message", text="Q\n\nR", content=[{"type": "text", "text": t} for t in "QR"])),
        [user_msg("Q\n\nR")],
    ),
    "events without a message": (
        log(
            user("Q"),
            wire_event("user_message", text="AGENTS.md", synthetic=True),
            wire_event("system_message", text="Be good."),
            wire_event("assistant_chunk", text="A"),
            wire_event("thinking_chunk", text="Hm."),
            wire_event("thinking_done", text="Hm.", signature="x"),
            wire_event("audio_chunk", data="AA==", seq=0),
            wire_event("audio_done", durationMs=3.0),
            wire_event("tool_output_chunk", toolCallId="c1", chunk="o", offset=0),
            wire_event("agent_message", messageId="m", message="Do it.", wait=False),
            wire_event("raw", source="unknown", raw={}),
            wire_event("error", code="500", message="Oh."),
            wire_event("never_seen", text="?"),
            reply("I will see.", phase="commentary"),
            reply("A", phase="final_answer"),
        ),
        [Q, A],
    ),
    "transcribed audio": (log(wire_event("user_audio", transcription="Q", durationMs=9.5)), [Q]),
    "blank texts": (log(user(" \n"), reply(""), user("Q"), reply("\n\n"), reply("A")), [Q, A]),
    "calls with the same response id": (
        log(
            user("Q"),
            reply("I look.", "r1"),
            call("c1", "r1"),
            result("c1"),
            call("c2", "r1"),
            result("c2"),
            reply("A", "r2"),
        ),
        [Q, TWO_CALLS, result_msg("c1"), result_msg("c2"), A],
    ),
    "adjacent calls without a response id": (
        log(user("Q"), reply("I look."), call("c1"), call("c2"), result("c2"), result("c1"), reply("A")),
        [Q, TWO_CALLS, result_msg("c1"), result_msg("c2"), A],
    ),
    "consecutive calls": (
        log(call("c1"), result("c1"), call("c2"), result("c2")),
        [call_msg("c1"), result_msg("c1"), call_msg("c2"), result_msg("c2")],
    ),
    "a text and a call with different response ids": (
        log(reply("I look.", "r1"), call("c1", "r2"), result("c1")),
        [assistant_msg("I look."), call_msg(), result_msg()],
    ),
    "a text after a result": (
        log(call("c1", "r1"), result("c1"), reply("A", "r1"), call("c2", "r1"), result("c2")),
        [call_msg(), result_msg(), call_msg("c2", "A"), result_msg("c2")],
    ),
    "a late result": (
        log(call("c1"), user("Hurry."), reply("Yes."), result("c1"), result("c1", "again")),
        [call_msg(), result_msg(), user_msg("Hurry."), assistant_msg("Yes.")],
    ),
    "calls without results, results without calls": (
        log(result("c1"), user("Q"), call("c1"), call("c2", partial=True), result("c9"), reply("A")),
        [Q, A],
    ),
    "a reused id": (
        log(start("t1"), call("c1"), result("c1"), start("t2"), call("c1"), result("c1", "two")),
        [call_msg(), result_msg(), call_msg("c1_2_acd5a00cb7fc"), result_msg("c1_2_acd5a00cb7fc", "two")],
    ),
    "an id that looks like a reused one": (
        log(call("c1_2_acd5a00cb7fc"), result("c1_2_acd5a00cb7fc"), *2 * (call("c1"), result("c1"))),
        [
            call_msg("c1_2_acd5a00cb7fc"),
            result_msg("c1_2_acd5a00cb7fc"),
            call_msg("c1"),
            result_msg("c1"),
            call_msg("c1_3_f8498632e702"),
            result_msg("c1_3_f8498632e702"),
        ],
    ),
    "boundaries between responses": (
        log(
            *(reply("0"), call("c1", "r1"), reply("1", "r2"), result("c1")),
            *(wire_event("agent_switch", fromAgentId="a", toAgentId="b"), reply("2", "r2")),
            *(start("t"), reply("3", "r2")),
            wire_event("assistant_done", text=".", turnId="t4"),
            wire_event("assistant_done", text="4", turnId="t5"),
        ),
        [call_msg("c1", "0"), result_msg("c1"), *map(assistant_msg, ("1", "2", "3\n\n.", "4"))],
    ),
    "ids and names that the APIs reject": (
        log(call("call\nfc", name="a.b/c"), result("call\nfc"), call(LONG_ID, name=""), result(LONG_ID)),
        [
            call_msg("call_fc_4390347723c4", name="a_b_c"),
            result_msg("call_fc_4390347723c4"),
            call_msg("0123456789_0123456789_01234_76543c852c1c", name="_ddd9c40767f9"),
            result_msg("0123456789_0123456789_01234_76543c852c1c"),
        ],
    ),
    "arguments that are not an object": (
        log(call("c1", args="*** Begin"), result("c1"), call("c2", args=[1, "é"]), result("c2")),
        [
            call_msg("c1", arguments='{"input": "*** Begin"}'),
            result_msg("c1"),
            call_msg("c2", arguments='{"input": [1, "é"]}'),
            result_msg("c2"),
        ],
    ),
    "a subagent": (
        log(
            call("c1", name="Task"),
            wire_event("user_message", text="Look.", parentToolCallId="c1"),
            call("c2", parentToolCallId="c1"),
            result("c2", parentToolCallId="c1"),
            reply("Found.", parentToolCallId="c1"),
            result("c1", "Found."),
        ),
        [call_msg(name="Task"), result_msg(text="Found.")],
    ),
    "a subagent without the id of its call": (
        log(
            call("c1", name="Task"),
            wire_event("user_message", text="Look.", synthetic=True, sidechain=True),
            call("c2", sidechain=True),
            result("c2"),
            reply("Found.", sidechain=True),
            result("c1", "Found."),
        ),
        [call_msg(name="Task"), result_msg(text="Found.")],
    ),
    "callbacks": (
        log(
            wire_event("agent_callback", messageId="m", fromAgentId="coder", result="Fixed."),
            wire_event("agent_callback", messageId="m", fromSessionId="s2", result=""),
        ),
        [user_msg("[Callback from coder]: Fixed."), user_msg("[Callback from s2]: ")],
    ),
    "a summary": (
        log(user("Q"), call("c1"), wire_event("summary", text="We looked."), result("c1"), reply("A")),
        [user_msg("[Summary of the conversation so far]\n\nWe looked."), A],
    ),
    "an empty summary": (log(user("Q"), wire_event("summary", text=""), reply("A")), [Q, A]),
    "a reset": (log(user("old"), wire_event("reset"), user("Q")), [Q]),
    "retracted events": (log(user("Q"), reply("no"), retraction(eventIds=["e1", "e9"]), reply("A")), [Q, A]),
    "retracted records and answers": (
        log(
            user("no", recordId="x"),
            user("Q"),
            reply("no", "r1"),
            retraction(messageIds=["r1", "x"]),
            reply("A"),
        ),
        [Q, A],
    ),
    "retraction from a record on": (
        log(user("Q"), user("no", recordId="x"), reply("no"), retraction(fromMessageId="x"), reply("A")),
        [Q, A],
    ),
    "retraction from an unknown record": (log(user("no"), retraction(fromMessageId="x"), user("Q")), [Q]),
    "retracted turns": (
        log(
            *(start("t1"), user("Q", turnId="t1"), reply("A")),
            *(start("t2"), user("no", turnId="t2"), start("t3"), user("no", turnId="t3")),
            *(start("t4"), retraction(turns=2)),
        ),
        [Q, A],
    ),
    "retraction without turn events": (log(user("Q"), reply("A"), user("no"), retraction(turns=1)), [Q, A]),
    "a retracted turn with a summary": (
        log(
            start("t1"),
            user("Q"),
            reply("A"),
            start("t2"),
            wire_event("summary", text="S"),
            user("no"),
            retraction(turns=1),
        ),
        [Q, A],
    ),
    "a turn with only its start left": (
        log(
            *(user("Q", turnId="t1"), reply("A"), user("no", turnId="t2")),
            *(start("t3"), user("no", recordId="x"), retraction(fromMessageId="x"), retraction(turns=1)),
        ),
        [Q, A],
    ),
    "more turns retracted than exist": (log(user("no"), retraction(turns=2), user("Q")), [Q]),
    "an error without a result": (
        log(call("c1"), result("c1", None, error={"code": "timeout", "message": "too slow"})),
        [call_msg(), result_msg(text="too slow")],
    ),
    "results that are not text": (
        log(
            *(call("c1"), result("c1", {"n": 1}), call("c2"), result("c2", None, structured=[2])),
            *(call("c3"), result("c3", None)),
        ),
        [
            call_msg("c1"),
            result_msg("c1", '{"n": 1}'),
            call_msg("c2"),
            result_msg("c2", "[2]"),
            call_msg("c3"),
            result_msg("c3", ""),
        ],
    ),
    "lone surrogates": (
        log(user("a\ud800b"), call("c1", args={"\udc00": "\ud83d\ude00"}), result("c1", ["\ud800"])),
        [user_msg("a\ufffdb"), call_msg(arguments='{"\ufffd": "😀"}'), result_msg(text='["\ufffd"]')],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_openai_messages(case: str) -> None:
    events, expected = CASES[case]
    messages = to_openai_messages(events)

    assert messages == expected
    assert_openai_accepts(messages)
    assert_anthropic_accepts(to_anthropic_messages(events))


@pytest.mark.parametrize("case", CASES)
def test_typed_and_plain_events_give_the_same_result(case: str) -> None:
    events = CASES[case][0]
    typed = [read_event(event) for event in events if "\\ud" not in json.dumps(event)]
    plain = [event for event in events if "\\ud" not in json.dumps(event)]

    for project in (to_openai_messages, to_anthropic_messages, to_claude_prompt, to_session_summary):
        assert project(iter(typed)) == project(plain)


IMAGES: dict[str, tuple[Json, Json, Json]] = {
    "inline": (
        {"type": "base64", "media_type": "image/jpeg", "data": PNG},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ),
    "by URL": (
        {"type": "url", "url": "https://example.org/a.png"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ),
    "by file id": (
        {"type": "file", "file_id": "file-1", "media_type": "image/png"},
        *2 * ({"type": "text", "text": "[image: image/png]"},),
    ),
    "of an unsupported type": (
        {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zz4="},
        *2 * ({"type": "text", "text": "[image: image/svg+xml]"},),
    ),
    "above Anthropic's size limit": (
        {"type": "base64", "data": PNG[:-1] + "A" * (5 * 1024 * 1024 + 1)},
        *2 * ({"type": "text", "text": "[image]"},),
    ),
    "not base64": (
        {"type": "base64", "data": PNG[:-1]},
        *2 * ({"type": "text", "text": "[image]"},),
    ),
    "by a local URL": (
        {"type": "url", "url": "file:///a.png"},
        *2 * ({"type": "text", "text": "[image]"},),
    ),
}


@pytest.mark.parametrize("case", IMAGES)
def test_images(case: str) -> None:
    source, openai, anthropic = IMAGES[case]
    image = {"type": "image", "source": source}
    text = {"type": "text", "text": "Look."}
    events = log(
        wire_event("user_message", text="Look.", content=[text, image]),
        call("c1"),
        result("c1", [text, image]),
    )

    messages = to_anthropic_messages(events)

    content = "Look.\n\n" + openai["text"] if openai["type"] == "text" else [text, openai]
    assert to_openai_messages(events)[0]["content"] == content
    assert messages[0]["content"] == [text, anthropic]
    assert messages[2]["content"][0].get("content") in (
        [text, anthropic],
        "Look.\n\n" + anthropic.get("text", ""),
    )
    assert_anthropic_accepts(messages)


def test_files_and_generated_images() -> None:
    pdf = {"type": "file", "filename": "a.pdf", "source": {"type": "base64", "data": PDF}}
    notes = {"type": "file", "title": "Notes", "source": {"type": "text", "data": "1.2"}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    events = log(
        wire_event("user_message", text="", content=[pdf, notes]),
        wire_event("assistant_done", text="", content=[image]),
    )
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
    }
    text = {"type": "text", "text": "[file: Notes]\n1.2"}
    shown = {"type": "text", "text": "[image: image/png]"}

    assert to_openai_messages(events) == [user_msg([file, text]), assistant_msg(shown["text"])]
    assert to_anthropic_messages(events) == [
        user_msg([document, text]),
        {"role": "assistant", "content": [shown]},
    ]


def test_anthropic_messages() -> None:
    events = log(
        reply("Hello."),
        call("c1"),
        call("c2", args="text"),
        user("And?"),
        result("c2", "", error={"code": "x", "message": ""}),
        result("c1", None),
        user("So?"),
        reply("One.", "r1"),
        reply("Two. \n", "r2"),
    )
    messages = to_anthropic_messages(events)

    assert messages == [
        user_msg([{"type": "text", "text": "[What the user said is not recorded.]"}]),
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Hello."},
                {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "c2", "name": "Bash", "input": {"input": "text"}},
            ],
        },
        user_msg(
            [
                {"type": "tool_result", "tool_use_id": "c1"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "x", "is_error": True},
                {"type": "text", "text": "And?"},
                {"type": "text", "text": "So?"},
            ]
        ),
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        },
    ]
    assert_anthropic_accepts(messages)


def test_failed_result_contains_only_text() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": PNG}}
    events = log(call("c1"), result("c1", [image], error={"code": "x", "message": "no"}))

    assert to_anthropic_messages(events)[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "[image]", "is_error": True}
    ]


OPEN: dict[str, tuple[list[Any], bool]] = {
    "a pending call": ([call("c1")], True),
    "one of two calls pending": ([call("c0"), call("c1"), result("c0")], True),
    "a prompt after the call": ([call("c1"), user("Q")], False),
    "another response after the call": ([call("c1", "r1"), reply("A", "r2")], False),
    "an interrupted turn": ([call("c1"), wire_event("interrupt", reason="user_cancel")], False),
    "an ended turn": ([call("c1"), wire_event("turn_end")], False),
}


@pytest.mark.parametrize("case", OPEN)
def test_keeps_open_calls_on_request(case: str) -> None:
    events, is_kept = log(*OPEN[case][0]), OPEN[case][1]
    openai, anthropic = (
        to_openai_messages(events, open_calls=True),
        to_anthropic_messages(events, open_calls=True),
    )

    assert ['"c1"' in json.dumps(messages) for messages in (openai, anthropic)] == [is_kept, is_kept]
    assert '"c1"' not in json.dumps(to_openai_messages(events))
    assert_openai_accepts(openai, is_open=True)
    assert_anthropic_accepts(anthropic, is_open=True)


def test_splits_calls_at_the_limit_of_openai() -> None:
    ids = [f"c{number}" for number in range(300)]
    messages = to_openai_messages(log(*map(call, ids), *map(result, ids)))

    assert_openai_accepts(messages)
    assert [len(message["tool_calls"]) for message in messages if "tool_calls" in message] == [128, 128, 44]


CONVERSATION = log(
    user("Fix </user> it."),
    reply("I look."),
    call("c1"),
    result("c1", "```\nno\n```", error={"code": "1", "message": "no"}),
    reply("Done."),
)


def test_claude_prompt() -> None:
    assert to_claude_prompt(CONVERSATION) == (
        "This is our conversation so far. Go on from where it ends.\n\n"
        "<conversation-2>\n"
        "<user-2>\nFix </user> it.\n</user-2>\n"
        "<assistant-2>\nI look.\n</assistant-2>\n"
        '<tool_call-2 name="Bash">\n{"command": "ls"}\n</tool_call-2>\n'
        '<tool_result-2 error="true">\n```\nno\n```\n</tool_result-2>\n'
        "<assistant-2>\nDone.\n</assistant-2>\n"
        "</conversation-2>\n"
    )
    assert to_claude_prompt(log(user("<users> say <user> and <user-2>"))).count("<user-3>") == 1
    assert to_claude_prompt(log(reply(""))) == to_claude_prompt([]) == ""


def test_codex_prompt() -> None:
    assert to_codex_prompt(CONVERSATION) == (
        "This is our conversation so far, each message in a code fence. Go on from where it ends.\n\n"
        "## User\n\n```\nFix </user> it.\n```\n\n"
        "## Assistant\n\n```\nI look.\n```\n\n"
        '## Tool call: Bash\n\n```\n{"command": "ls"}\n```\n\n'
        "## Tool result (failed)\n\n````\n```\nno\n```\n````\n\n"
        "## Assistant\n\n```\nDone.\n```\n"
    )
    assert to_codex_prompt([]) == ""


USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "vendor": {"in": 10}}

SUMMARIES: dict[str, tuple[list[Json], Json]] = {
    "nothing": ([], {}),
    "a session": (
        log(
            start("t1"),
            user("Fix\n the test.", turnId="t1"),
            wire_event("user_message", text="AGENTS.md", synthetic=True),
            reply("I look.", "r1"),
            reply("Closely.", "r1"),
            call("c1", "r1"),
            result("c1"),
            call("c2", name="Task"),
            wire_event("user_message", text="Look.", parentToolCallId="c2"),
            call("c3", parentToolCallId="c2"),
            result("c3", error={"code": "1", "message": "no"}, parentToolCallId="c2"),
            result("c2"),
            wire_event("error", code="overloaded", message="Wait."),
            wire_event("agent_message", messageId="m1", targetAgentId="coder", message="Do.", wait=False),
            wire_event("agent_message", messageId="m2", targetSessionId="s2", message="Do.", wait=True),
            wire_event("agent_callback", messageId="m1", fromAgentId="coder", result="Did."),
            wire_event("summary", text="We looked."),
            wire_event("raw", source="unknown", raw=1),
            wire_event("turn_end", usage=USAGE, costUsd=0.25, turnId="t1"),
            start("t2"),
            wire_event("user_audio", transcription="And now?", durationMs=1.0, turnId="t2"),
            wire_event("interrupt", reason="user_cancel", turnId="t2"),
            wire_event("turn_end", usage={**USAGE, "reasoning_tokens": 2}, costUsd=0.5, turnId="t2"),
        ),
        {
            "title": "Fix the test.",
            "lastText": "And now?",
            "lastRole": "user",
            "turns": 2,
            "userMessages": 2,
            "assistantMessages": 1,
            "toolCalls": {"Bash": 2, "Task": 1},
            "toolErrors": {"Bash": 1},
            "errors": {"overloaded": 1},
            "unrecognised": 1,
            "compactions": 1,
            "subagents": 1,
            "agents": ["coder", "s2"],
            "agentCallbacks": 1,
            "awaitedAgents": 1,
            "usage": {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30, "reasoning_tokens": 2},
            "costUsd": 0.75,
            "isInterrupted": True,
        },
    ),
    "prompts with text that a client wrote, and a blank one": (
        log(
            user("<command-name>/clear</command-name>"),
            user("<command-name>/look</command-name>\n<command-args>here</command-args>"),
            user("<system-reminder>Soon.</system-reminder>\nAnd there?"),
            user(" \n"),
        ),
        {
            "title": "/look here",
            "lastText": "And there?",
            "lastRole": "user",
            "turns": 4,
            "userMessages": 3,
        },
    ),
    "callbacks that name only their agent": (
        log(
            *(
                wire_event("agent_message", messageId=id, targetSessionId=agent, message="Do.", wait=False)
                for id, agent in (("m1", "s1"), ("m2", "s1"), ("m3", "s2"))
            ),
            wire_event("agent_callback", messageId="s1", fromSessionId="s1", result="Did."),
        ),
        {"turns": 1, "agents": ["s1", "s2"], "agentCallbacks": 1, "awaitedAgents": 1},
    ),
    "an open turn": (
        log(start("t1"), reply("word " * 60), call("c1"), call("c2", name="Read"), result("c1")),
        {
            "lastText": ("word " * 60)[:199] + "…",
            "lastRole": "assistant",
            "turns": 1,
            "assistantMessages": 1,
            "toolCalls": {"Bash": 1, "Read": 1},
            "isOpen": True,
        },
    ),
    "a text with much white space": (
        log(start("t1"), reply(f"far{' ' * 1000}apart")),
        {
            "lastText": "far apart",
            "lastRole": "assistant",
            "turns": 1,
            "assistantMessages": 1,
            "isOpen": True,
        },
    ),
    "an interrupted turn, before its end": (
        log(start("t1"), call("c1"), wire_event("interrupt", reason="user_cancel", turnId="t1")),
        {"turns": 1, "toolCalls": {"Bash": 1}, "isInterrupted": True},
    ),
    "usage of a retracted turn": (
        log(start("t1"), user("Q"), wire_event("turn_end", usage=USAGE, turnId="t1"), retraction(turns=1)),
        {"usage": {key: USAGE[key] for key in ("input_tokens", "output_tokens", "total_tokens")}},
    ),
}
BARE = {
    "turns": 0,
    "userMessages": 0,
    "assistantMessages": 0,
    "toolCalls": {},
    "toolErrors": {},
    "errors": {},
    "unrecognised": 0,
    "compactions": 0,
    "subagents": 0,
    "agents": [],
    "agentCallbacks": 0,
    "awaitedAgents": 0,
    "isOpen": False,
    "openCalls": [],
    "isInterrupted": False,
    "models": {},
}


@pytest.mark.parametrize("case", SUMMARIES)
def test_session_summary(case: str) -> None:
    events, expected = SUMMARIES[case]
    times = [event["timestamp"] for event in events]
    first, last = (datetime.fromtimestamp(times[at] / 1000, UTC) if times else None for at in (0, -1))
    envelope = {"sessionId": "s", "firstAt": first, "lastAt": last} if events else {}

    assert to_session_summary(events).model_dump() == {**BARE, **envelope, **expected}


def test_summary_does_not_count_what_nobody_said() -> None:
    events = log(
        start("t1"),
        wire_event("user_message", text="\n\n", turnId="t1"),
        wire_event("assistant_done", text="\n\n", turnId="t1", responseId="m1"),
        wire_event("tool_call", toolCallId="c1", toolName="", args={}, turnId="t1"),
        wire_event("assistant_done", text="Done.", turnId="t1", responseId="m2"),
    )

    summary = to_session_summary(events)

    assert (summary.user_messages, summary.assistant_messages, summary.tool_calls) == (0, 1, {})


def test_summary_omits_times_after_the_year_9999() -> None:
    times = {
        **to_session_summary([{**event, "timestamp": 2**53 - 1} for event in log(start("t1"))]).model_dump()
    }

    assert "firstAt" not in times


def test_summary_uses_open_turn_and_models() -> None:
    next_turn = (wire_event("turn_end", usage=USAGE, costUsd=0.25, turnId="t1"), start("t2"))
    open_turn = OpenTurn("t2", {"usage": {**USAGE, "cache_read_input_tokens": 7}, "costUsd": 0.5})
    ended = log(start("t1"), *next_turn, wire_event("turn_end", usage=USAGE, turnId="t2"))

    summary = to_session_summary(log(start("t1"), *next_turn), open_turn=open_turn, models={"a": 1, "b": 2})
    later = to_session_summary(ended, open_turn=open_turn)
    again = to_session_summary([*ended, *log(start("t2"))], open_turn=open_turn)

    usages = [each.model_dump()["usage"] for each in (summary, later, again)]
    assert [usage["total_tokens"] for usage in usages] == [30, 30, 45]
    assert (summary.cost_usd, usages[0]["cache_read_input_tokens"]) == (0.75, 7)
    assert list(summary.models.items()) == [("b", 2), ("a", 1)]


def spending(tokens: int | None, **by_agent: int) -> Spending:
    return Spending(
        None if tokens is None else {"output_tokens": tokens},
        usage_by_agent={agent: {"output_tokens": count} for agent, count in by_agent.items()},
    )


TOTALS: dict[str, tuple[list[AgentSpending], int | None]] = {
    "no usage": ([AgentSpending(None, spending(None))], None),
    "copied lines of a subagent": ([AgentSpending(None, spending(7, a=3))], 7),
    "a subagent with a session": (
        [AgentSpending(None, spending(7, a=3, b=2)), AgentSpending("a", spending(50))],
        54,
    ),
    "a subagent whose session has no usage": (
        [AgentSpending(None, spending(7, a=3)), AgentSpending("a", spending(None))],
        7,
    ),
    "copied lines in two sessions": (
        [
            AgentSpending(None, spending(7, b=3)),
            AgentSpending("a", spending(50, b=20)),
            AgentSpending("b", spending(100)),
        ],
        134,
    ),
    "lines of a subagent in its own session": ([AgentSpending("a", spending(50, a=50))], 50),
}


@pytest.mark.parametrize("case", TOTALS)
def test_totals_count_each_answer_once(case: str) -> None:
    sessions, expected = TOTALS[case]
    usage = total_spending(sessions).usage
    assert (usage and usage["output_tokens"]) == expected


def test_counts_models_of_answers() -> None:
    def answer(model: str, **more: Any) -> Json:
        content = [{"type": "text", "text": str(next(numbers))}]
        return claude.line("assistant", content, {"id": f"m{next(numbers)}", "model": model}, **more)

    numbers = count()
    user = claude.line("user", "Go on.")
    lines = [user, answer("opus"), answer("sonnet"), answer("<synthetic>"), answer("sonnet")]

    assert count_models(transform_messages(map(json.dumps, lines))) == {"sonnet": 2, "opus": 1}


WHOLE_TURN = [(1, "turn_start"), (1, "user_message"), (2, "assistant_done"), (2, "turn_end")]
ENDS_LATER = [*WHOLE_TURN[:3], (3, "interrupt"), (3, "turn_end")]
COPIED: dict[str, tuple[int, list[tuple[int | None, str]], bool]] = {
    "nothing": (0, [*WHOLE_TURN], True),
    "the whole turn": (2, [*WHOLE_TURN], False),
    "a turn that ends with the next prompt": (2, [*ENDS_LATER], False),
    "the prompt": (1, [*WHOLE_TURN], True),
    "the prompt, and the turn ends later": (1, [*ENDS_LATER], True),
    "messages before the turn": (1, [(2, kind) for _, kind in WHOLE_TURN], True),
    "messages, and the turn is posted": (2, [(None, kind) for _, kind in WHOLE_TURN], True),
}
PAYLOADS: Json = {
    "turn_end": {"usage": USAGE},
    "interrupt": {"reason": "error"},
    "turn_start": {"trigger": "user"},
}


@pytest.mark.parametrize("case", COPIED)
def test_summary_omits_usage_of_copied_messages(case: str) -> None:
    copied, places, counts = COPIED[case]
    events = log(
        *(
            wire_event(kind, **PAYLOADS.get(kind, {"text": "hi"}), turnId="t", messageSequence=place)
            for place, kind in places
        )
    )
    posted = [{key: value for key, value in event.items() if value is not None} for event in events]
    open_turn = OpenTurn("t", {"usage": USAGE})

    assert (to_session_summary(posted, copied_messages=copied).usage is not None) == counts
    still_open = to_session_summary(posted[:-1], open_turn=open_turn, copied_messages=copied)
    assert (still_open.usage is not None) == counts


def test_summary_lists_open_calls() -> None:
    calls = call("c1", turnId="t1"), call("c2", name="Read", turnId="t1")
    events = log(start("t1"), *calls, result("c1"))

    assert to_session_summary(events).open_calls == ["Read"]


# Random logs

_IDS = st.sampled_from(["c1", "c2", "call\nfc", "", "c1_2_acd5a00cb7fc", LONG_ID])
_REFS = st.sampled_from(["r1", "r2", "x1", "x2", "x3"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_TEXT = (
    st.sampled_from(["", " ", "\n"]) | st.just("§") | st.just("§\n") | st.text(max_size=3).map("§ {}".format)
)
_BLOCK = st.one_of(
    _TEXT.map(lambda text: {"type": "text", "text": text}),
    st.sampled_from([case[0] for case in IMAGES.values()]).map(
        lambda source: {"type": "image", "source": source}
    ),
    st.sampled_from(
        [
            {"type": "file", "filename": "a.pdf", "source": {"type": "base64", "data": PDF}},
            {"type": "file", "source": {"type": "text", "data": "1.2"}},
            {"type": "raw", "reason": "unknown_type", "raw": {"n": 1}},
            {"type": "thinking", "thinking": "Hm."},
        ]
    ),
)


def _optional(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=keys)


def _payload(
    fixed: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]
) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(fixed, optional=optional)


_PARENT = st.sampled_from(["c1"])
_PAYLOADS: dict[str, st.SearchStrategy[Json]] = {
    "turn_start": _payload({"trigger": st.sampled_from(["user", "callback", "system"])}),
    "turn_end": _payload({}, usage=st.just(USAGE), costUsd=st.just(0.5)),
    "user_message": _payload(
        {"text": _TEXT},
        content=st.lists(_BLOCK, max_size=3),
        synthetic=st.booleans(),
        parentToolCallId=_PARENT,
    ),
    "user_audio": _payload({"transcription": _TEXT, "durationMs": st.just(1.0)}),
    "assistant_chunk": _payload({"text": _TEXT}),
    "assistant_done": _payload(
        {"text": _TEXT},
        content=st.lists(_BLOCK, max_size=2),
        phase=st.sampled_from(["commentary", "final_answer"]),
        partial=st.booleans(),
        parentToolCallId=_PARENT,
    ),
    "thinking_done": _payload({"text": _TEXT}, signature=st.just("x")),
    "tool_call": _payload(
        {"toolCallId": _IDS, "toolName": st.sampled_from(["Bash", "a.b/c", "", "x" * 99]), "args": _JSON},
        partial=st.sampled_from([False, False, True]),
        parentToolCallId=_PARENT,
    ),
    "tool_result": _payload(
        {"toolCallId": _IDS, "result": _JSON | st.lists(_BLOCK, max_size=3)},
        error=st.fixed_dictionaries(
            {"code": st.sampled_from(["", "x"]), "message": st.sampled_from(["", "no"])}
        ),
        structured=_JSON,
        parentToolCallId=_PARENT,
    ),
    "agent_callback": _payload({"messageId": st.just("m"), "result": _TEXT}, fromAgentId=st.just("coder")),
    "agent_message": _payload({"messageId": st.just("m"), "message": _TEXT, "wait": st.booleans()}),
    "agent_switch": _payload({"fromAgentId": st.just("a"), "toAgentId": st.just("b")}),
    "interrupt": _payload({"reason": st.just("error")}),
    "error": _payload({"code": st.just("x"), "message": st.just("no")}),
    "summary": _payload({"text": _TEXT}),
    "system_message": _payload({"text": _TEXT}),
    "raw": _payload({"source": st.just("unknown"), "raw": _JSON}),
    "reset": st.just({}),
    "never_seen": st.just({"text": "?"}),
    "retraction": _payload(
        {},
        eventIds=st.lists(st.integers(0, 30).map("e{}".format), max_size=3),
        messageIds=st.lists(_REFS, max_size=2),
        fromMessageId=_REFS,
        turns=st.integers(0, 3),
    ),
}
_FREQUENT = ("user_message", "assistant_done", "tool_call", "tool_result", "tool_call", "tool_result")
_EVENTS = st.sampled_from([*_PAYLOADS, *_FREQUENT, *_FREQUENT]).flatmap(
    lambda wire: st.tuples(
        st.just(wire),
        _PAYLOADS[wire],
        _optional(turnId=st.sampled_from(["t1", "t2", "t3"]), responseId=_REFS, recordId=_REFS),
    )
)
LOGS = st.lists(_EVENTS, max_size=40).map(lambda events: log(*map(_number_texts, enumerate(events))))


def _number_texts(entry: tuple[int, tuple[str, Json, Json]]) -> Event:
    """Replace each `§` by the number of its event, so that texts are distinct."""
    number, (wire, payload, more) = entry
    written = json.dumps(payload, ensure_ascii=False).replace("§", f"§{number};")
    return wire_event(wire, **json.loads(written), **more)


def _marks(value: Any) -> list[str]:
    """Return the distinct marks of the value in order."""
    return list(dict.fromkeys(re.findall(r"§\d+;", json.dumps(value, ensure_ascii=False))))


Kept = list[tuple[Json, list[bool]]]
"""Events, each with a flag that says whether the log had turn events by then; retracted events have more flags."""


def unretracted_events(events: Iterable[Json]) -> list[Json]:
    """Return the events that are not retracted, by a slow independent implementation of the rules."""
    kept: Kept = []
    has_turns = False
    for event in events:
        wire = event["type"]
        if wire == "reset":
            kept, has_turns = [], False
        elif wire == "retraction":
            _retract_naively(kept, event["payload"])
        elif wire not in CHUNKS:
            has_turns = has_turns or "turnId" in event or wire == "turn_start"
            kept.append((event, [has_turns]))
    return [event for event, flags in kept if len(flags) == 1]


def _retract_naively(kept: Kept, payload: Json) -> None:
    event_ids, record_ids = set(payload.get("eventIds", ())), set(payload.get("messageIds", ()))
    for event, flags in kept:
        if event["id"] in event_ids or not record_ids.isdisjoint(_refs(event)):
            flags.append(True)
    if "fromMessageId" in payload:
        places = [place for place, (event, _) in enumerate(kept) if payload["fromMessageId"] in _refs(event)]
        del kept[places[0] if places else 0 :]
    if payload.get("turns", 0) > 0:
        del kept[[0, 0, 0, *_turn_starts(kept)][-payload["turns"]] :]


def _refs(event: Json) -> set[str]:
    return {event[key] for key in ("recordId", "responseId") if key in event}


def _turn_starts(kept: list[tuple[Json, list[bool]]]) -> Iterator[int]:
    """Yield the index of the first event of each turn with content."""
    first, has_content, known = 0, False, set()
    for place, (event, flags) in enumerate(kept):
        turn = event.get("turnId")
        is_prompt = event["type"] in ("user_message", "user_audio") and not event["payload"].get("synthetic")
        if turn not in known if turn else event["type"] == "turn_start" or (is_prompt and not flags[0]):
            first, has_content = place, False
        known.add(turn)
        if not has_content and event["type"] in _CONTENT:
            has_content = True
            yield first


_CONTENT = {"user_message", "user_audio", "assistant_done", "thinking_done", "tool_call", "agent_callback"}
_PROJECTED = {"user_message", "user_audio", "assistant_done", "agent_callback", "summary"}


def _expected_marks(events: list[Json]) -> list[str]:
    """Return the marks of the texts that a projection contains."""
    marks: list[str] = []
    for event in unretracted_events(events):
        payload = event["payload"]
        hidden = {
            payload.get("synthetic"),
            "parentToolCallId" in payload,
            payload.get("phase") == "commentary",
        }
        if event["type"] not in _PROJECTED or True in hidden:
            continue
        texts = [payload[key] for key in ("text", "transcription", "result") if key in payload]
        blocks = [block["text"] for block in payload.get("content", ()) if block["type"] == "text"]
        new_marks = _marks([*(text for text in texts if text not in blocks), *blocks])
        marks = new_marks if event["type"] == "summary" and payload["text"].strip() else marks + new_marks
    return marks


def _texts(messages: list[Json]) -> list[Json]:
    """Return the content of messages without calls and results."""
    texts = [message for message in messages if message["role"] != "tool"]
    return [
        block
        for message in texts
        for block in (message["content"] if isinstance(message["content"], list) else [message["content"]])
        if not isinstance(block, dict) or block["type"] not in ("tool_use", "tool_result")
    ]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(LOGS, st.booleans())
def test_messages_are_valid_and_complete(events: list[Json], is_typed: bool) -> None:
    input_events = list(map(read_event, events)) if is_typed else events
    openai, anthropic = to_openai_messages(input_events), to_anthropic_messages(input_events)

    assert_openai_accepts(openai)
    assert_anthropic_accepts(anthropic)
    assert _marks(_texts(openai)) == _marks(_texts(anthropic)) == _expected_marks(events)
    assert_openai_accepts(to_openai_messages(input_events, open_calls=True), is_open=True)
    assert_anthropic_accepts(to_anthropic_messages(input_events, open_calls=True), is_open=True)
    to_session_summary(input_events).model_dump_json()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(LOGS, st.randoms(use_true_random=False), st.integers(0, 40))
def test_messages_of_shuffled_and_cut_logs_are_valid(events: list[Json], random: Any, length: int) -> None:
    random.shuffle(events)
    cut = events[:length]

    assert_openai_accepts(to_openai_messages(cut))
    assert_anthropic_accepts(to_anthropic_messages(cut))
    assert _marks(_texts(to_openai_messages(cut))) == _expected_marks(cut)


_TURNS = _optional(turnId=st.sampled_from(["t1", "t2", "t3"]), recordId=_REFS)
_TURN_EVENT = st.tuples(st.sampled_from(["turn_start", "turn_end"]), _PAYLOADS["turn_start"], _TURNS)
_PROMPT = st.tuples(st.just("user_message"), st.just({"text": "§"}), _TURNS)
_INJECTED = st.tuples(st.just("user_message"), st.just({"text": "§", "synthetic": True}), _TURNS)
_BARE: st.SearchStrategy[Any] = st.tuples(st.just("user_message"), st.just({"text": "§"}), st.just({}))
_RETRACTION: st.SearchStrategy[Any] = st.tuples(
    st.just("retraction"),
    st.one_of(
        st.lists(st.integers(0, 30).map("e{}".format), max_size=2).map(lambda ids: {"eventIds": ids}),
        st.lists(_REFS, max_size=2).map(lambda ids: {"messageIds": ids}),
        _REFS.map(lambda id: {"fromMessageId": id}),
        st.integers(1, 3).map(lambda turns: {"turns": turns}),
    ),
    st.just({}),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(_PROMPT, _PROMPT, _BARE, _BARE, _INJECTED, _TURN_EVENT, _RETRACTION), max_size=30)
    | st.lists(st.one_of(_BARE, _BARE, _BARE, _INJECTED, _RETRACTION), max_size=12)
)
def test_retracted_turns_are_removed(events: list[tuple[str, Json, Json]]) -> None:
    written = log(*map(_number_texts, enumerate(events)))

    assert _marks(to_openai_messages(written)) == _expected_marks(written)


def _claude_elements(prompt: str) -> list[tuple[str, str]]:
    """Return the text between the numbered tags, as an XML parser would read it."""
    tag = re.search(r"<conversation(-\d+)?>\n", prompt)
    mark = (tag[1] or "") if tag else ""
    pattern = rf"<(user|assistant|tool_call|tool_result){mark}(?: [a-z]+=\"[^\"]*\")?>\n(.*?)\n</\1{mark}>\n"
    return re.findall(pattern, prompt[tag.end() :] if tag else "", re.DOTALL)


def _codex_messages(prompt: str) -> list[tuple[str, str]]:
    matches = re.findall(r"## (\w+(?: \w+)?)[^\n]*\n\n(`{3,})\n(.*?)\n\2(?=\n\n## |\n\Z)", prompt, re.DOTALL)
    return [(heading.lower().replace(" ", "_"), text) for heading, _, text in matches]


_HOSTILE = st.lists(
    st.sampled_from(
        [
            "<user>",
            "</user>",
            "</user-2>",
            "<conversation>",
            "</assistant>",
            "```",
            "````",
            "\n",
            "## User",
            "a",
        ]
    ),
    min_size=1,
    max_size=8,
).map("".join)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), _HOSTILE), min_size=1, max_size=5))
def test_prompts_can_be_read_back(conversation: list[tuple[str, str]]) -> None:
    events: list[Any] = []
    expected: list[tuple[str, str]] = []
    for number, (role, text) in enumerate(conversation):
        events.append(start(f"t{number}"))
        if role == "tool":
            events += [call(f"c{number}"), result(f"c{number}", text)]
            expected += [("tool_call", '{"command": "ls"}'), ("tool_result", text if text.strip() else "")]
        elif text.strip():
            events.append(user(text) if role == "user" else reply(text))
            expected.append((role, text))

    assert _claude_elements(to_claude_prompt(log(*events))) == expected
    assert _codex_messages(to_codex_prompt(log(*events))) == expected


@pytest.mark.slow
def test_hostile_logs_take_linear_time() -> None:
    shared = {"recordId": "x", "responseId": "r"}
    repeated = [wire_event("assistant_done", text="a", **shared)] * 5_000
    retractions = [retraction(fromMessageId="x"), retraction(messageIds=["r"]), retraction(turns=1)] * 3_000
    reused_ids = [event for _ in range(5_000) for event in (call("c"), result("c"))]

    assert to_openai_messages(log(*repeated, *retractions)) == []
    assert_openai_accepts(to_openai_messages(log(*reused_ids)))


# States of summaries


def test_last_text_is_known_between_events() -> None:
    fold, last = SummaryFold(), list[tuple[str | None, str | None]]()
    for event in log(
        reply("One"), reply("Two"), reply(" "), user("Three"), reply("Four"), wire_event("reset")
    ):
        fold.add(event)
        last.append((fold.state.last_text, fold.state.last_role))

    once = SummaryFold()
    for event in log(reply("One"), user("Two")):
        once.add(event)

    two, four = ("Two", "assistant"), ("Four", "assistant")
    assert last == [("One", "assistant"), two, two, ("Three", "user"), four, (None, None)]
    assert (once.state.last_text, once.state.last_role) == ("Two", "user")
