"""Write a session of Codex: the lines of a rollout in the folder of its day."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.projections._conversation import ConversationCall, Item, UserMessage
from ash_shared.projections._request_content import (
    address,
    arguments_of,
    described,
    inline_picture,
    result_blocks,
    text_of,
)
from ash_shared.projections.native.transcript import MARK, NativeSession, NewTranscript, iso_time

_VERSION = "0.0.0"
"""The version of the program that wrote a rollout. Codex requires one, and Ash is none."""


def to_codex(items: list[Item], session: NewTranscript) -> NativeSession:
    """Return the rollout of a session: the items that the model reads, and the events that a terminal shows."""
    text = "".join(f"{json.dumps(line)}\n" for line in _lines(items, session))
    day = datetime.fromtimestamp(session.time / 1000, UTC)
    name = f"rollout-{day:%Y-%m-%dT%H-%M-%S}-{session.id}.jsonl"
    return NativeSession(("sessions", f"{day:%Y}", f"{day:%m}", f"{day:%d}", name), str(session.id), text)


def _lines(items: list[Item], session: NewTranscript) -> Iterator[dict[str, Any]]:
    time = iso_time(session.time)
    ids = {"id": str(session.id), "session_id": str(session.id)}
    meta = {**ids, "timestamp": time, "cwd": session.folder, "originator": "ash", "cli_version": _VERSION}
    yield _line(time, "session_meta", {**meta, "source": "cli", MARK: session.start_mark})
    records = (record for item in items for record in _records(item))
    for number, (kind, payload) in enumerate(records):
        yield _line(iso_time(session.time + number), kind, payload)
    yield _line(time, "ash_continued", {MARK: session.end_mark})


def _line(time: str, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": time, "type": kind, "payload": payload}


def _records(item: Item) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(item, UserMessage):
        content = _prompt(item.blocks)
        yield "response_item", {"type": "message", "role": "user", "content": content}
        texts = "".join(each["text"] for each in content if each["type"] == "input_text")
        images = [each["image_url"] for each in content if each["type"] == "input_image"]
        yield "event_msg", {"type": "user_message", "message": texts, "images": images}
        return
    for text in map(described, item.blocks):
        content = [{"type": "output_text", "text": text}]
        yield "response_item", {"type": "message", "role": "assistant", "content": content}
        yield "event_msg", {"type": "agent_message", "message": text}
    yield from (("response_item", _call(call)) for call in item.calls)
    yield from (("response_item", _result(call)) for call in item.calls)


def _prompt(blocks: list[Block]) -> list[dict[str, Any]]:
    content = [_content(block) for block in blocks]
    if all(each["type"] == "input_text" for each in content):
        return [{"type": "input_text", "text": text_of(blocks)}]
    return content


def _call(call: ConversationCall) -> dict[str, Any]:
    if isinstance(call.args, str):
        return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.args}
    arguments = arguments_of(call.args)
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _result(call: ConversationCall) -> dict[str, Any]:
    blocks = result_blocks(call.result or {"result": None})
    has_images = any(block["type"] == "image" for block in blocks)
    output = [_content(block) for block in blocks] if has_images else text_of(blocks)
    kind = "custom_tool_call_output" if isinstance(call.args, str) else "function_call_output"
    return {"type": kind, "call_id": call.id, "output": output}


def _content(block: Block) -> dict[str, Any]:
    picture = inline_picture(block) if block["type"] == "image" else None
    url = f"data:{picture.media_type};base64,{picture.data}" if picture else address(block)
    if block["type"] == "image" and url:
        return {"type": "input_image", "image_url": url}
    return {"type": "input_text", "text": described(block)}
