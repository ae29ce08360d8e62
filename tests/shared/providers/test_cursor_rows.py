"""Standard messages and events of the rows of Cursor's databases."""

import json
from typing import Any

import pytest

from ash_shared import ToolResultContent, describe_message, parse_message_content
from ash_shared.parsing.parsed_text import identify
from ash_shared.providers import discover
from tests.shared.logs import follow, short_events
from tests.shared.records.cursor_rows import call, chat, chat_message, conversation, editor_row, message
from tests.shared.transcripts import lines, short_messages

TIME = "2026-03-02T09:00:01.000Z"
PROMPT = message("b1", type=1, text="Count the oars", createdAt=TIME, modelInfo={"modelName": "m2"})
THOUGHT = message("b2", type=2, text="", thinking={"text": "Where are they?", "signature": "s"})
RUNNING = message("b3", type=2, text="", toolFormerData=call("read_file_v2", "loading"))
READ = message(
    "b3", type=2, text="", toolFormerData=call("read_file_v2", "completed", result='{"contents": "Nine."}')
)
ANSWER = message("b4", type=2, text="Nine.", tokenCount={"inputTokens": 120, "outputTokens": 9})
ROWS = (conversation("b1", "b2", "b3", "b4"), PROMPT, THOUGHT, READ, ANSWER)
MESSAGES = [
    ("user", [("text", "Count the oars")]),
    ("assistant", [("thinking", "Where are they?")], {"model": "m2"}),
    ("assistant", [("tool_use", "read_file_v2")], {"model": "m2"}),
    ("user", [("tool_result", "Nine.")]),
    ("assistant", [("text", "Nine.")], {"model": "m2", "usage": (120, 9, None, None)}),
]


def without_times(messages: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    short = []
    for role, blocks, *more in messages:
        rest = {
            key: value for each in more for key, value in each.items() if key not in ("timestamp", "uuid")
        }
        short.append((role, blocks, rest) if rest else (role, blocks))
    return short


def test_conversation_of_the_editor() -> None:
    assert without_times(short_messages(*ROWS)) == MESSAGES


def test_a_later_version_of_a_message_replaces_it() -> None:
    rows = [ROWS[0], PROMPT, THOUGHT, RUNNING, READ, ANSWER]

    assert without_times(short_messages(*rows)) == MESSAGES
    kinds = [event[0] for event in short_events(follow(rows, ends=True))]
    assert [kind for kind in kinds if not kind.startswith("turn")] == [
        "user_message",
        "thinking_done",
        "tool_call",
        "tool_result",
        "assistant_done",
    ]


def test_messages_in_the_row_of_their_conversation() -> None:
    """Older versions write them there. A later row replaces its message."""
    inline = [json.loads(row["columns"]["value"]) for row in (PROMPT, THOUGHT, RUNNING)]
    row = conversation(conversation=inline)

    assert without_times(short_messages(row)) == MESSAGES[:3]
    assert without_times(short_messages(row, READ)) == MESSAGES[:4]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"status": "error", "error": "denied"}, (None, True, None, None)),
        ({"status": "completed", "result": "Nine."}, ("Nine.", False, None, None)),
        (
            {"status": "completed", "result": '{"output": "", "exitCode": 2}'},
            ('{"output": "", "exitCode": 2}', True, {"output": "", "exitCode": 2}, 2),
        ),
        ({"status": "cancelled"}, (None, None, None, None)),
    ],
)
def test_results(values: dict[str, Any], expected: tuple[Any, ...]) -> None:
    [line] = lines(message("b3", type=2, toolFormerData=call("shell", **values)))
    [_, result] = parse_message_content(line)
    assert isinstance(result, ToolResultContent)
    fields = result.model_dump(exclude_unset=True)
    assert tuple(fields.get(key) for key in ("content", "is_error", "structured", "exit_code")) == expected


def test_a_message_that_says_nothing_is_no_message() -> None:
    assert short_messages(message("b9", type=2, text="", capabilityType=15)) == []


def test_header_of_a_conversation() -> None:
    row = conversation(subagentInfo={"parentComposerId": "c0", "toolCallId": "t9"})
    header = describe_message(lines(row)[0]).header
    assert (header.session_id, header.title, header.model) == ("c1", "Count the oars", "m1")
    assert (header.parent, header.folder) == ("c0", "/work/shop")
    assert (header.timestamp, header.last_timestamp) == (1772442000000, 1772442009000)


@pytest.mark.parametrize("uri", ["file://[", "https://example.com/a", 1, None])
def test_other_folders_are_left_out(uri: Any) -> None:
    row = message("b1", type=1, text="Hi", workspaceUris=[uri])
    assert describe_message(lines(row)[0]).header.folder is None


def test_header_of_a_message() -> None:
    row = message("b1", type=1, text="Hi", createdAt=TIME, workspaceUris=["file:///work/a%20b"])
    header = describe_message(lines(row)[0]).header
    assert (header.session_id, header.folder, header.timestamp) == ("c1", "/work/a b", 1772442001000)


CALL = {"type": "tool-call", "toolCallId": "t1", "toolName": "Shell", "args": {"command": "ls"}}
RESULT = {"type": "tool-result", "toolCallId": "t1", "toolName": "Shell", "result": "oars.txt"}
CHAT = (
    chat(),
    chat_message("m0", "system", "You count."),
    chat_message("m1", "user", [{"type": "text", "text": "<user_query>\nCount the oars\n</user_query>"}]),
    chat_message("m2", "assistant", [{"type": "reasoning", "text": "Where?", "signature": "s"}, CALL]),
    chat_message("m3", "tool", [RESULT]),
    chat_message(
        "m4", "assistant", [{"type": "redacted-reasoning", "data": "x"}, {"type": "text", "text": "One."}]
    ),
)


def test_chat_of_the_command_line() -> None:
    assert without_times(short_messages(*CHAT)) == [
        ("system", [("text", "You count.")]),
        ("user", [("text", "Count the oars")]),
        ("assistant", [("thinking", "Where?"), ("tool_use", "Shell")], {"model": "m1"}),
        ("user", [("tool_result", "oars.txt")]),
        ("assistant", [("thinking", ""), ("text", "One.")], {"model": "m1"}),
    ]


def test_header_of_a_chat() -> None:
    header = describe_message(lines(chat(subagentInfo={"parentAgentId": "a0"}))[0]).header
    assert (header.session_id, header.title, header.model, header.parent) == (
        "a1",
        "Count the oars",
        "m1",
        "a0",
    )
    assert describe_message(lines(chat(name="New Agent"))[0]).header.title is None
    assert identify(lines(chat())[0], None).session == "a1"


@pytest.mark.parametrize("row", [*ROWS, *CHAT])
def test_rows_are_recognized(row: Any) -> None:
    recognized = discover().recognize(row)
    assert recognized is not None
    assert recognized[0].source == "cursor"


@pytest.mark.parametrize(
    "row",
    [
        editor_row("inlineDiffs:1", {"type": 1}),
        {"table": "meta", "key": "0", "columns": {"key": "0", "value": "text"}},
        {"table": "blobs", "key": "0", "columns": {"id": "0", "data": {"base64": "/w=="}}},
    ],
)
def test_other_rows_are_not_recognized(row: Any) -> None:
    assert discover().recognize(row) is None
