"""Blocks of Cursor's lines, and the standard messages they form."""

import json
from typing import Any

import pytest

from ash_shared import parse_message, transform_messages
from ash_shared.providers import discover
from ash_shared.providers.cursor import PROVIDER
from tests.shared.records.cursor import CALL, INIT, SESSION, end, line, message_line
from tests.shared.transcripts import short_messages

Line = dict[str, Any]


def tool(state: str, call: Line, **more: Any) -> Line:
    return line("tool_call", subtype=state, call_id=CALL, tool_call=call, **more)


ARGS = {"command": "make", "timeout": 5}
SHELL = {"exitCode": 2, "stdout": "built", "stderr": "1 warning"}


@pytest.mark.parametrize(
    ("record", "source"),
    [
        (INIT, "cursor"),
        ({"type": "system", "subtype": "init", "permissionMode": "force"}, "cursor"),
        ({**INIT, "uuid": "u1", "tools": []}, "claude"),
        (message_line("user", "Build it."), "cursor"),
        (message_line("assistant", "Bui", timestamp_ms=1_770_000_000_000), "cursor"),
        ({**message_line("assistant", "Bui"), "session_id": "s"}, "claude"),
        ({**message_line("user", "Build it."), "parent_tool_use_id": None}, "claude"),
        ({**message_line("assistant", "Built."), "uuid": "u1"}, "claude"),
        (
            line("assistant", message={"role": "assistant", "content": [], "model": "m", "id": "msg_1"}),
            "claude",
        ),
        (line("user", message={"role": "user", "content": [{"type": "document", "source": {}}]}), "claude"),
        (end("Built.", request_id="r1"), "cursor"),
        (end("Built.", num_turns=1), "claude"),
        (line("thinking", subtype="delta", text="Hm"), "cursor"),
        ({"type": "thinking", "thinking": "Hm", "signature": "s"}, "claude"),
        (tool("started", {"shellToolCall": {"args": ARGS}}), "cursor"),
        ({"role": "user", "message": {"content": "Build it."}}, "cursor"),
        ({"type": "turn_ended", "status": "success"}, "cursor"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:60],
)
def test_exactly_one_of_cursor_and_claude_claims_a_line(record: Line, source: str) -> None:
    assert [name for name, provider in discover().items() if provider.recognize(record)] == [source]


def tool_result(**more: Any) -> Line:
    return {"type": "tool_result", "tool_use_id": CALL, **more}


def tool_use(name: str, input: Any, **more: Any) -> Line:
    return {"type": "tool_use", "id": CALL, "name": name, "input": input, **more}


SHELL_RESULT = {"success": SHELL, "isBackground": False}
READ_RESULT = {"success": {"content": "one\n", "totalLines": 1}}
REJECTED = {"rejected": {"reason": "not now"}}
MISSING_FILE = {"fileNotFound": {"path": "a.txt"}}
MCP_ARGS = {"name": "wiki-find", "args": {"q": "ash"}, "providerIdentifier": "wiki", "toolName": "find"}
MCP_RESULT = {"success": {"content": [{"text": {"text": "a tree"}}], "isError": True}}


@pytest.mark.parametrize(
    ("call", "blocks"),
    [
        (
            {"shellToolCall": {"args": ARGS}},
            [tool_use("shell", ARGS, source_type="shellToolCall")],
        ),
        (
            {"shellToolCall": {"args": ARGS, "result": SHELL_RESULT}},
            [
                tool_use("shell", ARGS, source_type="shellToolCall", status="success"),
                tool_result(
                    content=[{"type": "text", "text": "built"}, {"type": "text", "text": "1 warning"}],
                    is_error=False,
                    structured=SHELL_RESULT,
                    exit_code=2,
                    source_type="shellToolCall",
                ),
            ],
        ),
        (
            {"readToolCall": {"result": READ_RESULT}},
            [
                tool_result(
                    content="one\n", is_error=False, structured=READ_RESULT, source_type="readToolCall"
                )
            ],
        ),
        (
            {"editToolCall": {"args": {"path": "a"}, "result": REJECTED}},
            [
                tool_use("edit", {"path": "a"}, source_type="editToolCall", status="rejected"),
                tool_result(content="not now", structured=REJECTED, source_type="editToolCall"),
            ],
        ),
        (
            {"readToolCall": {"args": {"path": "a.txt"}, "result": MISSING_FILE}},
            [
                tool_use("read", {"path": "a.txt"}, source_type="readToolCall", status="fileNotFound"),
                tool_result(is_error=True, structured=MISSING_FILE, source_type="readToolCall"),
            ],
        ),
        (
            {"mcpToolCall": {"args": MCP_ARGS, "result": MCP_RESULT}, "description": "looks it up"},
            [
                tool_use(
                    "find",
                    {"q": "ash"},
                    executor="mcp",
                    server_name="wiki",
                    status="success",
                    source_type="mcpToolCall",
                    extra={"description": "looks it up", "args": MCP_ARGS},
                ),
                tool_result(
                    content=[{"type": "text", "text": "a tree"}],
                    is_error=True,
                    structured=MCP_RESULT,
                    source_type="mcpToolCall",
                ),
            ],
        ),
        (
            {"function": {"name": "plan", "arguments": '{"steps": 2}'}},
            [tool_use("plan", {"steps": 2}, source_type="function", extra={"arguments": '{"steps": 2}'})],
        ),
    ],
)
def test_reads_tool_name_from_its_key(call: Line, blocks: list[Line]) -> None:
    message = parse_message(json.dumps(tool("completed", call)))

    assert [block.model_dump(mode="json", by_alias=True) for block in message.parsed] == blocks


def test_tool_line_without_arguments_and_result_is_malformed() -> None:
    record = tool("started", {"shellToolCall": {}})

    [block] = parse_message(json.dumps(record)).parsed

    assert block.model_dump(by_alias=True) == {
        "type": "raw",
        "rawType": "tool_call",
        "reason": "malformed",
        "raw": record,
    }


PATHS = [{"path": "a"}, {"path": "b"}]


@pytest.mark.parametrize(
    ("records", "messages"),
    [
        pytest.param(
            [
                INIT,
                message_line("user", "Build it."),
                line("thinking", subtype="delta", text="Hm", timestamp_ms=1),
                line("thinking", subtype="completed", timestamp_ms=2),
                message_line("assistant", "I run make.", model_call_id="mc1", timestamp_ms=3),
                tool("started", {"shellToolCall": {"args": ARGS}}, model_call_id="mc1"),
                tool("completed", {"shellToolCall": {"args": ARGS, "result": {"success": {"stdout": "ok"}}}}),
                message_line("assistant", "Built."),
                end(
                    "I run make.Built.",
                    usage={
                        "inputTokens": 70,
                        "outputTokens": 9,
                        "cacheReadTokens": 30,
                        "cacheWriteTokens": 0,
                    },
                ),
            ],
            [
                ("user", [("text", "Build it.")]),
                ("assistant", [("text", "I run make.")], {"model": "Auto", "messageId": "mc1"}),
                ("assistant", [("tool_use", "shell")], {"model": "Auto", "messageId": "mc1"}),
                ("user", [("tool_result", "ok")]),
                ("assistant", [("text", "Built.")], {"model": "Auto", "usage": (70, 9, 30, None)}),
                ("assistant", [("text", "I run make.Built.")], {"model": "Auto", "shadowOf": 4}),
            ],
            id="a run: one call, its result from the client, and an end that repeats all texts",
        ),
        pytest.param(
            [
                message_line("user", "Say more."),
                message_line("assistant", "One ", timestamp_ms=1),
                message_line("assistant", "two", timestamp_ms=2),
                message_line("assistant", "One two", timestamp_ms=3, model_call_id="mc1"),
                message_line("assistant", "three", timestamp_ms=4),
                message_line("assistant", "three"),
                message_line("user", "Go on."),
                message_line("assistant", "four", timestamp_ms=5),
            ],
            [
                ("user", [("text", "Say more.")]),
                ("assistant", [("text", "One ")], {"shadowOf": 3}),
                ("assistant", [("text", "two")], {"shadowOf": 3}),
                ("assistant", [("text", "One two")], {"messageId": "mc1"}),
                ("assistant", [("text", "three")], {"shadowOf": 5}),
                ("assistant", [("text", "three")]),
                ("user", [("text", "Go on.")]),
                ("assistant", [("text", "four")]),
            ],
            id="deltas are shadows of the complete text, and count without one",
        ),
        pytest.param(
            [
                {**tool("started", {"readToolCall": {"args": PATHS[0]}}), "call_id": "a"},
                {**tool("started", {"readToolCall": {"args": PATHS[1]}}), "call_id": "b"},
                {
                    **tool("completed", {"readToolCall": {"result": {"success": {"content": "B"}}}}),
                    "call_id": "b",
                },
                {
                    **tool("completed", {"readToolCall": {"args": PATHS[0], "result": REJECTED}}),
                    "call_id": "a",
                },
            ],
            [
                ("assistant", [("tool_use", "read")]),
                ("assistant", [("tool_use", "read")]),
                ("user", [("tool_result", "B")]),
                ("user", [("tool_result", "not now")]),
            ],
            id="parallel calls complete in any order",
        ),
        pytest.param(
            [
                message_line("user", "Build it."),
                {**end("No key."), "subtype": "error", "is_error": True},
            ],
            [
                ("user", [("text", "Build it.")]),
                ("system", [("text", "No key.")], {"error": "result/error"}),
            ],
            id="a failed run",
        ),
        pytest.param(
            [
                {"role": "user", "message": {"content": "Build it."}},
                {
                    "role": "assistant",
                    "message": {
                        "content": [
                            {"type": "thinking", "thinking": "Hm"},
                            {"type": "tool_call", "name": "shell", "input": {}, "metadata": {"kind": "run"}},
                        ]
                    },
                    "model": "auto",
                },
                {
                    "role": "user",
                    "message": {"content": [{"type": "tool-result", "name": "shell", "content": ["ok"]}]},
                },
                {"role": "assistant", "message": {"content": [{"type": "chart", "rows": 2}]}},
                {"type": "turn_ended", "status": "aborted", "error": "stopped"},
                {"type": "turn_ended", "status": "success"},
            ],
            [
                ("user", [("text", "Build it.")]),
                ("assistant", [("thinking", "Hm"), ("tool_use", "shell")], {"model": "auto"}),
                ("user", [("tool_result", [{"type": "text", "text": "ok"}])]),
                (
                    "assistant",
                    [("raw", {"type": "chart", "rows": 2})],
                    {"model": "auto", "error": "aborted"},
                ),
            ],
            id="a transcript on disk",
        ),
    ],
)
def test_lines_form_messages(records: list[Line], messages: list[Any]) -> None:
    assert short_messages(*records) == messages


def test_line_facts() -> None:
    line_facts = [
        PROVIDER.header(record)
        for record in (INIT, message_line("assistant", "Hi", timestamp_ms=1_770_000_000_000), {})
    ]

    assert [(facts.uuid, facts.timestamp, facts.session_id, facts.model) for facts in line_facts] == [
        (None, None, SESSION, "Auto"),
        (None, 1_770_000_000_000, SESSION, None),
        (None, None, None, None),
    ]


def test_error_has_message() -> None:
    [message] = transform_messages([json.dumps({**end("No key."), "is_error": True})])

    assert message.model_dump(mode="json")["error"] == {"code": "result/success", "message": "No key."}
