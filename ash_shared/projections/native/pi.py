"""Write a session of pi: the entries of a file in the folder of its project."""

import json
import re
from collections.abc import Iterator
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.model.events import failure_of
from ash_shared.projections._conversation import Answer, ConversationCall, Item, UserMessage
from ash_shared.projections._request_content import (
    arguments_of,
    described,
    inline_picture,
    result_blocks,
    text_of,
)
from ash_shared.projections.native.transcript import MARK, NativeSession, NewTranscript, iso_time

_VERSION = 3
_COUNTS = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
_COSTS = ("input", "output", "cacheRead", "cacheWrite", "total")
_UNKNOWN = {
    "api": "unknown",
    "provider": "unknown",
    "model": "unknown",
    "usage": {**dict.fromkeys(_COUNTS, 0), "cost": dict.fromkeys(_COSTS, 0)},
}
"""Fields that pi requires in an answer. Inherited messages have no usage in Ash."""


def to_pi(items: list[Item], session: NewTranscript) -> NativeSession:
    """Return the file of a session, with one entry per message."""
    text = "".join(f"{json.dumps(entry)}\n" for entry in _entries(items, session))
    name = f"{re.sub('[:.]', '-', iso_time(session.time))}_{session.id}.jsonl"
    folder = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", session.folder))
    return NativeSession(("sessions", f"--{folder}--", name), str(session.id), text)


def _entries(items: list[Item], session: NewTranscript) -> Iterator[dict[str, Any]]:
    start, id = iso_time(session.time), str(session.id)
    yield {
        "type": "session",
        "version": _VERSION,
        "id": id,
        "timestamp": start,
        "cwd": session.folder,
        MARK: session.start_mark,
    }
    bodies: list[dict[str, Any]] = [
        *({"type": "message", "message": message} for item in items for message in _messages(item)),
        {"type": "custom", "customType": "ash-continued", "data": {MARK: session.end_mark}},
        *([] if session.title is None else [{"type": "session_info", "name": session.title}]),
    ]
    parent: str | None = None
    for number, body in enumerate(bodies):
        time, id = session.time + number, session.record_id(number).hex[:8]
        if "message" in body:
            body["message"]["timestamp"] = time
        yield {**body, "id": id, "parentId": parent, "timestamp": iso_time(time)}
        parent = id


def _messages(item: Item) -> Iterator[dict[str, Any]]:
    if isinstance(item, UserMessage):
        yield {"role": "user", "content": _content(item.blocks)}
        return
    content = [{"type": "text", "text": text} for text in map(described, item.blocks)]
    content += [_call(call) for call in item.calls]
    yield {"role": "assistant", "content": content, **_UNKNOWN, "stopReason": _stop_reason(item)}
    yield from map(_result, item.calls)


def _stop_reason(answer: Answer) -> str:
    return "toolUse" if answer.calls else "stop"


def _call(call: ConversationCall) -> dict[str, Any]:
    arguments = json.loads(arguments_of(call.args))
    return {"type": "toolCall", "id": call.id, "name": call.name, "arguments": arguments}


def _result(call: ConversationCall) -> dict[str, Any]:
    content = _content(result_blocks(call.result or {"result": None}))
    names = {"toolCallId": call.id, "toolName": call.name}
    return {
        "role": "toolResult",
        **names,
        "content": content,
        "isError": failure_of(call.result or {}) is not None,
    }


def _content(blocks: list[Block]) -> list[dict[str, Any]]:
    """Return texts and images; texts alone are one text."""
    pictures = [inline_picture(block) if block["type"] == "image" else None for block in blocks]
    if not any(pictures):
        return [{"type": "text", "text": text_of(blocks)}]
    return [
        {"type": "image", "data": picture.data, "mimeType": picture.media_type}
        if picture
        else {"type": "text", "text": described(block)}
        for block, picture in zip(blocks, pictures, strict=True)
    ]
