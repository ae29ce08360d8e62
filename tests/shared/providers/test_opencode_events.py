"""Events of OpenCode's runs, storage documents and exports."""

import json
from typing import Any

import pytest

from tests.shared.logs import content_events, follow, short_events
from tests.shared.records.opencode import TOKENS, failed, finish, info, part, text, tool
from tests.shared.sample_files import CORPUS

Doc = dict[str, Any]
INPUT = {"command": "make"}
DONE = {"status": "completed", "input": INPUT, "output": "ok\n", "metadata": {"exit": 0}}


def event(part: Doc) -> Doc:
    names = {"step-start": "step_start", "step-finish": "step_finish", "tool": "tool_use"}
    wire = names.get(part["type"], part["type"])
    return {"type": wire, "timestamp": 1_770_000_000_000, "sessionID": "ses_1", "part": part}


SESSION = {
    "id": "ses_1",
    "version": "1.2.0",
    "projectID": "prj_1",
    "directory": "/srv",
    "title": "Build",
    "time": {"created": 1_769_000_000_000},
}
REASONING = part("reasoning", text="Hm", time={"start": 1, "end": 2})
START = part("step-start")


def turn(trigger: str = "user") -> tuple[Any, ...]:
    return ("turn_start", {"trigger": trigger})


def done(words: str, message: str = "msg_2") -> tuple[Any, ...]:
    return ("assistant_done", {"text": words}, message)


def tool_call(message: str = "msg_2", id: str = "c1") -> tuple[Any, ...]:
    return ("tool_call", {"toolCallId": id, "toolName": "bash", "args": INPUT}, message)


def turn_end_with_usage(times: int, cost: float | None = None) -> tuple[Any, ...]:
    counts = {"input_tokens": 50, "output_tokens": 7, "total_tokens": 57, "cache_read_input_tokens": 40}
    counts |= {"cache_creation_input_tokens": 0, "reasoning_tokens": 3}
    cost_field = {} if cost is None else {"costUsd": cost}
    return ("turn_end", {"usage": {name: times * count for name, count in counts.items()}, **cost_field})


THINKING_DONE = ("thinking_done", {"text": "Hm"}, "msg_2")
RESULT_EVENT = (
    "tool_result",
    {"toolCallId": "c1", "result": "ok\n", "exitCode": 0, "structured": {"exit": 0}},
)
PROMPT_EVENT = ("user_message", {"text": "Build it."})


@pytest.mark.parametrize(
    ("documents", "events"),
    [
        pytest.param(
            [
                event(START),
                event(REASONING),
                event(tool(DONE)),
                event(finish("tool-calls", cost=0.1)),
                event(part("step-start", "msg_3")),
                event(text("Built.", "msg_3")),
                event(finish("stop", "msg_3", cost=0.2)),
            ],
            [
                turn("system"),
                THINKING_DONE,
                tool_call(),
                RESULT_EVENT,
                done("Built.", "msg_3"),
                turn_end_with_usage(2, 0.3),
            ],
            id="a run",
        ),
        pytest.param(
            [event(START), event(text("Built.")), event(finish(None)), event(text("Tested.", id="prt_2"))],
            [turn("system"), done("Built."), done("Tested."), turn_end_with_usage(1)],
            id="a response without a finish reason",
        ),
        pytest.param(
            [event(START), event(text("Built.")), event(finish("stop")), failed("APIError")],
            [
                turn("system"),
                done("Built."),
                turn_end_with_usage(1),
                (
                    "error",
                    {"code": "APIError", "message": "Too much", "details": failed("APIError")["error"]},
                ),
            ],
            id="a failure after a finished run",
        ),
        pytest.param(
            [event(tool(DONE)), failed("MessageAbortedError")],
            [
                turn("system"),
                tool_call(),
                RESULT_EVENT,
                ("interrupt", {"reason": "user_cancel"}),
                ("turn_end", {"partial": True}),
            ],
            id="a run stopped by the user",
        ),
        pytest.param(
            [
                info("msg_5", "assistant", error={"name": "MessageAbortedError", "data": {}}),
                text("I wi", "msg_5"),
            ],
            [
                turn("system"),
                ("interrupt", {"reason": "user_cancel"}),
                done("I wi", "msg_5"),
                ("turn_end", {}),
            ],
            id="a stopped response whose prompt is missing",
        ),
        pytest.param(
            [
                tool({"status": "pending", "input": {}, "raw": ""}),
                tool({"status": "running", "input": INPUT}),
                tool({"status": "running", "input": INPUT, "output": "o"}),
                tool({"status": "running", "input": INPUT, "metadata": {"output": "ok"}}),
                tool(DONE),
                tool(DONE),
            ],
            [
                turn("system"),
                tool_call(),
                ("tool_output_chunk", {"toolCallId": "c1", "chunk": "o", "offset": 0}),
                ("tool_output_chunk", {"toolCallId": "c1", "chunk": "k", "offset": 1}),
                RESULT_EVENT,
                ("turn_end", {}),
            ],
            id="a call in all its states",
        ),
        pytest.param(
            [tool({"status": "pending", "input": INPUT})],
            [
                turn("system"),
                ("tool_call", {**tool_call()[1], "partial": True}),
                ("turn_end", {"partial": True}),
            ],
            id="a call that never ran",
        ),
        pytest.param(
            [event(tool(DONE | {"output": "1 failed\n", "metadata": {"exit": 1}}))],
            [
                turn("system"),
                tool_call(),
                (
                    "tool_result",
                    {
                        "toolCallId": "c1",
                        "result": "1 failed\n",
                        "error": {"code": "error", "message": "1 failed\n"},
                        "exitCode": 1,
                        "structured": {"exit": 1},
                    },
                ),
                ("turn_end", {}),
            ],
            id="a command that failed",
        ),
        pytest.param(
            [event(tool({"status": "error", "input": INPUT, "error": "no shell"}, id=None))],
            [
                turn("system"),
                ("tool_call", {**tool_call()[1], "toolCallId": "1/1"}, "msg_2"),
                (
                    "tool_result",
                    {
                        "toolCallId": "1/1",
                        "result": "no shell",
                        "error": {"code": "error", "message": "no shell"},
                    },
                ),
                ("turn_end", {}),
            ],
            id="a failed call without an id",
        ),
        pytest.param(
            [
                SESSION,
                info("msg_1", "user"),
                text("Build it.", "msg_1"),
                text("Called the Read tool.", "msg_1", id="prt_2", synthetic=True),
                info("msg_2", "assistant", finish="tool-calls", cost=0.1, tokens=TOKENS),
                START,
                REASONING,
                tool(DONE),
                finish("tool-calls", cost=0.1),
                info("msg_3", "assistant", finish="stop", cost=0.2, tokens=TOKENS),
                text("Built.", "msg_3"),
                finish("stop", "msg_3", cost=0.2),
                part("patch", "msg_3", hash="f00", files=[]),
                info("msg_4", "user"),
                {
                    "path": "part/msg_4/prt_9.json",
                    "json": {"id": "prt_9", "type": "text", "text": "Go on.", "time": {"start": 1}},
                },
                info("msg_5", "assistant", error={"name": "MessageAbortedError", "data": {}}),
                text("I wi", "msg_5"),
            ],
            [
                turn(),
                PROMPT_EVENT,
                ("user_message", {"text": "Called the Read tool.", "synthetic": True}),
                THINKING_DONE,
                tool_call(),
                RESULT_EVENT,
                done("Built.", "msg_3"),
                turn_end_with_usage(2, 0.3),
                turn(),
                ("user_message", {"text": "Go on."}),
                ("interrupt", {"reason": "user_cancel"}),
                done("I wi", "msg_5"),
                ("turn_end", {}),
            ],
            id="storage documents",
        ),
        pytest.param(
            [
                {
                    "info": SESSION,
                    "messages": [
                        {"info": info("msg_1", "user"), "parts": [{"type": "text", "text": "Build it."}]},
                        {
                            "info": info("msg_2", "assistant", tokens=TOKENS, cost=0.1),
                            "parts": [REASONING, tool(DONE)],
                        },
                        {
                            "info": info("msg_3", "assistant", error={"name": "Oops", "data": {}}),
                            "parts": [text("Built.", "msg_3")],
                        },
                    ],
                },
                {
                    "info": info("msg_4", "assistant", error={"name": "MessageAbortedError", "data": {}}),
                    "parts": [text("Bui", "msg_4")],
                },
            ],
            [
                turn(),
                PROMPT_EVENT,
                THINKING_DONE,
                tool_call(),
                RESULT_EVENT,
                done("Built.", "msg_3"),
                ("error", {"code": "Oops", "message": "Oops", "details": {"name": "Oops", "data": {}}}),
                done("Bui", "msg_4"),
                ("interrupt", {"reason": "user_cancel"}),
                ("turn_end", {**turn_end_with_usage(1, 0.1)[1], "partial": True}),
            ],
            id="an export: cost and error follow the content",
        ),
        pytest.param(
            [part("hologram")],
            [("raw", {"source": "opencode", "raw": part("hologram")})],
            id="an unknown part",
        ),
    ],
)
def test_document_events(documents: list[Doc], events: list[Any]) -> None:
    short_form = short_events(follow(documents, "opencode", ends=True))

    assert [(wire, _without_details(payload), *more) for wire, payload, *more in short_form] == events


def _without_details(payload: Doc) -> Doc:
    """Remove the vendor's usage."""
    usage = {key: value for key, value in payload.get("usage", {}).items() if key != "vendor"}
    return {**payload, "usage": usage} if usage else payload


OWN_STORAGE = [
    info("msg_1", "user"),
    text("Build it.", "msg_1"),
    info("msg_2", "assistant"),
    START,
    REASONING,
    tool(DONE),
    finish("tool-calls"),
    info("msg_3", "assistant"),
    text("Built.", "msg_3"),
    finish("stop", "msg_3"),
]


def _storages() -> list[Any]:
    paths = sorted((CORPUS / "opencode_storage").glob("*.jsonl"))
    captured = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in paths}
    return [pytest.param(documents, id=name) for name, documents in {"own": OWN_STORAGE, **captured}.items()]


@pytest.mark.parametrize("documents", _storages())
def test_storage_matches_its_run(documents: list[Doc]) -> None:
    """A run reports only the assistant's messages, not the prompts."""
    unwrapped = [document.get("json", document) for document in documents]
    users = {document["id"] for document in unwrapped if document.get("role") == "user"}
    parts = [
        {"messageID": each.get("path", "").split("/")[-2:][0], **document}
        for each, document in zip(documents, unwrapped, strict=True)
        if "type" in document
    ]
    run = [event(part) for part in parts if part["messageID"] not in users]

    assert content_events(follow(run)) == [
        each for each in content_events(follow(documents)) if each["type"] != "user_message"
    ]


@pytest.mark.parametrize("documents", _storages()[:1])
def test_storage_matches_its_export(documents: list[Doc]) -> None:
    messages = [
        {
            "info": message,
            "parts": [part for part in documents if part.get("messageID") == message["id"]],
        }
        for message in documents
        if "role" in message
    ]

    export = follow([{"info": SESSION, "messages": messages}])

    assert content_events(export) == content_events(follow(documents))


def test_switch_of_the_agent_is_emitted_once_per_message() -> None:
    planned = info("msg_1", "user", agent="plan")
    built = [info("msg_3", "user", agent="build"), info("msg_4", "assistant", mode="build")]

    events = short_events(follow([planned, info("msg_2", "assistant", mode="plan"), *built, planned]))

    assert events == [("agent_switch", {"fromAgentId": "plan", "toAgentId": "build"})]
