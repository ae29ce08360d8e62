"""Blocks of Codex lines, and the standard messages they form."""

import json
from itertools import permutations
from typing import Any

import pytest

from ash_shared import parse_message
from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.model.message import RecordHeader
from ash_shared.providers.codex import PROVIDER
from ash_shared.records.responses_items import ITEMS, UNTYPED
from tests.shared.records.codex import event, item, message_item

Line = dict[str, Any]


def done(kind: str, state: str = "completed", **payload: Any) -> Line:
    return {"type": f"item.{state}", "item": {"type": kind, **payload}}


def messages(lines: list[Line]) -> list[Line]:
    """Return the messages without common fields, and their blocks without `extra` and `source_type`."""
    transformed = transform_messages([json.dumps(line) for line in lines], "codex")
    return [
        _visible_fields(message.model_dump(mode="json", by_alias=True), len(message.original))
        for message in transformed
    ]


def _visible_fields(message: Line, lines: int) -> Line:
    hidden = ("id", "timestamp", "_original", "metadata")
    metadata = {key: value for key, value in message["metadata"].items() if key != "source"}
    visible = {key: value for key, value in message.items() if key not in hidden} | {"lines": lines}
    visible["content"] = [
        {key: value for key, value in block.items() if key not in ("extra", "source_type")}
        for block in message["content"]
    ]
    return visible | ({"metadata": metadata} if metadata else {})


def text(text: str, **more: Any) -> Line:
    return {"type": "text", "text": text, **more}


def thought(text: str) -> Line:
    return {"type": "thinking", "thinking": text, "is_summary": True}


META = {
    "timestamp": "2026-02-03T04:05:05Z",
    "type": "session_meta",
    "payload": {
        "id": "thread-7",
        "cli_version": "0.104.0",
        "source": {"subagent": {"thread_spawn": {"parent_thread_id": "thread-1"}}},
    },
}
CONTEXT = {
    "timestamp": "2026-02-03T04:05:05Z",
    "type": "turn_context",
    "payload": {"cwd": "/home/ada", "model": "gpt-x"},
}
REASONING = item(
    "reasoning",
    summary=[{"type": "summary_text", "text": "Look first."}],
    content=None,
    encrypted_content="zzz",
)
CALL = item("function_call", name="shell", arguments='{"command":["ls"]}', call_id="c1")
CALL_OUTPUT = item(
    "function_call_output", call_id="c1", output="Exit code: 0\nWall time: 0.1 seconds\nOutput:\nnotes.txt\n"
)


def token_count(total: int, last: int) -> Line:
    counts = {"cached_input_tokens": 10, "output_tokens": 5, "reasoning_output_tokens": 2}
    info = {
        "total_token_usage": {"input_tokens": total, **counts},
        "last_token_usage": {"input_tokens": last, **counts},
    }
    return event("token_count", info=info, rate_limits=None)


def usage_fields(fresh: int, vendor: Line, *, reasoning: bool = True) -> Line:
    usage = {
        "input_tokens": fresh,
        "output_tokens": vendor["output_tokens"],
        "total_tokens": fresh + vendor["output_tokens"],
        "cache_read_input_tokens": vendor["cached_input_tokens"],
    }
    return (
        usage
        | ({"reasoning_tokens": vendor["reasoning_output_tokens"]} if reasoning else {})
        | {"vendor": vendor}
    )


def test_prompt_is_apart_from_the_context_before_it() -> None:
    plugins = "<recommended_plugins>\nmaps\n</recommended_plugins>"
    agents = "# AGENTS.md instructions for /srv\n\n<INSTRUCTIONS>\nTest first.\n</INSTRUCTIONS>"
    line = message_item("user", f"{plugins}\n{agents}\nFix the test.")

    [message] = transform_messages([json.dumps(line)])

    assert [block.text for block in message.content if block.type == "text"] == [
        f"{plugins}\n{agents}",
        "Fix the test.",
    ]
    assert message.metadata.synthetic is None
    assert message.original == [line]


def test_items_of_one_response_form_one_message_with_one_usage() -> None:
    lines = [
        META,
        CONTEXT,
        message_item("user", "<environment_context>\n  <cwd>/home/ada</cwd>\n</environment_context>"),
        message_item("developer", "Be brief."),
        message_item("user", "What is here?"),
        event("token_count", info=None, rate_limits={}),
        REASONING,
        CALL,
        token_count(100, 100),
        event("exec_command_end", call_id="c1", stdout="notes.txt\n", stderr="", exit_code=0),
        CALL_OUTPUT,
        token_count(100, 100),
        message_item("assistant", "One file."),
        token_count(220, 120),
    ]
    metadata = {"sessionId": "thread-7", "cliVersion": "0.104.0"}
    last = lines[8]["payload"]["info"]["last_token_usage"]
    later = lines[13]["payload"]["info"]["last_token_usage"]

    assert messages(lines) == [
        {
            "role": "user",
            "content": [text("<environment_context>\n  <cwd>/home/ada</cwd>\n</environment_context>")],
            "lines": 1,
            "metadata": metadata | {"synthetic": True},
        },
        {"role": "system", "content": [text("Be brief.")], "lines": 1, "metadata": metadata},
        {"role": "user", "content": [text("What is here?")], "lines": 1, "metadata": metadata},
        {
            "role": "assistant",
            "content": [
                thought("Look first.") | {"data": "zzz"},
                {"type": "tool_use", "id": "c1", "name": "shell", "input": {"command": ["ls"]}},
            ],
            "usage": usage_fields(90, last),
            "lines": 4,
            "metadata": metadata | {"model": "gpt-x"},
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nnotes.txt\n",
                    "is_error": False,
                    "exit_code": 0,
                }
            ],
            "lines": 1,
            "metadata": metadata,
        },
        {
            "role": "assistant",
            "content": [text("One file.")],
            "usage": usage_fields(110, later),
            "lines": 2,
            "metadata": metadata | {"model": "gpt-x"},
        },
    ]


DUPLICATES = [
    ("user", [message_item("user", "Hi"), event("user_message", message="Hi", images=[])]),
    ("assistant", [message_item("assistant", "Done"), event("agent_message", message="Done")]),
    ("assistant", [REASONING, event("agent_reasoning", text="Look first.")]),
    (
        "assistant",
        [
            message_item("assistant", "Done"),
            event(
                "item_completed",
                item={"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": "Done"}]},
            ),
        ],
    ),
]


@pytest.mark.parametrize("order", list(permutations((0, 1))))
@pytest.mark.parametrize(("role", "pair"), DUPLICATES)
def test_duplicate_is_shadow_in_any_order(role: str, pair: list[Line], order: tuple[int, ...]) -> None:
    transformed = transform_messages([json.dumps(pair[index]) for index in order], "codex")

    ids = {order[index]: message.id for index, message in enumerate(transformed)}
    shadows = {
        order[index]: message.metadata.model_dump().get("shadowOf")
        for index, message in enumerate(transformed)
    }
    assert [message.role for message in transformed] == [role, role]
    assert shadows == {0: None, 1: ids[0]}


def test_usage_stated_by_several_records_counts_once() -> None:
    counts = {"input_tokens": 50, "cached_input_tokens": 10, "output_tokens": 5}

    def usage_record(total: int) -> Line:
        payload = {"usage": counts, "thread_token_usage": {"input_tokens": total}}
        return {"type": "token_usage_record", "payload": payload}

    lines = [
        message_item("assistant", "one"),
        token_count(100, 20),
        message_item("assistant", "two"),
        usage_record(50),
        token_count(150, 99),
        token_count(150, 99),
        message_item("assistant", "three"),
        token_count(170, 20),
        message_item("assistant", "four"),
        usage_record(100),
        usage_record(100),
    ]

    inputs = [message.get("usage", {}).get("input_tokens") for message in messages(lines)]

    assert inputs == [10, 40, 10, 40]


def test_spoken_words_of_one_speaker_form_one_message() -> None:
    words = [("user", "How is"), ("user", "the hive?"), ("assistant", "Calm."), ("user", "Good.")]
    segments = [
        {"type": "realtime_item", "payload": {"type": "transcript_segment", "role": role, "text": word}}
        for role, word in words
    ]

    spoken = [
        (message["role"], [block["text"] for block in message["content"]]) for message in messages(segments)
    ]

    assert spoken == [("user", ["How is", "the hive?"]), ("assistant", ["Calm."]), ("user", ["Good."])]


def test_keeps_reasoning_of_aborted_turn() -> None:
    lines = [
        message_item("user", "Go on"),
        event("agent_reasoning", text="Which way?"),
        event("turn_aborted", turn_id="t", reason="interrupted"),
    ]

    error = {"code": "turn_aborted", "message": "interrupted", "details": lines[2]["payload"]}
    assert messages(lines) == [
        {"role": "user", "content": [text("Go on")], "lines": 1},
        {"role": "assistant", "content": [thought("Which way?")], "error": error, "lines": 2},
    ]


def test_call_without_result_stays_open() -> None:
    lines = [
        message_item("user", "Patch it"),
        item("custom_tool_call", call_id="c", name="apply_patch", input="*** Begin", status="completed"),
    ]

    assert messages(lines)[1:] == [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "c",
                    "name": "apply_patch",
                    "input": "*** Begin",
                    "status": "completed",
                }
            ],
            "lines": 1,
        }
    ]


END_EVENTS = [
    (
        event("exec_command_end", call_id="c", stdout="no\n", exit_code=2),
        {"is_error": True, "exit_code": 2},
    ),
    (
        event(
            "patch_apply_end",
            call_id="c",
            stdout="ok",
            stderr="",
            success=True,
            changes={"a": {"type": "add"}},
        ),
        {"is_error": False, "structured": {"changes": {"a": {"type": "add"}}}},
    ),
    (
        event(
            "mcp_tool_call_end",
            call_id="c",
            invocation={"server": "s", "tool": "t", "arguments": {}},
            result={"Ok": {"content": [], "structuredContent": {"n": 1}, "isError": False}},
        ),
        {"structured": {"n": 1}, "is_error": False},
    ),
    (
        event("mcp_tool_call_end", call_id="c", invocation={}, result={"Err": "no such tool"}),
        {"is_error": True},
    ),
    (
        event(
            "item_completed",
            item={
                "type": "CommandExecution",
                "id": "c",
                "command": ["x"],
                "status": "failed",
                "exit_code": 3,
            },
        ),
        {"is_error": True, "exit_code": 3},
    ),
]


@pytest.mark.parametrize(("end", "added"), END_EVENTS)
def test_end_event_extends_tool_result(end: Line, added: Line) -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "as the model saw it"}
    output = item("function_call_output", call_id="c", output="as the model saw it")

    for lines in ([output, end], [end, output]):
        assert [message["content"] for message in messages(lines)] == [[result | added]]


OUTPUTS = [
    ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\n", {"is_error": False, "exit_code": 0}),
    ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\n", {"is_error": True, "exit_code": 2}),
    (
        "Chunk ID: 5f\nWall time: 1 seconds\nProcess exited with code 1\nOutput:\n",
        {"is_error": True, "exit_code": 1},
    ),
    ('{"output":"","metadata":{"exit_code":-1}}', {"is_error": True, "exit_code": -1}),
    ('{"output":"","metadata":"none"}', {}),
    ("It said: Exit code: 2\n", {}),
    ({"content": "as JSON", "success": True}, {}),
    ([{"type": "input_text", "text": "Exit code: 2\n"}], {}),
]


@pytest.mark.parametrize(("output", "expected"), OUTPUTS)
def test_reads_exit_code_from_output_text(output: Any, expected: Line) -> None:
    line = item("function_call_output", call_id="c", output=output)

    result = parse_message(json.dumps(line)).parsed[0].model_dump()

    content = [text("Exit code: 2\n", source_type="input_text")] if isinstance(output, list) else output
    typed = {
        "type": "tool_result",
        "tool_use_id": "c",
        "content": content,
        "source_type": "function_call_output",
    }
    assert result == typed | expected


def test_last_version_of_an_item_counts() -> None:
    running: Line = {
        "id": "item_1",
        "command": "pytest",
        "aggregated_output": "",
        "exit_code": None,
        "status": "in_progress",
    }
    ended = running | {"aggregated_output": "1 failed\n", "exit_code": 1, "status": "failed"}
    plan = [{"text": "Test", "completed": False}]
    usage = {"input_tokens": 30, "cached_input_tokens": 10, "output_tokens": 4}
    lines = [
        {"type": "thread.started", "thread_id": "thread-9"},
        {"type": "turn.started"},
        done("todo_list", "started", id="item_0", items=plan),
        done("command_execution", "started", **running),
        done("command_execution", **ended),
        done("todo_list", id="item_0", items=[plan[0] | {"completed": True}]),
        done("agent_message", id="item_2", text="One test fails.", phase="final_answer"),
        {"type": "turn.completed", "usage": usage},
    ]
    session = {"metadata": {"sessionId": "thread-9"}}

    assert messages(lines) == [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "item_0",
                    "name": "todo_list",
                    "input": [{"text": "Test", "completed": True}],
                }
            ],
            "lines": 2,
            **session,
        },
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "item_1",
                    "status": "failed",
                    "name": "shell",
                    "input": {"command": "pytest"},
                }
            ],
            "lines": 2,
            **session,
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "item_1",
                    "is_error": True,
                    "content": "1 failed\n",
                    "exit_code": 1,
                }
            ],
            "lines": 1,
            **session,
        },
        {
            "role": "assistant",
            "content": [text("One test fails.", phase="final_answer")],
            "usage": usage_fields(20, usage, reasoning=False),
            "lines": 2,
            **session,
        },
    ]


def test_items_of_different_runs_with_same_ids_are_separate() -> None:
    turn = [done("agent_message", id="item_0", text="Yes."), {"type": "turn.completed", "usage": {}}]
    failed = [
        done("agent_message", id="item_0", text="No."),
        {"type": "turn.failed", "error": {"message": "x"}},
    ]

    assert [message["content"] for message in messages([*turn, *failed, *turn])] == [
        [text("Yes.")],
        [text("No.")],
        [text("Yes.")],
    ]


def test_legacy_run_consists_of_events() -> None:
    lines: list[Line] = [
        {"model": "gpt-x", "provider": "openai", "sandbox": "read-only", "workdir": "/home/ada"},
        {"prompt": "List"},
        {"id": "0", "msg": {"type": "agent_reasoning", "text": "Look first."}},
        {
            "id": "0",
            "msg": {"type": "exec_command_begin", "call_id": "c", "command": ["ls"], "cwd": "/home/ada"},
        },
        {
            "id": "0",
            "msg": {"type": "exec_command_output_delta", "call_id": "c", "stream": "stdout", "chunk": "YQ=="},
        },
        {
            "id": "0",
            "msg": {"type": "token_count", "input_tokens": 30, "cached_input_tokens": 10, "output_tokens": 4},
        },
        {
            "id": "0",
            "msg": {
                "type": "exec_command_end",
                "call_id": "c",
                "stdout": "a\n",
                "stderr": "",
                "exit_code": 0,
            },
        },
        {"id": "0", "msg": {"type": "agent_message", "message": "One file: a"}},
        {"id": "0", "msg": {"type": "task_complete", "last_agent_message": "One file: a"}},
    ]

    transformed = messages(lines)

    assert [(message["role"], message["content"]) for message in transformed] == [
        ("user", [text("List")]),
        (
            "assistant",
            [
                thought("Look first."),
                {
                    "type": "tool_use",
                    "id": "c",
                    "name": "shell",
                    "input": {"command": ["ls"], "cwd": "/home/ada"},
                },
            ],
        ),
        (
            "user",
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": "a\n",
                    "is_error": False,
                    "exit_code": 0,
                }
            ],
        ),
        ("assistant", [text("One file: a")]),
    ]
    assert transformed[1]["usage"]["input_tokens"] == 20
    assert [message.get("metadata", {}).get("model") for message in transformed] == [
        None,
        "gpt-x",
        None,
        "gpt-x",
    ]


def test_early_file_is_read_with_declared_source() -> None:
    lines: list[Line] = [
        {"id": "thread-3", "timestamp": "2025-06-01T00:00:00Z", "instructions": None, "git": {}},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"record_type": "state"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "name": "shell", "arguments": "{}", "call_id": "c"},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": '{"output":"no\\n","metadata":{"exit_code":1}}',
        },
    ]
    session = {"metadata": {"sessionId": "thread-3"}}

    assert messages(lines) == [
        {"role": "user", "content": [text("Hi")], "lines": 1, **session},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "redacted": True},
                {"type": "tool_use", "id": "c", "name": "shell", "input": {}},
            ],
            "lines": 2,
            **session,
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": '{"output":"no\\n","metadata":{"exit_code":1}}',
                    "is_error": True,
                    "exit_code": 1,
                }
            ],
            "lines": 1,
            **session,
        },
    ]


ERRORS = [
    ({"type": "turn.failed", "error": {"message": "no key"}}, "turn.failed", "no key"),
    ({"type": "error", "message": "stream ended"}, "error", "stream ended"),
    (done("error", id="item_3", message="cut off"), "error", "cut off"),
    (
        event("error", message="too much", codex_error_info="usage_limit_exceeded"),
        "usage_limit_exceeded",
        "too much",
    ),
    (
        event("error", message="no", codex_error_info={"http_connection_failed": {}}),
        "http_connection_failed",
        "no",
    ),
    (event("error", error={"kind": "rate_limit", "message": "later"}), "rate_limit", "later"),
    (event("task_complete", error={"message": "broke"}), "error", "broke"),
]


@pytest.mark.parametrize(("line", "code", "message"), ERRORS)
def test_reads_errors_of_all_records(line: Line, code: str, message: str) -> None:
    transformed = transform_messages([json.dumps(message_item("assistant", "Well")), json.dumps(line)])

    errors = [each.model_dump()["error"] for each in transformed if "error" in each.model_dump()]
    assert [(error["code"], error["message"]) for error in errors] == [(code, message)]


OF_CODEX = {"session_id": "b", "parent": "r", "agent": "b"}
OF_A_PERSON = {"session_id": "b", "agent": ""}
FACTS = [
    (
        META,
        {
            "timestamp": 1770091505000,
            "session_id": "thread-7",
            "client_version": "0.104.0",
            "parent": "thread-1",
            "agent": "thread-7",
        },
    ),
    (CONTEXT, {"timestamp": 1770091505000, "model": "gpt-x", "folder": "/home/ada"}),
    (event("exec_command_begin", cwd="/tmp"), {"timestamp": 1770091506000}),
    (
        {"type": "session_meta", "payload": {"cwd": "/srv", "git": {"branch": "main"}}},
        {"agent": "", "folder": "/srv", "branch": "main"},
    ),
    (
        {"type": "session_meta", "payload": {"id": "b", "parent_thread_id": "a"}},
        {"session_id": "b", "parent": "a", "agent": "b"},
    ),
    *(
        ({"ordinal": 0, "type": "session_meta", "payload": payload}, {"ordinal": 0, **expected})
        for payload, expected in (
            (
                {"id": "b", "session_id": "r", "parent_thread_id": "a", "subagent_history_start_ordinal": 9},
                {"session_id": "b", "parent": "a", "agent": "b", "own_ordinal": 9},
            ),
            ({"id": "b", "session_id": "r", "thread_source": "GuardianReview"}, OF_CODEX),
            ({"id": "b", "session_id": "r", "source": {"internal": "memory_consolidation"}}, OF_CODEX),
            ({"id": "b", "session_id": "r", "source": {"subagent": "review"}}, OF_CODEX),
            ({"id": "b", "session_id": "b", "thread_source": "User", "source": "cli"}, OF_A_PERSON),
            ({"id": "b", "session_id": "b", "thread_source": {"Feature": "voice"}}, OF_A_PERSON),
            (
                {"id": "b", "session_id": "b", "forked_from_id": "a", "forked_from_ordinal_exclusive": 9},
                {**OF_A_PERSON, "parent": "a", "own_ordinal": 9},
            ),
            (
                {
                    "id": "b",
                    "session_id": "b",
                    "forked_from_id": "a",
                    "forked_from_ordinal_exclusive": 9,
                    "history_base": {"thread_id": "a", "end_ordinal_exclusive": 9},
                },
                {**OF_A_PERSON, "parent": "a"},
            ),
        )
    ),
    (event("thread_name_updated", thread_name="Notes"), {"timestamp": 1770091506000, "title": "Notes"}),
    (
        {"id": "0", "msg": {"type": "session_configured", "session_id": "s", "model": "m"}},
        {"session_id": "s", "model": "m"},
    ),
    ({"timestamp": 5, "type": 5, "payload": 5}, {"timestamp": 5000}),
]


@pytest.mark.parametrize(("line", "expected"), FACTS)
def test_line_facts(line: Line, expected: Line) -> None:
    assert PROVIDER.header(line) == RecordHeader(**expected)


PARSED = [
    (event("plan_update", plan=[]), "record", "raw", "control"),
    (event("agent_message_delta", delta="a"), "chunk", "raw", "stream_fragment"),
    (event("never_seen"), "record", "raw", "unknown_type"),
    (item("never_seen"), "record", "raw", "unknown_type"),
    (item("function_call", name="shell"), "message", "raw", "malformed"),
    (
        item("message", role="user", content=[{"type": "input_image", "image_url": None}]),
        "message",
        "raw",
        "malformed",
    ),
    (item("compaction", encrypted_content="zzz"), "record", "raw", "opaque"),
    ({"timestamp": "", "type": "never_seen", "payload": {}}, "record", "raw", "unknown_type"),
    (
        {"timestamp": "", "type": "compacted", "payload": {"message": "So far.", "replacement_history": []}},
        "record",
        "text",
        None,
    ),
    (
        {"method": "item/completed", "params": {"item": {"type": "agentMessage", "id": "i", "text": "Hi"}}},
        "message",
        "text",
        None,
    ),
    (done("collab_tool_call", id="i", tool="wait", status="in_progress"), "message", "tool_use", None),
    (done("never_seen", id="i"), "record", "raw", "unknown_type"),
]


@pytest.mark.parametrize(("line", "kind", "block", "reason"), PARSED)
def test_reads_known_and_unknown_lines(line: Line, kind: str, block: str, reason: str | None) -> None:
    message = parse_message(json.dumps(line))

    first = message.parsed[0].model_dump()
    assert (message.source, message.kind, first["type"], first.get("reason")) == (
        "codex",
        kind,
        block,
        reason,
    )


PNG = "data:image/png;base64,QUFB"
RESPONSES: list[Line] = [
    {"type": "additional_tools", "role": "developer", "tools": []},
    {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}},
    {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no a"},
    {"type": "code_interpreter_call", "id": "i", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
    {"type": "compaction", "id": "i", "encrypted_content": "zzz"},
    {"type": "compaction_trigger"},
    {"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}},
    {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", "image_url": PNG},
    },
    {"type": "configuration_update", "reasoning": {"effort": "low"}},
    {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin Patch"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "Done."},
    {"type": "file_search_call", "id": "i", "queries": ["tide"], "results": [{"file_id": "f"}]},
    {"type": "function_call", "id": "i", "call_id": "c", "name": "tide", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "status": "failed", "output": "no tide"},
    {
        "type": "function_call_output",
        "call_id": "c",
        "output": [
            {"type": "input_audio", "file_id": "f"},
            {"type": "input_file", "file_url": "https://sea.example/a.pdf"},
            {"type": "encrypted_content", "encrypted_content": "zzz"},
            {"type": "image"},
        ],
    },
    {"type": "image_generation_call", "id": "i", "result": "QUFB", "output_format": "png", "size": "1x1"},
    {"type": "image_generation_call", "id": "i", "status": "in_progress", "result": ""},
    {"type": "item_reference", "id": "i"},
    {"type": "local_shell_call", "id": "i", "call_id": None, "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "id": "i", "output": "a"},
    {"type": "mcp_approval_request", "id": "i", "name": "berth", "server_label": "port", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "i", "approve": True},
    {
        "type": "mcp_call",
        "id": "i",
        "name": "berth",
        "server_label": "port",
        "arguments": "{}",
        "output": "1",
    },
    {"type": "mcp_list_tools", "id": "i", "server_label": "port", "tools": []},
    {"type": "message", "role": "assistant", "content": "Ahoy."},
    {
        "type": "message",
        "id": "i",
        "role": "assistant",
        "status": "completed",
        "phase": "final_answer",
        "content": [{"type": "output_text", "text": "Ahoy.", "annotations": []}],
    },
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUFB"},
            {"type": "input_image", "image_url": PNG, "detail": "low"},
        ],
    },
    {"type": "program", "call_id": "c", "code": "1", "fingerprint": "f"},
    {"type": "program_output", "call_id": "c", "result": "1", "status": "completed"},
    {"type": "reasoning", "id": "i", "summary": [{"type": "summary_text", "text": "Look."}], "content": None},
    {"type": "reasoning", "id": "i", "summary": [], "encrypted_content": None},
    {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
    {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a", "outcome": {"exit_code": 0}}]},
    {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": "{}"},
    {"type": "tool_search_output", "call_id": "c", "execution": "server", "tools": [{"name": "tide"}]},
    {"type": "web_search_call", "id": "i", "action": {"type": "search", "sources": [{"url": "u"}]}},
    {"type": "x_search_call", "call_id": "c", "name": "x_keyword_search", "arguments": "{}"},
]
CONTROL_TYPES = {wire for wire, reason in UNTYPED.items() if reason == "control"}
"""For these Codex keeps the line with its envelope."""


def test_compares_all_items_of_the_responses_api() -> None:
    assert {payload["type"] for payload in RESPONSES} == {*ITEMS, *UNTYPED}


@pytest.mark.parametrize("payload", RESPONSES, ids=lambda payload: payload["type"])
def test_item_reads_the_same_bare_and_in_a_rollout_file(payload: Line) -> None:
    wire, line = payload["type"], {"type": "response_item", "payload": payload}
    bare_text, line_text = json.dumps(payload), json.dumps(line)

    bare, inside = parse_message(bare_text, "openai_responses"), parse_message(line_text, "codex")

    blocks = [block.model_dump() for block in bare.parsed]
    if wire in CONTROL_TYPES:
        blocks = [blocks[0] | {"rawType": f"response_item/{wire}", "raw": line}]
    assert (inside.kind, inside.role) == (bare.kind, bare.role)
    assert [block.model_dump() for block in inside.parsed] == blocks
    assert [(message.role, message.content) for message in transform_messages([line_text], "codex")] == [
        (message.role, message.content) for message in transform_messages([bare_text], "openai_responses")
    ]


def test_exit_code_does_not_override_failed_status() -> None:
    line = item("function_call_output", call_id="c", status="failed", output="Exit code: 0\nOutput:\n")

    result = parse_message(json.dumps(line)).parsed[0].model_dump()

    assert (result["is_error"], result["exit_code"]) == (True, 0)


def test_results_of_one_response_form_one_message() -> None:
    lines = [CALL, CALL | {"payload": CALL["payload"] | {"call_id": "c2"}}, CALL_OUTPUT]
    lines += [CALL_OUTPUT | {"payload": CALL_OUTPUT["payload"] | {"call_id": "c2"}}]

    assert [(message["role"], len(message["content"])) for message in messages(lines)] == [
        ("assistant", 2),
        ("user", 2),
    ]


BARE_ITEMS = {
    "function_call": CALL["payload"],
    "message": message_item("user", "Hi")["payload"],
    "tool_result": {"type": "tool_result", "call_id": "c", "result": "a"},
}


@pytest.mark.parametrize("name", BARE_ITEMS)
def test_time_of_a_bare_line_is_not_part_of_the_item(name: str) -> None:
    line = BARE_ITEMS[name] | {"timestamp": "2026-02-03T04:05:06Z", "ordinal": 4}

    message = parse_message(json.dumps(line), "codex")

    assert message.parsed == parse_message(json.dumps(BARE_ITEMS[name]), "codex").parsed
