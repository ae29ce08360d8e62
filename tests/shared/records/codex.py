"""Records of Codex: items and events of a rollout file, of `codex exec --json` and of the app server."""

from typing import Any

Record = dict[str, Any]


def exec_item(state: str, kind: str, id: str = "item_0", **rest: Any) -> Record:
    return {"type": f"item.{state}", "item": {"id": id, "type": kind, **rest}}


def line(kind: str, /, time: str = "2026-02-03T04:05:06Z", **payload: Any) -> Record:
    return {"timestamp": time, "type": kind, "payload": payload}


def item(kind: str, /, **payload: Any) -> Record:
    return line("response_item", type=kind, **payload)


def event(kind: str, /, **payload: Any) -> Record:
    return line("event_msg", type=kind, **payload)


def completed(kind: str, /, **rest: Any) -> Record:
    return event("item_completed", thread_id="t", turn_id="u", item={"type": kind, **rest})


def msg(kind: str, /, **rest: Any) -> Record:
    return {"id": "0", "msg": {"type": kind, **rest}}


def notice(method: str, **params: Any) -> Record:
    return {"method": method, "params": {"threadId": "t", "turnId": "u", **params}}


def message_item(role: str, text: str, **more: Any) -> Record:
    name = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": name, "text": text}], **more)


def token_count(total: Record, last: Record) -> Record:
    """Return the usage of the session and of its last answer."""
    return event("token_count", info={"total_token_usage": total, "last_token_usage": last})


def bare(record: Record) -> Record:
    payload: Record = record["payload"]
    return payload


def reasoning_item(*texts: str) -> Record:
    return item("reasoning", summary=[{"type": "summary_text", "text": text} for text in texts])


def call_item(call: str = "c1", name: str = "shell") -> Record:
    return item("function_call", name=name, arguments='{"command":["ls"]}', call_id=call)


def output_item(call: str = "c1", output: Any = "a.txt\n") -> Record:
    return item("function_call_output", call_id=call, output=output)


THREAD = {"type": "thread.started", "thread_id": "thread-1"}
