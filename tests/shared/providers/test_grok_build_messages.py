"""Standard messages and events of Grok Build's history."""

from typing import Any

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

Record = dict[str, Any]


def user(text: str, **fields: Any) -> Record:
    return {"type": "user", "content": [{"type": "text", "text": text}], **fields}


def answer(text: str, *calls: Record, model: str = "grok-4.5") -> Record:
    return {"type": "assistant", "content": text, "tool_calls": [*calls], "model_id": model}


HISTORY = (
    {"type": "system", "content": "You row."},
    user("<user_info>\nOS: linux\n</user_info>", synthetic_reason="environment_context"),
    user("<user_query>Count the oars</user_query>", prompt_index=0),
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "q7",
    },
    {
        "type": "backend_tool_call",
        "kind": {"tool_type": "web_search", "action": {"query": "oar"}, "id": "ws_1"},
    },
    answer("I look.", {"id": "c1", "name": "read_file", "arguments": '{"target_file": "a.txt"}'}),
    {"type": "tool_result", "tool_call_id": "c1", "content": "4 oars\n"},
    user("No, the boats", prompt_index=1, prior_turn_interrupt="mid_turn_abort"),
    answer("Two."),
)


def test_history() -> None:
    """Reasoning and calls of server tools belong to the answer after them."""
    model = {"model": "grok-4.5"}
    assert short_messages(*HISTORY, source="grok_build") == [
        ("system", [("text", "You row.")]),
        ("user", [("text", "<user_info>\nOS: linux\n</user_info>")], {"synthetic": True}),
        ("user", [("text", "Count the oars")]),
        (
            "assistant",
            [("thinking", "Hm."), ("tool_use", "web_search"), ("text", "I look."), ("tool_use", "read_file")],
            model,
        ),
        ("user", [("tool_result", "4 oars\n")]),
        ("user", [("text", "No, the boats")]),
        ("assistant", [("text", "Two.")], model),
    ]


def test_events_of_an_interrupted_turn() -> None:
    events = short_events(follow(HISTORY[5:], source="grok_build"))
    assert [event[0] for event in events] == [
        "turn_start",
        "assistant_done",
        "tool_call",
        "tool_result",
        "interrupt",
        "turn_end",
        "turn_start",
        "user_message",
        "assistant_done",
    ]


def test_summary_and_updates_have_the_facts_of_the_session() -> None:
    summary, update = lines(
        {
            "info": {"id": "s1", "cwd": "/work/shop"},
            "generated_title": "Oars",
            "created_at": "2026-03-02T09:00:00Z",
            "current_model_id": "grok-4.5",
            "head_branch": "main",
            "chat_format_version": 1,
        },
        {"timestamp": 1772442000, "method": "session/update", "params": {"sessionId": "s1", "update": {}}},
    )
    header = describe_message(summary).header
    assert (header.session_id, header.title, header.folder) == ("s1", "Oars", "/work/shop")
    assert (header.timestamp, header.model, header.branch) == (1772442000000, "grok-4.5", "main")
    description = describe_message(update)
    assert (description.source, description.kind) == ("grok_build", "record")
    assert (description.header.session_id, description.header.timestamp) == ("s1", 1772442000000)


def test_sources_of_a_search_are_its_result() -> None:
    """Other results of server tools are not in the history."""
    action = {"query": "oar", "sources": [{"type": "url", "url": "https://quay.example"}]}
    search = {
        "type": "backend_tool_call",
        "kind": {"tool_type": "web_search", "action": action, "id": "ws_1"},
    }

    events = follow([user("Count the oars"), search, answer("Four.")], source="grok_build")

    assert [
        (each["payload"]["toolCallId"], each["payload"]["structured"])
        for each in events
        if each["type"] == "tool_result"
    ] == [("ws_1", action["sources"])]
