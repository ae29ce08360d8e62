"""Standard messages and events of spans and log records."""

import json
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest

from tests.shared.logs import follow, short_events
from tests.shared.transcripts import short_messages

Record = dict[str, Any]


def attributes_of(values: Mapping[str, Any]) -> list[Record]:
    def value(each: Any) -> Record:
        if isinstance(each, int):
            return {"intValue": str(each)}
        return {"stringValue": each if isinstance(each, str) else json.dumps(each)}

    return [{"key": key, "value": value(each)} for key, each in values.items()]


def span(number: int, values: Mapping[str, Any], **fields: Any) -> Record:
    record = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": f"{number:016x}",
        "startTimeUnixNano": str(number * 10**9),
        "attributes": attributes_of(values),
        **fields,
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [record]}]}]}


def log(name: str, scope: str = "com.anthropic.claude_code.events", **values: Any) -> Record:
    record = {"body": {"stringValue": name}, "attributes": attributes_of(values)}
    return {"resourceLogs": [{"scopeLogs": [{"scope": {"name": scope}, "logRecords": [record]}]}]}


def message(role: str, *parts: Record) -> Record:
    return {"role": role, "parts": list(parts)}


def text(content: str) -> Record:
    return {"type": "text", "content": content}


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m"}
PROMPT = message("user", text("When?"))
CALL = message("assistant", {"type": "tool_call", "id": "c1", "name": "times", "arguments": {"pier": 2}})
RESULT = message("tool", {"type": "tool_call_response", "id": "c1", "response": "09:10"})
ANSWER = message("assistant", text("At 09:10."))


def chat(number: int, *messages: Record, **values: Any) -> Record:
    *before, last = messages
    usage = {"gen_ai.usage.input_tokens": 10 * number, "gen_ai.usage.output_tokens": number}
    return span(
        number, {**CHAT, **usage, "gen_ai.input.messages": before, "gen_ai.output.messages": [last], **values}
    )


FIRST, SECOND = chat(1, PROMPT, CALL), chat(3, PROMPT, CALL, RESULT, ANSWER)
TOOL = span(
    2,
    {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "times",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"pier": 2}',
        "gen_ai.tool.call.result": "09:10",
    },
)
AGENT = span(
    4,
    {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": [PROMPT],
        "gen_ai.output.messages": [ANSWER],
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.output_tokens": 4,
    },
)
CONVERSATION = [
    ("user", [("text", "When?")]),
    ("assistant", [("tool_use", "times")], {"model": "m", "usage": (10, 1, None, None)}),
    ("user", [("tool_result", "09:10")]),
    ("assistant", [("text", "At 09:10.")], {"model": "m", "usage": (30, 3, None, None)}),
]


def test_each_message_appears_once() -> None:
    assert short_messages(FIRST, TOOL, SECOND, AGENT) == CONVERSATION


@pytest.mark.parametrize("spans", list(permutations([FIRST, TOOL, SECOND, AGENT])))
def test_spans_in_any_order_have_the_same_messages(spans: tuple[Record, ...]) -> None:
    def by_content(messages: list[Any]) -> list[Any]:
        return sorted(messages, key=str)

    assert by_content(short_messages(*spans)) == by_content(CONVERSATION)


def test_events_state_each_message_once() -> None:
    assert short_events(follow([FIRST, TOOL, SECOND, AGENT], ends=True)) == [
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": "When?"}),
        ("tool_call", {"toolCallId": "c1", "toolName": "times", "args": {"pier": 2}}),
        ("tool_result", {"toolCallId": "c1", "result": "09:10"}),
        ("assistant_done", {"text": "At 09:10."}),
        ("turn_end", {"usage": {"input_tokens": 40, "output_tokens": 4, "total_tokens": 44}}),
    ]


def test_an_answer_may_be_equal_to_an_earlier_one() -> None:
    again = chat(5, PROMPT, ANSWER, message("user", text("And now?")), ANSWER)

    assert [each[1] for each in short_messages(chat(1, PROMPT, ANSWER), again)] == [
        [("text", "When?")],
        [("text", "At 09:10.")],
        [("text", "And now?")],
        [("text", "At 09:10.")],
    ]


def test_agents_take_turns_in_a_conversation() -> None:
    def by(agent: str, number: int, *messages: Record) -> Record:
        return chat(number, *messages, **{"gen_ai.agent.name": agent})

    handed = message("assistant", text("The guide knows."))
    outer = span(4, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "host"})
    lines = [
        by("host", 1, PROMPT, handed),
        by("guide", 2, PROMPT, handed, ANSWER),
        outer,
        by(
            "guide",
            3,
            PROMPT,
            handed,
            ANSWER,
            message("user", text("Thanks!")),
            message("assistant", text("Bye.")),
        ),
    ]

    assert [
        (type, payload.get("text") or payload["toAgentId"])
        for type, payload in short_events(follow(lines))
        if type in ("user_message", "assistant_done", "agent_switch")
    ] == [
        ("user_message", "When?"),
        ("assistant_done", "The guide knows."),
        ("agent_switch", "guide"),
        ("assistant_done", "At 09:10."),
        ("user_message", "Thanks!"),
        ("assistant_done", "Bye."),
    ]


def test_a_handoff_in_the_history_is_a_switch() -> None:
    """As in the spans of the OpenAI Agents SDK, which have no agent."""
    call = {"type": "tool_call", "id": "c1", "name": "transfer_to_guide", "arguments": "{}"}
    result = {"type": "tool_call_response", "id": "c1", "response": '{"assistant": "guide"}'}
    asked, answered = message("assistant", call), message("tool", result)

    events = short_events(follow([chat(1, PROMPT, asked), chat(2, PROMPT, asked, answered, ANSWER)]))

    assert ("agent_switch", {"toAgentId": "guide"}) in events
    assert events[-1] == ("assistant_done", {"text": "At 09:10."})


def in_trace(trace: str, record: Record) -> Record:
    [span] = record["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return {"resourceSpans": [{"scopeSpans": [{"spans": [{**span, "traceId": trace}]}]}]}


SYSTEM = message("system", text("Be brief."))


def said(*records: Record) -> list[tuple[str, Any]]:
    """Return roles and texts of the messages, which the events have, too."""
    messages = [(each[0], each[1][0][1]) for each in short_messages(*records) if each[0] != "system"]
    roles = {"user_message": "user", "assistant_done": "assistant"}
    events = [
        (roles[name], payload["text"]) for name, payload in short_events(follow([*records])) if name in roles
    ]
    assert events == messages
    return messages


def test_a_call_of_another_trace_without_history_repeats_nothing() -> None:
    calls = [
        in_trace("ab" * 16, chat(1, SYSTEM, PROMPT, ANSWER)),
        in_trace("cd" * 16, chat(2, SYSTEM, PROMPT, ANSWER)),
    ]
    history = in_trace(
        "ef" * 16, chat(3, SYSTEM, PROMPT, ANSWER, PROMPT, ANSWER, message("user", text("Bye")), ANSWER)
    )
    turn = [("user", "When?"), ("assistant", "At 09:10.")]

    assert said(*calls) == [*turn, *turn]
    assert said(*calls, history) == [*turn, *turn, ("user", "Bye"), ("assistant", "At 09:10.")]
    assert [each[0] for each in short_messages(*calls)].count("system") == 1


@pytest.mark.parametrize(
    ("again", "prompts"),
    [
        # A repeated call, and another agent of the run with the same prompt.
        (in_trace("ab" * 16, chat(2, PROMPT, ANSWER)), 1),
        (in_trace("ab" * 16, chat(2, SYSTEM, PROMPT, ANSWER)), 1),
        # The first call arrives after one that may repeat it.
        (in_trace("cd" * 16, chat(0, PROMPT, ANSWER)), 1),
        # A call with a history.
        (in_trace("cd" * 16, chat(2, PROMPT, ANSWER, PROMPT, ANSWER)), 2),
    ],
)
def test_other_calls_repeat_a_prompt(again: Record, prompts: int) -> None:
    first = in_trace("ab" * 16, chat(1, PROMPT, ANSWER))

    assert said(first, again).count(("user", "When?")) == prompts


def test_a_tool_that_failed() -> None:
    failed = span(
        2,
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "times", "gen_ai.tool.call.id": "c1"},
        status={"code": 2, "message": "no such pier"},
    )

    events = short_events(follow([FIRST, failed]))

    assert events[-1][1]["error"] == {"code": "error", "message": "no such pier"}


def test_a_call_that_failed() -> None:
    failed = span(
        1,
        {**CHAT, "gen_ai.input.messages": [PROMPT], "error.type": "RateLimitError"},
        status={"code": 2, "message": "slow down"},
    )

    assert short_messages(failed) == [
        ("user", [("text", "When?")]),
        ("assistant", [], {"model": "m", "error": "RateLimitError"}),
    ]


def test_usage_without_contents() -> None:
    usage = {
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.reasoning.output_tokens": 4,
    }

    assert short_messages(span(1, {**CHAT, **usage})) == [
        ("assistant", [], {"model": "m", "usage": (40, 9, 60, 4)})
    ]


def test_events_of_claude_code() -> None:
    session = {"session.id": "s"}
    lines = [
        log("claude_code.user_prompt", **session, prompt="Fix it"),
        log("claude_code.tool_result", **session, tool_name="Bash", tool_use_id="t1", success="true"),
        log(
            "claude_code.api_request",
            **session,
            model="claude-x",
            request_id="r1",
            input_tokens=5,
            output_tokens="7",
            cache_read_tokens=3,
            cost_usd="0.25",
        ),
        log("claude_code.user_prompt", **session, prompt="Fix it"),
    ]

    assert short_messages(*lines) == [
        ("user", [("text", "Fix it")]),
        ("assistant", [("tool_use", "Bash")]),
        ("user", [("tool_result", None)]),
        ("assistant", [], {"model": "claude-x", "usage": (5, 7, 3, None), "costUsd": 0.25}),
        ("user", [("text", "Fix it")]),
    ]


def test_answers_of_claude_code_have_the_usage_of_their_request() -> None:
    session, request = {"session.id": "s"}, {"model": "claude-x", "request_id": "r1"}
    lines = [
        log("claude_code.user_prompt", **session, prompt="Fix it"),
        log("claude_code.assistant_response", **session, **request, response="Done.", response_length="5"),
        log("claude_code.api_request", **session, **request, input_tokens=5, output_tokens=7),
        log("claude_code.assistant_response", **session, request_id="r2", response="<REDACTED>"),
    ]

    answer = {"model": "claude-x", "usage": (5, 7, None, None)}
    for order in ([0, 1, 2, 3], [0, 2, 1, 3]):
        assert short_messages(*(lines[place] for place in order)) == [
            ("user", [("text", "Fix it")]),
            ("assistant", [("text", "Done.")], answer),
        ]


def test_events_of_codex() -> None:
    def codex(name: str, **values: Any) -> Record:
        """Return a record of `opentelemetry-appender-tracing`, whose name is the place in the source code."""
        record = {
            "eventName": "event otel/src/events/session_telemetry.rs:1023",
            "attributes": attributes_of({**values, "event.name": name, "conversation.id": "s"}),
        }
        return {
            "resourceLogs": [
                {"scopeLogs": [{"scope": {"name": "codex_otel.log_only"}, "logRecords": [record]}]}
            ]
        }

    lines = [
        codex("codex.user_prompt", prompt="Fix it"),
        codex(
            "codex.tool_result",
            tool_name="shell",
            call_id="c1",
            arguments='{"cmd":"ls"}',
            output="a",
            success="true",
        ),
        codex(
            "codex.sse_event",
            **{"event.kind": "response.completed"},
            model="gpt-x",
            input_token_count=50,
            cached_token_count=20,
            output_token_count=8,
            reasoning_token_count=2,
        ),
        codex("codex.websocket_event", **{"event.kind": "response.completed"}, success="true"),
        codex("codex.api_request", **{"http.response.status_code": 200}, attempt=1, endpoint="/models"),
        codex("codex.agent_response", **{"agent.type": "main"}, response="Fixed."),
        codex(
            "codex.api_request",
            **{"http.response.status_code": 429, "error.message": "Too many requests"},
            attempt=1,
        ),
    ]

    assert short_messages(*lines) == [
        ("user", [("text", "Fix it")]),
        ("assistant", [("tool_use", "shell")]),
        ("user", [("tool_result", "a")]),
        ("assistant", [], {"model": "gpt-x", "usage": (30, 8, 20, 2)}),
        ("assistant", [("text", "Fixed.")]),
        ("assistant", [], {"error": "429"}),
    ]
