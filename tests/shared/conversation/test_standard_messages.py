"""Standard messages: guarantees for every provider, and Claude's lines."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from ash_shared import StandardMessage, filter_system_messages, transform_messages
from ash_shared.conversation.paging import transform_page
from tests.shared.records import claude
from tests.shared.records.claude import queued, text
from tests.shared.texts import texts_of
from tests.shared.transcripts import Short, lines, short_messages

STANDARD = TypeAdapter(list[StandardMessage])


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {**claude.line("user", content, sessionId="s1"), **more}


def assistant(id: str | None, *blocks: dict[str, Any], usage: Any = None, **more: Any) -> dict[str, Any]:
    message = {"id": id, "model": "m1", "usage": usage}
    return {**claude.line("assistant", list(blocks), message, sessionId="s1"), **more}


def result(value: str | None, **more: Any) -> dict[str, Any]:
    return {**claude.result(value), "result": value, "session_id": "s1", **more}


def usage_delta(usage: Any, **more: Any) -> dict[str, Any]:
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    return {"type": "stream_event", "event": delta, **more}


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
ANSWER = {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}
M1 = {"model": "m1"}


def test_a_command_keeps_its_stored_form() -> None:
    record = user("<command-name>/review</command-name>\n<command-args>PR 12</command-args>")

    [message] = transform_messages([record])

    assert message.original == [record]


def test_answers_that_begin_with_a_tag_are_not_hidden() -> None:
    answer, reminder = (
        assistant("msg_1", text("<system-reminder>Like this.</system-reminder>")),
        user("<system-reminder>Like this.</system-reminder>"),
    )

    messages = filter_system_messages(transform_messages([answer, reminder]))

    assert [message.role for message in messages] == ["assistant"]


TASK_START = '{"task_id": "a9", "tool_use_id": "t1"}'

TRANSCRIPTS: dict[str, tuple[list[Any], list[Short]]] = {
    "one API message in three lines around a result, with the last usage": (
        [
            user("list it"),
            assistant("msg_1", text("I look."), usage={"input_tokens": 10, "output_tokens": 1}),
            assistant("msg_1", CALL, usage={"input_tokens": 10, "output_tokens": 5}),
            user([ANSWER], toolUseResult={"stdout": "a.py"}),
            assistant(
                "msg_1",
                text("Done."),
                usage={"input_tokens": 10, "output_tokens": 9, "cache_read_input_tokens": 70},
            ),
        ],
        [
            ("user", [("text", "list it")]),
            (
                "assistant",
                [("text", "I look."), ("tool_use", "Bash"), ("text", "Done.")],
                M1 | {"messageId": "msg_1", "usage": (10, 9, 70, None)},
            ),
            ("user", [("tool_result", "a.py")], {"toolUseResult": {"stdout": "a.py"}}),
        ],
    ),
    "equal prompts are two messages": (
        [user("go on"), user("go on")],
        [("user", [("text", "go on")]), ("user", [("text", "go on")])],
    ),
    "a duplicate line is one message": (
        [user("go on", uuid="u1"), user("go on", uuid="u1"), user("stop", uuid="u1")],
        [("user", [("text", "go on")]), ("user", [("text", "stop")])],
    ),
    "a result that repeats the answer is its shadow; the answer has the cost": (
        [
            user("hi"),
            assistant("msg_1", text("Hello."), usage={"input_tokens": 3, "output_tokens": 2}),
            result("Hello.", total_cost_usd=0.25, usage={"input_tokens": 99, "output_tokens": 99}),
            user("more"),
            assistant("msg_2", text("There.")),
            result("There.", total_cost_usd=0.75, usage={"input_tokens": 50, "output_tokens": 60}),
        ],
        [
            ("user", [("text", "hi")]),
            (
                "assistant",
                [("text", "Hello.")],
                M1 | {"messageId": "msg_1", "costUsd": 0.25, "usage": (3, 2, None, None)},
            ),
            ("assistant", [("text", "Hello.")], M1 | {"shadowOf": 1}),
            ("user", [("text", "more")]),
            (
                "assistant",
                [("text", "There.")],
                M1 | {"messageId": "msg_2", "costUsd": 0.5, "usage": (50, 60, None, None)},
            ),
            ("assistant", [("text", "There.")], M1 | {"shadowOf": 4}),
        ],
    ),
    "a result without another answer counts": (
        [result("Alone.", usage={"input_tokens": 1, "output_tokens": 2})],
        [("assistant", [("text", "Alone.")], {"usage": (1, 2, None, None)})],
    ),
    "a failed run": (
        [
            user("hi"),
            {"type": "result", "subtype": "error_max_turns", "is_error": True, "errors": ["Too long."]},
        ],
        [("user", [("text", "hi")]), ("system", [("text", "Too long.")], {"error": "error_max_turns"})],
    ),
    "an API error, on disk and as a response body": (
        [
            {**assistant("a", text("Limit reached.")), "isApiErrorMessage": True, "error": "rate_limit"},
            {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}},
        ],
        [
            ("assistant", [("text", "Limit reached.")], M1 | {"messageId": "a", "error": "rate_limit"}),
            (
                "system",
                [("raw", {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}})],
                {"error": "overloaded_error"},
            ),
        ],
    ),
    "a later record revokes an earlier one": (
        [
            assistant("msg_1", text("Wrong."), uuid="u1"),
            assistant("msg_2", text("Right."), uuid="u2", supersedes=["u1"]),
        ],
        [
            ("assistant", [("text", "Wrong.")], M1 | {"messageId": "msg_1", "retracted": True}),
            ("assistant", [("text", "Right.")], M1 | {"messageId": "msg_2"}),
        ],
    ),
    "a prompt edited later retracts the branch of its first version": (
        [
            user("hi", uuid="u1", parentUuid="u0"),
            assistant("msg_1", text("Hello."), uuid="u2", parentUuid="u1"),
            user("build it", uuid="u3", parentUuid="u2"),
            user([ANSWER], uuid="u4", parentUuid="u3"),
            user("<local-command-stdout>Bye.</local-command-stdout>", uuid="u5", parentUuid="u3"),
            user("build it well", uuid="u6", parentUuid="u2"),
        ],
        [
            ("user", [("text", "hi")]),
            ("assistant", [("text", "Hello.")], M1 | {"messageId": "msg_1"}),
            ("user", [("text", "build it")], {"retracted": True}),
            ("user", [("tool_result", "a.py")], {"retracted": True}),
            (
                "user",
                [("text", "<local-command-stdout>Bye.</local-command-stdout>")],
                {"synthetic": True, "retracted": True},
            ),
            ("user", [("text", "build it well")]),
        ],
    ),
    "an edited first prompt retracts its first version": (
        [
            user("hi", uuid="u1", parentUuid=None, sessionId="s1"),
            assistant("msg_1", text("Hello."), uuid="u2", parentUuid="u1"),
            user("hi there", uuid="u3", parentUuid=None, sessionId="s1"),
            user("bye", uuid="u4", parentUuid=None, sessionId="s2"),
        ],
        [
            ("user", [("text", "hi")], {"retracted": True}),
            ("assistant", [("text", "Hello.")], M1 | {"messageId": "msg_1", "retracted": True}),
            ("user", [("text", "hi there")]),
            ("user", [("text", "bye")]),
        ],
    ),
    "a prompt queued during a turn counts once": (
        [
            user("build it"),
            assistant("msg_1", text("I build.")),
            {"type": "queue-operation", "operation": "enqueue", "content": "and test it"},
            user("and test it"),
        ],
        [
            ("user", [("text", "build it")]),
            ("assistant", [("text", "I build.")], M1 | {"messageId": "msg_1"}),
            ("user", [("text", "and test it")], {"shadowOf": 3}),
            ("user", [("text", "and test it")]),
        ],
    ),
    "a queued prompt that the model receives during the turn": (
        [
            user("build it"),
            {"type": "queue-operation", "operation": "enqueue", "content": "faster"},
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "faster"}},
            {"type": "attachment", "attachment": {"type": "task_reminder", "content": []}},
            assistant("msg_1", text("I hurry.")),
        ],
        [
            ("user", [("text", "build it")]),
            ("user", [("text", "faster")], {"shadowOf": 2}),
            ("user", [("text", "faster")]),
            ("assistant", [("text", "I hurry.")], M1 | {"messageId": "msg_1"}),
        ],
    ),
    "several queued prompts": (
        [
            user("build it"),
            *(queued("enqueue", each) for each in ("faster", "never", "louder")),
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "faster"}},
            queued("remove"),
            queued("popAll", "never"),
            queued("dequeue"),
            user("louder"),
        ],
        [
            ("user", [("text", "build it")]),
            ("user", [("text", "faster")], {"shadowOf": 4}),
            ("user", [("text", "never")], {"retracted": True}),
            ("user", [("text", "louder")], {"shadowOf": 5}),
            ("user", [("text", "faster")]),
            ("user", [("text", "louder")]),
        ],
    ),
    "queued prompts that only their removal delivers": (
        [
            user("build it"),
            queued("enqueue", "faster"),
            queued("enqueue", TASK_START),
            assistant("msg_1", text("I dig.")),
            queued("remove", "faster"),
            queued("remove"),
            assistant("msg_1", text("Built.")),
        ],
        [
            ("user", [("text", "build it")]),
            ("user", [("text", "faster")], {"shadowOf": 4}),
            ("user", [("text", TASK_START)], {"synthetic": True, "shadowOf": 5}),
            ("assistant", [("text", "I dig."), ("text", "Built.")], {"model": "m1", "messageId": "msg_1"}),
            ("user", [("text", "faster")]),
            ("user", [("text", TASK_START)], {"synthetic": True}),
        ],
    ),
    "the delivery of a prompt, recorded after its removal": (
        [
            user("build it"),
            queued("enqueue", "faster"),
            queued("remove", "faster"),
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "faster"}},
            queued("enqueue", "faster"),
            user("faster"),
        ],
        [
            ("user", [("text", "build it")]),
            ("user", [("text", "faster")], {"shadowOf": 2}),
            ("user", [("text", "faster")]),
            ("user", [("text", "faster")], {"shadowOf": 2}),
            ("user", [("text", "faster")], {"shadowOf": 5}),
            ("user", [("text", "faster")]),
        ],
    ),
    "a removed prompt without a delivery, where deliveries are recorded": (
        [
            user("build it"),
            {"type": "attachment", "attachment": {"type": "date_change"}},
            queued("enqueue", "faster"),
            queued("remove", "faster"),
        ],
        [
            ("user", [("text", "build it")]),
            ("user", [("text", "faster")], {"retracted": True}),
        ],
    ),
    "a queued prompt that begins a turn although no line sends it, and one with another text": (
        [
            user("build it"),
            queued("enqueue", "test it"),
            queued("enqueue", "[Pasted text #1]"),
            queued("dequeue"),
            assistant("msg_1", text("Tested.")),
            queued("dequeue"),
            user("Pasted words"),
        ],
        [
            ("user", [("text", "build it")]),
            ("user", [("text", "test it")], {"shadowOf": 3}),
            ("user", [("text", "[Pasted text #1]")], {"shadowOf": 5}),
            ("user", [("text", "test it")]),
            ("assistant", [("text", "Tested.")], {"model": "m1", "messageId": "msg_1"}),
            ("user", [("text", "Pasted words")]),
        ],
    ),
    "a line that follows another one of its message adds its block": (
        [
            assistant("msg_1", text("I look"), uuid="a1", requestId="r1"),
            assistant("msg_1", text("I look closer."), uuid="a2", parentUuid="a1", requestId="r1"),
            assistant("msg_1", text("I look closer. Done."), uuid="a3", parentUuid="a1", requestId="r1"),
        ],
        [
            (
                "assistant",
                [("text", "I look"), ("text", "I look closer. Done.")],
                {"model": "m1", "messageId": "msg_1"},
            ),
        ],
    ),
    "a command is shown as typed": (
        [
            user("<command-name>/review</command-name>\n<command-args>PR 12</command-args>"),
            user("<command-message>review is running…</command-message>\n<command-args>PR 13</command-args>"),
            user("<bash-input>git status</bash-input>"),
            user("<command-name>/review</command-name> is shown as text. Why?"),
            assistant("msg_1", text("<command-name>/review</command-name>")),
        ],
        [
            ("user", [("text", "/review PR 12")]),
            ("user", [("text", "/review PR 13")]),
            ("user", [("text", "! git status")]),
            ("user", [("text", "<command-name>/review</command-name> is shown as text. Why?")]),
            (
                "assistant",
                [("text", "<command-name>/review</command-name>")],
                {"model": "m1", "messageId": "msg_1"},
            ),
        ],
    ),
    "what a client writes in the user's name is synthetic": (
        [
            user("<command-message>look</command-message>\n<command-name>/look</command-name>"),
            user("<local-command-stdout>All is well.</local-command-stdout>"),
            {"type": "queue-operation", "operation": "enqueue", "content": "Stop hook feedback:\nNot yet."},
        ],
        [
            ("user", [("text", "/look")]),
            (
                "user",
                [("text", "<local-command-stdout>All is well.</local-command-stdout>")],
                {"synthetic": True},
            ),
            ("user", [("text", "Stop hook feedback:\nNot yet.")], {"synthetic": True}),
        ],
    ),
    "the usage at the end of a streamed answer": (
        [
            assistant("msg_1", text("I ask."), usage={"input_tokens": 10, "output_tokens": 1}),
            assistant(
                "msg_2",
                text("I dig."),
                usage={"input_tokens": 4, "output_tokens": 1},
                parent_tool_use_id="t1",
            ),
            usage_delta({"input_tokens": 10, "output_tokens": 30}),
            usage_delta({"input_tokens": 4, "output_tokens": 8}, parent_tool_use_id="t1"),
            {"type": "stream_event", "event": {"type": "message_stop"}},
            result("I ask.", usage={"input_tokens": 14, "output_tokens": 38}),
        ],
        [
            ("assistant", [("text", "I ask.")], M1 | {"messageId": "msg_1", "usage": (10, 30, None, None)}),
            (
                "assistant",
                [("text", "I dig.")],
                M1 | {"messageId": "msg_2", "parentToolUseId": "t1", "usage": (4, 8, None, None)},
            ),
            ("assistant", [("text", "I ask.")], M1 | {"shadowOf": 0}),
        ],
    ),
    "a request holds several messages": (
        [
            {
                "model": "claude-x",
                "max_tokens": 9,
                "system": "Be brief.",
                "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [CALL]}],
            }
        ],
        [
            ("system", [("text", "Be brief.")]),
            ("user", [("text", "hi")]),
            ("assistant", [("tool_use", "Bash")], {"model": "claude-x"}),
        ],
    ),
    "records outside the conversation give no messages": (
        [{"type": "progress", "data": {}}, {"type": "stream_event", "event": {}}, {"type": "holo_frame"}, 5],
        [],
    ),
    "plain text is a user message": (
        ["hello"],
        [("user", [("text", "hello")])],
    ),
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_transcript(name: str) -> None:
    records, expected = TRANSCRIPTS[name]

    assert short_messages(*records) == expected


def test_message_has_all_fields() -> None:
    record = {
        **assistant(
            "msg_1", text("Hi."), usage={"input_tokens": 3, "output_tokens": 4, "service_tier": None}
        ),
        "uuid": "5f0c",
        "timestamp": "2026-03-01T10:00:00.250Z",
        "version": "2.1.0",
    }

    (message,) = transform_messages(json.dumps(record))

    assert message.model_dump(mode="json", by_alias=True) == {
        "id": "5f0c",
        "role": "assistant",
        "timestamp": 1772359200250,
        "content": [{"type": "text", "text": "Hi."}],
        "usage": {
            "input_tokens": 3,
            "output_tokens": 4,
            "total_tokens": 7,
            "vendor": {"input_tokens": 3, "output_tokens": 4, "service_tier": None},
        },
        "metadata": {
            "source": "claude",
            "model": "m1",
            "sessionId": "s1",
            "cliVersion": "2.1.0",
            "messageId": "msg_1",
        },
        "_original": [record],
    }


def test_guarantees_hold_on_every_sample(corpus_folder: Path) -> None:
    """Messages are deterministic JSON with unique ids, and each answer is counted once."""
    for path, texts in groupby(texts_of(corpus_folder), lambda text: text[0].partition(":")[0]):
        raw = [text for _, text in texts]

        messages = transform_messages(raw)

        assert messages == transform_messages(iter(raw)), path
        assert STANDARD.validate_json(STANDARD.dump_json(messages, by_alias=True)) == messages, path
        assert len({message.id for message in messages}) == len(messages), path
        counted = [m for m in messages if m.metadata.shadow_of is not None and m.usage is not None]
        assert counted == [], path


def test_pages_end_between_turns() -> None:
    session = lines(
        {"type": "system", "subtype": "init", "session_id": "s1", "claude_code_version": "2.1.0"},
        user("one"),
        assistant("a", text("1")),
        user("two"),
        assistant("b", CALL),
        user([ANSWER]),
        assistant("b", text("2")),
        user("three"),
    )
    whole = transform_messages(session)
    paged, start = [], 0
    while start < len(session):
        part = [(raw, "claude") for raw in session[start : start + 6]]
        head = [(raw, None) for raw in session[:start][:2]]
        page = transform_page(part, head=head, limit=6, more=start + 6 < len(session))
        paged += page.messages
        start += page.lines

    assert paged == whole


def test_any_text_gives_valid_messages() -> None:
    for raw in (
        "",
        " ",
        "{",
        "[]",
        '{"type":"user"}',
        '{"type":"assistant","message":{"id":5,"usage":7}}',
        "[[[]]]",
    ):
        assert STANDARD.dump_json(transform_messages([raw]))
    assert transform_messages("\n\n") == transform_messages([]) == []
    assert [message.role for message in transform_messages(b'"a"\n"\xff"')] == ["user"] * 2
    assert [message.role for message in transform_messages('[\n"a",\n"b"\n]')] == ["user"] * 2
