"""Messages of Bedrock, the AI SDK, LangChain and Ash's own format.

Each file of `parsed_records/` is a list of objects with a text (`raw`) and the `source`, `kind`, `role` and blocks
(`expected`: its blocks) that it has without a declared source.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ash_shared import parse_message, providers
from ash_shared.providers import discover
from tests.shared.logs import follow
from tests.shared.transcripts import Short, short_messages

PARSED_RECORDS = [
    pytest.param(record, id=f"{path.stem}-{record['name']}")
    for path in sorted((Path(__file__).parents[1] / "parsed_records").glob("*.json"))
    for record in json.loads(path.read_text(encoding="utf-8"))
]


def event(type: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": type,
        "timestamp": 1703001234567,
        "sessionId": "s1",
        "type": type,
        "payload": payload,
        **more,
    }


USAGE = {"input_tokens": 5, "output_tokens": 6, "total_tokens": 11}

CONVERSATIONS: dict[str, tuple[list[Any], list[Short]]] = {
    "bedrock: a request and its response": (
        [
            {
                "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
                "system": [{"text": "Be brief."}],
                "inferenceConfig": {},
            },
            {
                "output": {
                    "message": {
                        "role": "assistant",
                        "content": [{"toolUse": {"toolUseId": "t1", "name": "tide", "input": {"day": 3}}}],
                    }
                },
                "stopReason": "tool_use",
                "usage": {
                    "inputTokens": 20,
                    "outputTokens": 5,
                    "cacheReadInputTokens": 100,
                    "cacheWriteInputTokens": 7,
                    "totalTokens": 132,
                },
            },
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "9"}]}}]},
        ],
        [
            ("system", [("text", "Be brief.")]),
            ("user", [("text", "Hi")]),
            ("assistant", [("tool_use", "tide")], {"stop_reason": "tool_use", "usage": (20, 5, 100, None)}),
            ("user", [("tool_result", [{"type": "text", "text": "9", "source_type": "text"}])]),
        ],
    ),
    "bedrock: a response stopped by a guardrail": (
        [
            {
                "output": {"message": {"role": "assistant", "content": [{"text": "No."}]}},
                "stopReason": "guardrail_intervened",
                "additionalModelResponseFields": {"stop_sequence": "END"},
            }
        ],
        [
            (
                "assistant",
                [("text", "No.")],
                {
                    "stop_reason": "guardrail_intervened",
                    "stop_sequence": "END",
                    "error": "guardrail_intervened",
                },
            )
        ],
    ),
    "bedrock: an error after a response": (
        [
            {
                "output": {"message": {"role": "assistant", "content": [{"text": "Nine."}]}},
                "stopReason": "end_turn",
            },
            {"message": "No such model."},
        ],
        [("assistant", [("text", "Nine.")], {"stop_reason": "end_turn", "error": "error"})],
    ),
    "vercel: a growing conversation that is stored repeatedly": (
        [
            [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "When?"}]}],
            [
                {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "When?"}]},
                {
                    "id": "a1",
                    "role": "assistant",
                    "parts": [
                        {"type": "tool-tide", "toolCallId": "c1", "state": "input-available", "input": {}}
                    ],
                },
            ],
            [
                {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "When?"}]},
                {
                    "id": "a1",
                    "role": "assistant",
                    "metadata": {
                        "model": "m1",
                        "totalUsage": {
                            "inputTokens": 30,
                            "cachedInputTokens": 10,
                            "outputTokens": 4,
                            "reasoningTokens": 1,
                        },
                    },
                    "parts": [
                        {
                            "type": "tool-tide",
                            "toolCallId": "c1",
                            "state": "output-available",
                            "input": {},
                            "output": "9",
                        },
                        {"type": "step-start"},
                        {"type": "text", "text": "At nine."},
                    ],
                },
                {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Thanks."}]},
            ],
            [
                {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "When?"}]},
                {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Thanks."}]},
            ],
        ],
        [
            ("user", [("text", "When?")], {"messageId": "u1"}),
            ("assistant", [("tool_use", "tide")], {"messageId": "a1"}),
            ("user", [("tool_result", "9")], {"messageId": "a1"}),
            (
                "assistant",
                [("raw", {"type": "step-start"}), ("text", "At nine.")],
                {"model": "m1", "messageId": "a1", "usage": (20, 4, 10, 1)},
            ),
            ("user", [("text", "Thanks.")], {"messageId": "u2"}),
        ],
    ),
    "vercel: a tool that runs at the vendor": (
        [
            {
                "role": "assistant",
                "parts": [
                    {
                        "type": "dynamic-tool",
                        "toolName": "find",
                        "toolCallId": "c2",
                        "state": "output-error",
                        "input": {},
                        "errorText": "gone",
                        "providerExecuted": True,
                    },
                    {"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "Faster."}]},
                ],
            }
        ],
        [("assistant", [("tool_use", "find"), ("tool_result", "gone")]), ("user", [("text", "Faster.")])],
    ),
    "langchain: states that repeat earlier messages": (
        [
            ["values", {"messages": [{"type": "human", "content": "Go", "id": "h1"}]}],
            ["messages", [{"type": "AIMessageChunk", "content": "", "id": "r1"}, {"thread_id": "t1"}]],
            [
                "values",
                {
                    "messages": [
                        {"type": "human", "content": "Go", "id": "h1"},
                        {
                            "type": "ai",
                            "content": "",
                            "id": "r1",
                            "tool_calls": [{"name": "rm", "args": {}, "id": "c1"}],
                            "usage_metadata": {
                                "input_tokens": 30,
                                "output_tokens": 9,
                                "total_tokens": 39,
                                "input_token_details": {"cache_read": 20},
                                "output_token_details": {"reasoning": 2},
                            },
                            "response_metadata": {"model_name": "m1", "finish_reason": "tool_calls"},
                        },
                    ]
                },
            ],
            [
                "messages",
                [
                    {"type": "tool", "content": "done", "id": "x1", "tool_call_id": "c1", "name": "rm"},
                    {"thread_id": "t1"},
                ],
            ],
            [
                "values",
                {
                    "messages": [
                        {"type": "human", "content": "Go", "id": "h1"},
                        {
                            "type": "ai",
                            "content": "",
                            "id": "r1",
                            "tool_calls": [{"name": "rm", "args": {}, "id": "c1"}],
                        },
                        {"type": "tool", "content": "done", "id": "x1", "tool_call_id": "c1"},
                        {
                            "type": "ai",
                            "content": "Gone.",
                            "id": "r2",
                            "response_metadata": {"error": {"code": "cut", "message": "Too long."}},
                        },
                    ]
                },
            ],
        ],
        [
            ("user", [("text", "Go")]),
            (
                "assistant",
                [("tool_use", "rm")],
                {"model": "m1", "messageId": "r1", "stop_reason": "tool_calls", "usage": (10, 9, 20, 2)},
            ),
            ("user", [("tool_result", "done")]),
            ("assistant", [("text", "Gone.")], {"messageId": "r2", "error": "cut"}),
        ],
    ),
    "ash: the events of a turn": (
        [
            event("turn_start", {"trigger": "user"}),
            event("user_message", {"text": "List"}),
            event("assistant_chunk", {"text": "I"}, responseId="r1"),
            event("thinking_done", {"text": "Hm."}, responseId="r1"),
            event("assistant_done", {"text": "I look.", "stopReason": "tool_use"}, responseId="r1"),
            event("tool_call", {"toolCallId": "c1", "toolName": "Bash", "args": {}}, responseId="r1"),
            event("tool_result", {"toolCallId": "c1", "result": "a.py"}),
            event("assistant_done", {"text": "One."}),
            event("error", {"code": "late", "message": "Late."}),
            event("turn_end", {"usage": USAGE, "costUsd": 0.5}),
            event("retraction", {"eventIds": ["user_message"]}),
        ],
        [
            ("user", [("text", "List")], {"retracted": True}),
            (
                "assistant",
                [("thinking", "Hm."), ("text", "I look."), ("tool_use", "Bash")],
                {"messageId": "r1", "stop_reason": "tool_use"},
            ),
            ("user", [("tool_result", "a.py")]),
            ("assistant", [("text", "One.")], {"costUsd": 0.5, "usage": (5, 6, None, None), "error": "late"}),
        ],
    ),
    "ash: a standard message": (
        [
            {
                "id": "m1",
                "role": "assistant",
                "timestamp": 5,
                "content": [{"type": "text", "text": "Nine."}],
                "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
                "metadata": {"source": "claude", "model": "m1", "stop_reason": "end_turn"},
                "error": {"code": "x", "message": "y"},
                "_original": [],
            }
        ],
        [
            (
                "assistant",
                [("text", "Nine.")],
                {"model": "m1", "stop_reason": "end_turn", "usage": (1, 2, None, None), "error": "x"},
            )
        ],
    ),
}


def read(raw: str, source: str | None = None) -> tuple[str, str, str, list[Any]]:
    record = parse_message(raw, source)
    return record.source, record.kind, record.role, record.model_dump(mode="json")["parsed"]


@pytest.mark.parametrize("record", PARSED_RECORDS)
def test_parsed_records(record: dict[str, Any]) -> None:
    expected = tuple(record[name] for name in ("source", "kind", "role", "expected"))

    assert expected == read(record["raw"])


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversations(name: str) -> None:
    records, expected = CONVERSATIONS[name]

    assert expected == short_messages(*records)


SOURCES = ("ash", "bedrock", "langchain", "vercel")
FOREIGN_RECORDS = [
    {"role": "user", "content": "Hi"},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "user", "parts": [{"text": "Hi"}]},
    {"role": "user", "parts": []},
    {"messages": [{"role": "user", "content": "Hi"}]},
    {"messages": []},
    {"metadata": {"x": 1}},
    {"message": {"role": "user", "content": [{"text": "Hi"}]}},
    {"type": "error", "error": {"message": "No."}},
    {"type": "start", "part": {}},
    {"type": "system", "subtype": "init", "content": "Hi"},
    {"type": "tool", "content": "Hi"},
    {"type": "event_msg", "timestamp": "2026-01-02T03:04:05Z", "payload": {"type": "user_message"}},
    {"type": ["text"], "role": ["user"], "parts": [[]], "payload": {}, "content": [[]], "lc": [], "id": [[]]},
    {"type": {}, "role": {}, "parts": {}, "messages": {}, "output": [], "kwargs": 1, "data": []},
]


@pytest.mark.parametrize("record", FOREIGN_RECORDS, ids=json.dumps)
def test_does_not_claim_records_of_other_formats(record: Any) -> None:
    providers = discover()

    assert [name for name in SOURCES if providers[name].recognize(record)] == []


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("record", FOREIGN_RECORDS, ids=json.dumps)
def test_keeps_all_content_with_a_wrong_source(source: str, record: Any) -> None:
    _, _, _, blocks = read(json.dumps(record), source)

    assert ('"Hi"' in json.dumps(record)) is ('"Hi"' in json.dumps(blocks))


def test_reads_ash_blocks_with_declared_source() -> None:
    stored = {
        "type": "file",
        "filename": "a.pdf",
        "mimeType": "application/pdf",
        "size": 3,
        "storagePath": "u/a.pdf",
    }

    assert read(json.dumps(stored), "ash") == ("ash", "message", "user", [stored])


def test_facts() -> None:
    providers_by_source = discover()
    records: dict[str, dict[str, Any]] = {
        "bedrock": {"modelId": "m1", "messages": []},
        "vercel": {"id": "a1", "parts": [], "createdAt": "2026-01-02T03:04:05Z", "metadata": {"model": "m1"}},
        "langchain": {"list": ["messages", [{"type": "AIMessageChunk", "content": ""}, {"thread_id": "t1"}]]},
        "ash": {
            "id": "e1",
            "sessionId": "s1",
            "timestamp": 1703001234567,
            "type": "turn_start",
            "payload": {},
        },
    }

    facts = {
        name: {k: v for k, v in providers_by_source[name].header(record)._asdict().items() if v}
        for name, record in records.items()
    }

    assert facts == {
        "bedrock": {"model": "m1"},
        "vercel": {"timestamp": 1767323045000, "model": "m1"},
        "langchain": {"session_id": "t1"},
        "ash": {"uuid": "e1", "session_id": "s1", "timestamp": 1703001234567},
    }


PAGE = Path(__file__).parents[3] / "docs" / "adding-a-provider.md"


def code_blocks() -> list[str]:
    """Return the code blocks of the page: lines, a provider, a script, its output, a function for steps, and the row
    with it."""
    return re.findall(r"```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def with_steps(provider: str, steps: str, row: str) -> str:
    """Return the provider with the steps of the page in the row of their type."""
    key = row.partition(":")[0]
    import_line, _, function = steps.partition("\n\n\n")
    rows = "".join(row if line.startswith(key) else line for line in provider.splitlines(keepends=True))
    return f"{import_line}\n{rows}".replace("TYPES: ", f"{function}\n\nTYPES: ")


def add_quay(provider: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "providers").mkdir()
    (folder / "providers" / "quay.py").write_text(provider)
    monkeypatch.delitem(sys.modules, "ash_shared.providers.quay", raising=False)
    monkeypatch.setattr(providers, "__path__", [*providers.__path__, str(folder / "providers")])
    discovered = discover()
    monkeypatch.setattr("ash_shared.parsing.parsed_text._load_providers", lambda: discovered)


def test_guide_example_prints_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Follow the guide and compare the printed output."""
    lines, provider, script, printed, _, _ = code_blocks()
    add_quay(provider, tmp_path, monkeypatch)
    (tmp_path / "quay.jsonl").write_text(lines)
    monkeypatch.chdir(tmp_path)

    exec(compile(script, PAGE, "exec"), {})

    assert printed == capsys.readouterr().out


@pytest.mark.slow
def test_guide_example_is_typed(tmp_path: Path) -> None:
    """`make check` accepts the example, without and with its steps."""
    _, provider, _, _, steps, row = code_blocks()
    names = ("quay.py", "quay_steps.py")
    for name, code in zip(names, (provider, with_steps(provider, steps, row)), strict=True):
        (tmp_path / name).write_text(code)
    command = [sys.executable, "-m", "mypy", "--config-file", str(PAGE.parents[1] / "pyproject.toml"), *names]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stdout) == (0, "Success: no issues found in 2 source files\n")


def test_guide_example_emits_stream_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fragment is emitted at once, and the complete text after it only once."""
    lines, provider, _, _, steps, row = code_blocks()
    add_quay(with_steps(provider, steps, row), tmp_path, monkeypatch)

    events = follow([json.loads(line) for line in lines.splitlines()[2:4]])

    assert [event["type"] for event in events] == ["turn_start", "assistant_chunk", "assistant_done"]
