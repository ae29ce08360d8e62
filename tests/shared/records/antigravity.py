"""Records of Antigravity: steps of its transcripts, lines of its stream, and rows of its databases."""

import base64
from typing import Any

Record = dict[str, Any]

CONVERSATION = "7d1f0a52-5a0e-4d0e-9a53-0d5b3c1f7a10"
TIMES = "Created At: 2026-10-05T08:00:02Z\nCompleted At: 2026-10-05T08:00:03Z\n"


def step(index: int, kind: str, source: str = "MODEL", status: str = "DONE", **more: Any) -> Record:
    fixed = {"step_index": index, "source": source, "type": kind, "status": status}
    return {**fixed, "created_at": "2026-10-05T08:00:01Z", **more}


def prompt(index: int, text: str, model: str | None = None) -> Record:
    added = "\n<ADDITIONAL_METADATA>\nThe current local time is: noon.\n</ADDITIONAL_METADATA>"
    if model is not None:
        change = f"The user changed setting `Model Selection` from None to {model}. No need to comment."
        added += f"\n<USER_SETTINGS_CHANGE>\n{change}\n</USER_SETTINGS_CHANGE>"
    content = f"<USER_REQUEST>\n{text}\n</USER_REQUEST>{added}"
    return step(index, "USER_INPUT", "USER_EXPLICIT", content=content)


def response(index: int, text: str | None = None, *calls: Record, **more: Any) -> Record:
    if text is not None:
        more["content"] = text
    if calls:
        more["tool_calls"] = list(calls)
    return step(index, "PLANNER_RESPONSE", **more)


def call(name: str, **args: Any) -> Record:
    return {"name": name, "args": args}


def update(index: int, kind: str, state: str = "DONE", **more: Any) -> Record:
    fixed = {"conversation_id": CONVERSATION, "step_index": index, "state": state, "step_type": kind}
    return {"event": "step_update", "step_update": {**fixed, **more}}


def result(**more: Any) -> Record:
    return {"event": "result", "result": {"conversation_id": CONVERSATION, "status": "SUCCESS", **more}}


def field(number: int, value: int | bytes) -> bytes:
    """Return a field of a protobuf message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    head = b""
    while value > 0x7F:
        head, value = head + bytes([value & 0x7F | 0x80]), value >> 7
    return head + bytes([value])


def generation(steps: bytes, model: str = "Gemini 3.7 Pro (High)", **counts: int) -> bytes:
    """Return the `data` of a row of `gen_metadata`."""
    numbers = {"input": 2, "output": 3, "cached": 5, "thinking": 9}
    usage = field(1, 1016) + b"".join(field(numbers[name], count) for name, count in counts.items())
    chat = field(4, usage) + field(19, b"gemini-pro-default") + field(21, model.encode())
    return field(1, chat) + field(2, steps) + field(4, CONVERSATION.encode())


def row(key: int, data: bytes) -> Record:
    columns = {"idx": key, "data": {"base64": base64.b64encode(data).decode()}, "size": len(data)}
    return {"table": "gen_metadata", "key": key, "columns": columns}
