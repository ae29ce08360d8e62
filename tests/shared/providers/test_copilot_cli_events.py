"""Events of Copilot CLI's log and of the stream of its SDK."""

from tests.shared.logs import follow, short_events
from tests.shared.records.copilot_cli import answer, call, event, metrics, prompt, result, usage_record

TURN = ("turn_start", {"trigger": "user"})
USAGE = {
    "input_tokens": 20,
    "output_tokens": 9,
    "total_tokens": 29,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 100,
    "reasoning_tokens": 4,
}


def test_turn_with_a_subagent() -> None:
    """The prompt of the subagent names its agent only, and is found by the call with the same text."""
    inner = {"parentToolCallId": "c1"}
    events = follow(
        [
            prompt("Ask a helper", 1),
            event("assistant.turn_start", 2, turnId="0"),
            usage_record(4, 3),
            answer("I ask.", 4, None, call("c1", "task", prompt="Count the files")),
            prompt("Count the files", 5, "g1", source="agent-s1"),
            usage_record(7, 6, "g1", **inner),
            answer("Three.", 7, "g1", **inner),
            result("c1", "Three.", 8),
            event(
                "session.shutdown",
                9,
                modelMetrics={"gpt-5": metrics(inputTokens=1)},
                usageAccountingWatermarks=[],
            ),
        ],
        ends=True,
    )
    asked = {"toolCallId": "c1", "toolName": "task", "args": {"prompt": "Count the files"}}
    assert short_events(events) == [
        TURN,
        ("user_message", {"text": "Ask a helper"}),
        ("assistant_done", {"text": "I ask."}, "m4"),
        ("tool_call", asked, "m4"),
        (
            "user_message",
            {"text": "Count the files", "synthetic": True, "sidechain": True, "parentToolCallId": "c1"},
        ),
        ("assistant_done", {"text": "Three.", "parentToolCallId": "c1"}, "m7"),
        ("tool_result", {"toolCallId": "c1", "result": "Three."}),
        (
            "turn_end",
            {
                "usage": {
                    **USAGE,
                    "input_tokens": 40,
                    "output_tokens": 18,
                    "total_tokens": 58,
                    "cache_read_input_tokens": 200,
                    "reasoning_tokens": 8,
                },
                "usageByAgent": {"g1": USAGE},
            },
        ),
    ]


def test_usage_at_the_end_belongs_to_the_last_turn() -> None:
    shutdown = event("session.shutdown", 3, modelMetrics={"gpt-5": metrics(inputTokens=50, outputTokens=7)})
    vendor = {"modelMetrics": shutdown["data"]["modelMetrics"]}
    usage = {"input_tokens": 50, "output_tokens": 7, "total_tokens": 57, "vendor": vendor}
    assert short_events(follow([prompt("Hi", 1), answer("Hello.", 2), shutdown]))[-1] == (
        "turn_end",
        {"usage": usage},
    )


def test_abort_interrupts_the_turn() -> None:
    events = short_events(
        follow([prompt("Go", 1), answer("I go.", 2), event("abort", 3, reason="user_initiated")])
    )
    assert events[-2:] == [("interrupt", {"reason": "user_cancel"}), ("turn_end", {"partial": True})]


def test_failure_is_an_error_once() -> None:
    failure = event("model.call_failure", 2, source="top_level", errorMessage="400", statusCode=400)
    error = event("session.error", 3, errorType="query", message="400", statusCode=400)
    events = short_events(follow([prompt("Go", 1), failure, error]))
    assert [name for name, *_ in events] == [
        "turn_start",
        "user_message",
        "system_message",
        "error",
        "interrupt",
        "turn_end",
    ]


def test_deltas_of_the_stream() -> None:
    """The complete answer supersedes them. Deltas of a thought do not name their message."""
    events = follow(
        [
            prompt("Hi", 1),
            event("assistant.reasoning_delta", 2, reasoningId="r1", deltaContent="Hm."),
            event("assistant.message_delta", 3, messageId="m4", deltaContent="Hel"),
            event("assistant.message_delta", 3, messageId="m4", deltaContent="lo."),
            answer("Hello.", 4, None, call("c1", "bash", command="ls"), reasoningText="Hm."),
            event("tool.shell_output", 5, toolCallId="c1", text="a\n", sequence=1, stream="stdout"),
            result("c1", "a\n", 6),
        ]
    )
    assert short_events(events)[2:] == [
        ("thinking_chunk", {"text": "Hm."}),
        ("assistant_chunk", {"text": "Hel"}, "m4"),
        ("assistant_chunk", {"text": "lo."}, "m4"),
        ("thinking_done", {"text": "Hm."}),
        ("assistant_done", {"text": "Hello."}, "m4"),
        ("tool_call", {"toolCallId": "c1", "toolName": "bash", "args": {"command": "ls"}}, "m4"),
        (
            "tool_output_chunk",
            {"toolCallId": "c1", "chunk": "a\n", "offset": 0, "stream": "stdout"},
        ),
        ("tool_result", {"toolCallId": "c1", "result": "a\n"}),
    ]
