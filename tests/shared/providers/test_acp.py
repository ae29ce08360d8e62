"""The Agent Client Protocol: turns of both versions, calls that grow, and sessions that are loaded again."""

from typing import Any

import pytest

from tests.shared.logs import follow, short_events
from tests.shared.short_events import ShortEvent
from tests.shared.transcripts import short_messages

Record = dict[str, Any]

START: ShortEvent = ("turn_start", {"trigger": "user"})
END: ShortEvent = ("turn_end", {})
PROMPT: ShortEvent = ("user_message", {"text": "Tides?"})


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def request(method: str, id: int = 3, **params: Any) -> Record:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": "s1", **params}}


def response(id: int = 3, **result: Any) -> Record:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def update(kind: str, /, **more: Any) -> Record:
    params = {"sessionId": "s1", "update": {"sessionUpdate": kind, **more}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def said(words: str, kind: str = "agent_message_chunk", **more: Any) -> Record:
    return update(kind, content=text(words), **more)


def call(**more: Any) -> Record:
    return update("tool_call_update", toolCallId="k0", **more)


ASK = request("session/prompt", prompt=[text("Tides?")])
STOP = response(stopReason="end_turn")
BEGIN_CALL = update("tool_call", toolCallId="k0", title="tide", kind="read", status="pending", rawInput={})
RETURN = call(status="completed", content=[{"type": "content", "content": text("09:10")}])
CALLED: ShortEvent = ("tool_call", {"toolCallId": "k0", "toolName": "tide", "args": {"a": 1}})
RETURNED: ShortEvent = ("tool_result", {"toolCallId": "k0", "result": "09:10"})


def spoken(*pieces: str, kind: str = "assistant") -> list[ShortEvent]:
    chunks: list[ShortEvent] = [(f"{kind}_chunk", {"text": piece}) for piece in pieces]
    return [*chunks, (f"{kind}_done", {"text": "".join(pieces)})]


TURNS: dict[str, tuple[list[Record], list[ShortEvent]]] = {
    "thoughts and a text": (
        [ASK, said("Sea", "agent_thought_chunk"), said("I lo"), said("ok."), STOP],
        [START, PROMPT, *spoken("Sea", kind="thinking"), *spoken("I lo", "ok."), END],
    ),
    "two messages in a row": (
        [ASK, said("One", messageId="m1"), said("Two", messageId="m2"), STOP],
        [
            START,
            PROMPT,
            *[(*each, "m1") for each in spoken("One")],
            *[(*each, "m2") for each in spoken("Two")],
            END,
        ],
    ),
    "a call that gets its arguments later, and another title": (
        [ASK, BEGIN_CALL, call(title="Look up", status="in_progress", rawInput={"a": 1}), RETURN, STOP],
        [START, PROMPT, CALLED, RETURNED, END],
    ),
    "a call whose arguments never change": (
        [
            ASK,
            update("tool_call", toolCallId="k0", title="tide", status="pending", rawInput={"a": 1}),
            RETURN,
            STOP,
        ],
        [START, PROMPT, CALLED, RETURNED, END],
    ),
    "a call that fails, and states the name of its tool": (
        [
            ASK,
            update(
                "tool_call",
                toolCallId="k0",
                title="Tide of Kiel",
                status="in_progress",
                rawInput={"a": 1},
                _meta={"toolName": "tide"},
            ),
            call(status="failed", rawOutput={"code": 2}),
            STOP,
        ],
        [
            START,
            PROMPT,
            CALLED,
            (
                "tool_result",
                {
                    "toolCallId": "k0",
                    "result": "",
                    "structured": {"code": 2},
                    "error": {"code": "error", "message": ""},
                },
            ),
            END,
        ],
    ),
    "a turn that the person cancels": (
        [ASK, said("I lo"), request("session/cancel"), response(stopReason="cancelled")],
        [
            START,
            PROMPT,
            ("assistant_chunk", {"text": "I lo"}),
            ("assistant_done", {"text": "I lo", "partial": True}),
            ("interrupt", {"reason": "user_cancel"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a request that fails": (
        [ASK, {"jsonrpc": "2.0", "id": 3, "error": {"code": -32603, "message": "No model."}}],
        [
            START,
            PROMPT,
            (
                "error",
                {
                    "code": "-32603",
                    "message": "No model.",
                    "details": {"code": -32603, "message": "No model."},
                },
            ),
            ("interrupt", {"reason": "error"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "version 2: whole messages, and the end as a state": (
        [
            ASK,
            {"jsonrpc": "2.0", "id": 3, "result": {}},
            update("user_message", messageId="u1", content=[text("Tides?")]),
            update("state_update", state="running"),
            said("I lo", messageId="m1"),
            update("agent_message", messageId="m1", content=[text("I look.")]),
            call(title="tide", status="in_progress", rawInput={"a": 1}),
            update(
                "tool_call_content_chunk", toolCallId="k0", content={"type": "content", "content": text("09")}
            ),
            RETURN,
            update("state_update", state="idle", stopReason="end_turn"),
        ],
        [
            START,
            PROMPT,
            ("assistant_chunk", {"text": "I lo"}, "m1"),
            ("assistant_done", {"text": "I look."}, "m1"),
            CALLED,
            ("tool_output_chunk", {"toolCallId": "k0", "chunk": "09", "offset": 0}),
            RETURNED,
            END,
        ],
    ),
    "plans, commands and usage of the context, which are no content": (
        [
            request("session/new", cwd="/dock", mcpServers=[]),
            response(sessionId="s1"),
            update("plan", entries=[{"content": "Look", "priority": "high", "status": "pending"}]),
            update("usage_update", used=5, size=100),
            update("_pilot_update", port="Kiel"),
        ],
        [],
    ),
}


@pytest.mark.parametrize("case", TURNS)
def test_turns(case: str) -> None:
    records, expected = TURNS[case]

    assert short_events(follow(records)) == expected


def test_a_session_that_is_loaded_again_is_not_repeated() -> None:
    load = request("session/load", 7, cwd="/dock", mcpServers=[])
    replay = [said("Tides?", "user_message_chunk"), said("I look.")]
    loaded = response(7, modes={})
    again = request("session/prompt", 8, prompt=[text("Again")])
    turn = [ASK, said("I lo"), said("ok."), STOP]

    events = short_events(follow([*turn, load, *replay, loaded, again]))
    assert events == [
        START, PROMPT, *spoken("I lo", "ok."), END, START, ("user_message", {"text": "Again"})
    ]  # fmt: skip
    assert short_messages(*turn, load, *replay, loaded, again) == [
        ("user", [("text", "Tides?")]),
        ("assistant", [("text", "I lo"), ("text", "ok.")]),
        ("user", [("text", "Again")]),
    ]


def test_the_first_session_that_is_loaded_is_its_history() -> None:
    load = request("session/load", 1, cwd="/dock", mcpServers=[])
    history = [said("Tides?", "user_message_chunk"), said("I look.")]

    messages = short_messages(load, *history, response(1, modes={}), load, *history, response(1, modes={}))

    assert messages == [("user", [("text", "Tides?")]), ("assistant", [("text", "I look.")])]


@pytest.mark.parametrize(("total", "input"), [(129, 20), (209, 100)])
def test_the_total_tells_whether_the_input_has_cached_tokens(total: int, input: int) -> None:
    usage = {"inputTokens": 100, "cachedReadTokens": 80, "outputTokens": 29, "totalTokens": total}

    [*_, end] = short_events(follow([ASK, said("Hi"), response(stopReason="end_turn", usage=usage)]))

    counts = end[1]["usage"]
    assert (counts["input_tokens"], counts["cache_read_input_tokens"], counts["output_tokens"]) == (
        input,
        80,
        29,
    )
