"""Standard messages and events of Zed's threads."""

import json
from typing import Any

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

Record = dict[str, Any]


def user(id: str, *content: Record) -> Record:
    return {"User": {"id": id, "content": list(content)}}


def agent(*content: Record, results: Record | None = None) -> Record:
    return {"Agent": {"content": list(content), "tool_results": results or {}}}


def row(*messages: Any, usage: Record | None = None, **columns: Any) -> Record:
    document = {"version": "0.3.0", "model": {"provider": "p", "model": "z1"}, "messages": messages}
    data = json.dumps({**document, "request_token_usage": usage or {}})
    times = {"created_at": "2026-03-02T09:00:00Z", "updated_at": "2026-03-02T09:05:00Z"}
    known = {"summary": "Oars", "data_type": "zstd", "data": data, **times}
    return {"table": "threads", "key": "t1", "columns": {"id": "t1", **known, **columns}}


ASKED = user("u1", {"Text": "Count the oars"})
CALL = {
    "ToolUse": {"id": "c1", "name": "grep", "raw_input": "{}", "input": {"p": 1}, "is_input_complete": True}
}
RESULT = {
    "tool_use_id": "c1",
    "tool_name": "grep",
    "is_error": True,
    "content": {"Text": "None"},
    "output": None,
}
LOOKED = agent({"Thinking": {"text": "Hm.", "signature": "q"}}, CALL, results={"c1": RESULT})
ANSWERED = agent({"Text": "No oars."})
MESSAGES = [
    ("user", [("text", "Count the oars")]),
    ("assistant", [("thinking", "Hm."), ("tool_use", "grep")], {"model": "z1"}),
    ("user", [("tool_result", [{"type": "text", "text": "None", "source_type": "Text"}])]),
    ("assistant", [("text", "No oars.")], {"model": "z1"}),
]


def test_thread() -> None:
    """The results of calls are beside the content of the answer, by the ids of calls."""
    assert short_messages(row(ASKED, LOOKED, "Resume", ANSWERED)) == MESSAGES


def test_a_changed_row_adds_messages() -> None:
    rows = [row(ASKED, LOOKED), row(ASKED, LOOKED, ANSWERED)]
    assert short_messages(*rows) == MESSAGES
    kinds = [event[0] for event in short_events(follow(rows))]
    assert [kind for kind in kinds if not kind.startswith("turn")] == [
        "user_message",
        "thinking_done",
        "tool_call",
        "tool_result",
        "assistant_done",
    ]


def test_usage_of_a_prompt_belongs_to_its_last_answer() -> None:
    """A later version of the thread states it again."""
    usage = {
        "u1": {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 100},
        "u2": {"input_tokens": 30, "output_tokens": 4},
    }
    rows = [
        row(ASKED, LOOKED, ANSWERED, usage={"u1": usage["u1"]}),
        row(ASKED, LOOKED, ANSWERED, user("u2", {"Text": "Sure?"}), agent({"Text": "Yes."}), usage=usage),
    ]
    answers = [message[2].get("usage") for message in short_messages(*rows) if message[0] == "assistant"]
    assert answers == [None, (20, 9, 100, None), (30, 4, None, None)]
    ends = [event[1]["usage"] for event in short_events(follow(rows, ends=True)) if event[0] == "turn_end"]
    assert [(end["input_tokens"], end["output_tokens"]) for end in ends] == [(20, 9), (30, 4)]


def test_header() -> None:
    [line] = lines(row(ASKED, parent_id="t0", folder_paths="/work/shop\n/work/tide"))
    header = describe_message(line).header
    assert (header.session_id, header.parent, header.folder) == ("t1", "t0", "/work/shop")
    assert (header.title, header.model) == ("Oars", "z1")
    assert (header.timestamp, header.last_timestamp) == (1772442000000, 1772442300000)


def test_folder_of_an_older_version() -> None:
    document = {"initial_project_snapshot": {"worktree_snapshots": [{"worktree_path": "/work/shop"}]}}
    [line] = lines(row(ASKED, data=json.dumps({**document, "messages": []})))
    assert describe_message(line).header.folder == "/work/shop"
