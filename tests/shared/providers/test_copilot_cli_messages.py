"""Standard messages of Copilot CLI's event log."""

from ash_shared import transform_messages
from tests.shared.records.copilot_cli import (
    Record,
    answer,
    call,
    event,
    id_of,
    metrics,
    prompt,
    result,
    usage_record,
)
from tests.shared.transcripts import lines, short_messages

START = event(
    "session.start",
    sessionId="s1",
    copilotVersion="1.0.102",
    selectedModel="gpt-5",
    context={"cwd": "/work/shop", "branch": "main"},
)
ASSISTANT = {"model": "gpt-5"}


def test_turn_with_tools() -> None:
    calls = (call("c1", "bash", command="ls"), call("c2", "view", path="a"))
    diff = {"content": "b\n", "detailedContent": "@@ -1 +1 @@\n-a\n+b\n"}
    assert short_messages(
        START,
        prompt("List the files", 2),
        event("system.message", 3, role="system", content="You are helpful."),
        event("assistant.turn_start", 4, turnId="0"),
        usage_record(6, 5),
        answer("I look.", 6, None, *calls, reasoningText="Hm.", reasoningOpaque="sig"),
        event("tool.execution_start", 7, toolCallId="c1", toolName="bash", arguments={"command": "ls"}),
        event("hook.start", 8, hookType="postToolUse", input={"toolResult": "a\nb"}),
        result("c2", "", 9, result=diff),
        result("c1", "a\nb", 10, shellExecution={"exitCode": 0}),
        event("assistant.turn_end", 11, turnId="0"),
        usage_record(13, 12),
        answer("Two files.", 13),
    ) == [
        ("user", [("text", "List the files")]),
        ("system", [("text", "You are helpful.")]),
        (
            "assistant",
            [("thinking", "Hm."), ("text", "I look."), ("tool_use", "bash"), ("tool_use", "view")],
            {**ASSISTANT, "messageId": "m6", "usage": (20, 9, 100, 4)},
        ),
        ("user", [("tool_result", "b\n")]),
        ("user", [("tool_result", "a\nb")]),
        ("assistant", [("text", "Two files.")], {**ASSISTANT, "messageId": "m13", "usage": (20, 9, 100, 4)}),
    ]


def test_subagent_is_below_its_call() -> None:
    task = call("c1", "task", prompt="Count the files", agent_type="general")
    inner = {"parentToolCallId": "c1"}
    assert short_messages(
        prompt("Ask a helper", 1),
        answer("I ask.", 2, None, task),
        event("subagent.started", 3, "g1", toolCallId="c1", agentName="general"),
        prompt("Count the files", 4, "g1", source="agent-s1"),
        event("system.message", 5, "g1", role="system", content="You are a helper."),
        usage_record(7, 6, "g1", **inner),
        answer("Three.", 7, "g1", **inner),
        result("c1", "Three.", 8),
    ) == [
        ("user", [("text", "Ask a helper")]),
        ("assistant", [("text", "I ask."), ("tool_use", "task")], {**ASSISTANT, "messageId": "m2"}),
        ("user", [("text", "Count the files")], {"agentId": "g1"}),
        (
            "assistant",
            [("text", "Three.")],
            {
                **ASSISTANT,
                "messageId": "m7",
                "agentId": "g1",
                "parentToolUseId": "c1",
                "usage": (20, 9, 100, 4),
            },
        ),
        ("user", [("tool_result", "Three.")]),
    ]


SHUTDOWN = event(
    "session.shutdown",
    3,
    shutdownType="routine",
    totalPremiumRequests=0.33,
    totalNanoAiu=3236385000,
    modelMetrics={
        "gpt-5": metrics(inputTokens=500, outputTokens=40, cacheReadTokens=300, reasoningTokens=8),
        "gpt-5-mini": metrics(inputTokens=100, outputTokens=5, cacheReadTokens=0),
    },
)
COSTS = {"totalNanoAiu": 3236385000, "totalPremiumRequests": 0.33}
FIRST = {**ASSISTANT, "messageId": "m2"}


def messages_until(*ends: Record) -> list[tuple[object, ...]]:
    return short_messages(prompt("Hi", 1), answer("Hello.", 2, outputTokens=40), *ends)[1:]


def test_usage_of_a_session_is_written_at_its_end() -> None:
    """Of all models. A version that writes the usage of each call only repeats it."""
    data = {**SHUTDOWN["data"], "usageAccountingWatermarks": []}
    assert messages_until(SHUTDOWN) == [
        ("assistant", [("text", "Hello.")], {**FIRST, **COSTS, "usage": (300, 45, 300, 8)})
    ]
    assert messages_until({**SHUTDOWN, "data": data}) == [
        ("assistant", [("text", "Hello.")], {**FIRST, **COSTS})
    ]


def test_resumption_without_an_answer_adds_no_usage() -> None:
    idle = event("session.shutdown", 5, modelMetrics={"gpt-5": metrics(inputTokens=0, outputTokens=0)})
    assert messages_until(SHUTDOWN, event("session.resume", 4), idle) == [
        ("assistant", [("text", "Hello.")], {**FIRST, **COSTS, "usage": (300, 45, 300, 8)})
    ]


def test_usage_is_absent_if_the_program_died() -> None:
    checkpoint = event("session.usage_checkpoint", 3, modelCacheState=[], **COSTS)
    assert messages_until() == [("assistant", [("text", "Hello.")], FIRST)]
    assert messages_until(checkpoint) == [("assistant", [("text", "Hello.")], {**FIRST, **COSTS})]


def test_costs_keep_the_units_of_the_vendor() -> None:
    [_, message] = transform_messages(lines(prompt("Hi", 1), answer("Hello.", 2), SHUTDOWN))
    assert message.metadata.model_dump().get("costUsd") is None
    assert message.usage is not None
    assert message.usage.vendor.keys() == {"modelMetrics", "totalNanoAiu", "totalPremiumRequests"}


def test_errors_and_notices() -> None:
    failed = event("session.error", 4, errorType="query", message="400 too long", statusCode=400)
    assert short_messages(
        prompt("Go", 1),
        event("session.info", 2, infoType="folder_trust", message="The folder is trusted."),
        event("model.call_failure", 3, source="top_level", errorMessage="400 too long", statusCode=400),
        failed,
        event("system.notification", 5, content="A shell ended.", kind={"type": "shell_completed"}),
    ) == [
        ("user", [("text", "Go")]),
        ("system", [("text", "The folder is trusted.")]),
        ("system", [("text", "400 too long")]),
        ("system", [("text", "400 too long")], {"error": "query"}),
        ("system", [("text", "A shell ended.")]),
    ]


def test_prompt_of_a_program() -> None:
    """The text of a skill was not typed, and a failed call has its error as the result."""
    failure = {"message": "Path does not exist", "code": "failure"}
    failed = event("tool.execution_complete", 4, toolCallId="c1", success=False, error=failure)
    assert short_messages(
        prompt("Review", 1),
        prompt("<skill>Read the diff.</skill>", 2, source="skill-review"),
        answer("", 3, None, call("c1", "view", path="a")),
        failed,
    ) == [
        ("user", [("text", "Review")]),
        (
            "user",
            [("text", "<skill>Read the diff.</skill>")],
            {"synthetic": True, "sender": "skill", "senderName": "review"},
        ),
        ("assistant", [("tool_use", "view")], {**ASSISTANT, "messageId": "m3"}),
        ("user", [("tool_result", "Path does not exist")]),
    ]


def test_rewind_retracts_a_prompt_and_what_follows() -> None:
    rewind = event("session.snapshot_rewind", 5, upToEventId=id_of(3), eventsRemoved=2)
    assert short_messages(
        prompt("Draw", 1), answer("A tree.", 2), prompt("In red", 3), answer("Red.", 4), rewind
    ) == [
        ("user", [("text", "Draw")]),
        ("assistant", [("text", "A tree.")], {**ASSISTANT, "messageId": "m2"}),
        ("user", [("text", "In red")], {"retracted": True}),
        ("assistant", [("text", "Red.")], {**ASSISTANT, "messageId": "m4", "retracted": True}),
    ]


def test_attachments() -> None:
    attachments = [
        {"type": "file", "path": "/work/a.txt", "displayName": "a.txt", "mimeType": "text/plain"},
        {"type": "blob", "mimeType": "image/png", "data": "iVBORw0KGgo=", "displayName": "shot"},
        {"type": "selection", "filePath": "/work/b.py", "displayName": "b.py", "text": "x = 1"},
        {"type": "github_reference", "number": 7, "title": "A fault"},
    ]
    [(_, blocks)] = short_messages(prompt("Look", 1, attachments=attachments))
    assert blocks == [
        ("text", "Look"),
        ("file", None),
        ("image", {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}),
        ("file", {"type": "text", "media_type": "text/plain", "data": "x = 1"}),
        ("file", None),
    ]
