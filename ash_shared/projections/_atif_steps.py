"""The steps of a trajectory in ATIF, from standard messages."""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from ash_shared.model.blocks import Block, is_audio, is_valid, without
from ash_shared.model.message import StandardMessage, StandardTokenUsage
from ash_shared.records.atif_notes import KEY, MEDIA_TYPES, SEPARATOR, kind_of, order_note
from ash_shared.records.json_fields import items_at, text_at

AGENT = "agent"
"""A temporary key of a result: the subagent that its call started."""

_SOURCES = {"assistant": "agent", "system": "system", "user": "user"}
_MEDIA_TYPE_ALIASES = {
    "audio/mp3": "audio/mpeg",
    "audio/mpga": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/x-aac": "audio/aac",
    "audio/x-flac": "audio/flac",
    "audio/x-aiff": "audio/aiff",
}


class DividedMessage(NamedTuple):
    step: list[Block] | None
    """The blocks of its step; None without one."""
    results: list[Block]
    """Results of calls in earlier steps."""


def divide(message: StandardMessage) -> DividedMessage:
    blocks = [block.model_dump() for block in message.content]
    calls = {block.get("id") for block in blocks if block["type"] == "tool_use"} - {None}
    is_answer = message.role == "assistant"
    own, results = list[Block](), list[Block]()
    for block in blocks:
        is_inline = is_answer and block.get("tool_use_id") in calls
        (own if block["type"] != "tool_result" or is_inline else results).append(block)
    has_step = own or not results or message.usage is not None or message.error is not None
    return DividedMessage(own if has_step else None, results)


def step_of(
    message: StandardMessage, blocks: list[Block], media: "Media", place: int, *, is_copy: bool
) -> Block:
    is_answer = message.role == "assistant"
    step = _answer(message, blocks, media, place) if is_answer else _message_step(message, blocks, media)
    if is_copy:
        step = {**without(step, "metrics"), "is_copied_context": True}
    for block in blocks:
        if is_answer and block["type"] == "tool_result":
            _observe(step, _result(block, media, block["tool_use_id"], {"isInline": True}))
    return step


def add_result(step: Block, message: StandardMessage, result: Block, media: "Media") -> None:
    """Add a result to the step of its call."""
    time = _iso_time(message.timestamp)
    notes = {} if time == step.get("timestamp") else {"timestamp": time}
    observed = _result(result, media, result["tool_use_id"], notes)
    if (agent := _started_agent(message, result)) is not None:
        observed[AGENT] = agent
    _observe(step, observed)


def step_of_result(message: StandardMessage, result: Block, media: "Media") -> Block:
    """Return the step of a result without a call."""
    step = _dated(_step("system", "", {"isEmpty": True, **_script_notes(message)}), message)
    _observe(step, _result(result, media, None, _orphan_notes(result)))
    return step


def empty_step() -> Block:
    """Return the step of an empty trajectory: ATIF requires at least one."""
    return _step("system", "", {"isEmpty": True})


def has_audio(blocks: Iterable[Block], media: "Media") -> bool:
    """True if a part of the steps of these blocks is a recording."""
    return any(_has_audio(block, media) for block in blocks)


def _has_audio(block: Block, media: "Media") -> bool:
    if block["type"] != "tool_result":
        return is_audio(block) and media.part(block) is not None
    content = block.get("content")
    parts = content if isinstance(content, list) else []
    # Validation takes long, and recordings are rare.
    recordings = [each for each in parts if isinstance(each, dict) and each.get("type") == "file"]
    return bool(recordings) and all(map(_is_block, parts)) and has_audio(recordings, media)


def _started_agent(message: StandardMessage, result: Block) -> str | None:
    """Return the subagent that the call of a result started, by the id of its session."""
    stated = text_at(message.metadata.tool_use_result, "agentId") or text_at(
        result, "structured", "sessionId"
    )
    refs = items_at(result, "extra", "subagent_trajectory_ref")
    return stated or next((text_at(ref, "trajectory_id") for ref in refs), None)


def _orphan_notes(block: Block) -> dict[str, Any]:
    """Return the call of a result as written: no call in the trajectory has this id."""
    return {"toolUseId": block["tool_use_id"]} if "tool_use_id" in block else {"hasNoCall": True}


def _script_notes(message: StandardMessage) -> dict[str, str]:
    caller = message.metadata.ran_by_tool_use_id
    return {} if caller is None else {"ranByToolUseId": caller}


def _step(source: str, message: Any, notes: Mapping[str, Any]) -> Block:
    return {"source": source, "message": message, **_extra(notes)}


def _extra(notes: Mapping[str, Any]) -> Block:
    return {"extra": {KEY: dict(notes)}} if notes else {}


def _dated(step: Block, message: StandardMessage) -> Block:
    time = _iso_time(message.timestamp)
    return step if time is None else {"timestamp": time, **step}


def _observe(step: Block, result: Block) -> None:
    step.setdefault("observation", {"results": []})["results"].append(result)


def _message_step(message: StandardMessage, blocks: list[Block], media: "Media") -> Block:
    """Return the step of a message of the system or the user."""
    content, notes = _content(blocks, media)
    if not blocks:
        notes["isEmpty"] = True
    if (metrics := metrics_of(message)) is not None:
        notes["metrics"] = metrics
    step = {
        "source": _SOURCES[message.role],
        "message": content,
        **_extra({**_message_notes(message), **notes}),
    }
    return _dated(step, message)


def _answer(message: StandardMessage, blocks: list[Block], media: "Media", place: int) -> Block:
    """Return the step of an answer."""
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    content, notes = _content([block for block in blocks if kind_of(block) == "text"], media)
    order, metrics = order_note(blocks), metrics_of(message)
    if order is not None:
        notes["order"] = order
    if thoughts and (thinking_notes := _thinking_notes(thoughts)):
        notes["thinking"] = thinking_notes
    if not blocks:
        notes["isEmpty"] = True
    is_of_script = message.metadata.ran_by_tool_use_id is not None
    is_of_program = bool(calls) and (is_of_script or all(call.get("executor") == "host" for call in calls))
    is_asked = bool(thoughts) or metrics is not None or not is_of_program
    step = {
        "source": "agent",
        **({} if message.metadata.model is None else {"model_name": message.metadata.model}),
        "message": content,
        **({"reasoning_content": SEPARATOR.join(each["thinking"] for each in thoughts)} if thoughts else {}),
        **(
            {"tool_calls": [_call(call, place, index) for index, call in enumerate(calls, 1)]}
            if calls
            else {}
        ),
        **({} if metrics is None else {"metrics": metrics}),
        **({} if is_asked else {"llm_call_count": 0}),
        **_extra({**_message_notes(message), **notes}),
    }
    return _dated(step, message)


def _thinking_notes(thoughts: Sequence[Block]) -> list[Block] | None:
    """Return the length and the other fields of each thought; None if there is one with only a text."""
    fields = [without(thought, "type", "thinking") for thought in thoughts]
    if len(thoughts) == 1 and not fields[0]:
        return None
    return [
        {"length": len(thought["thinking"]), **more} for thought, more in zip(thoughts, fields, strict=True)
    ]


def _message_notes(message: StandardMessage) -> dict[str, Any]:
    metadata = message.metadata
    notes = {
        "id": message.id,
        "messageId": metadata.message_id,
        "stopReason": metadata.stop_reason,
        "stopSequence": metadata.stop_sequence,
        "synthetic": metadata.synthetic or None,
        "sender": metadata.sender,
        "senderName": metadata.sender_name,
        "ranByToolUseId": metadata.ran_by_tool_use_id,
        "error": None if message.error is None else message.error.model_dump(),
    }
    return {name: value for name, value in notes.items() if value is not None}


def _call(block: Block, place: int, index: int) -> Block:
    arguments, id = block["input"], block.get("id")
    notes: dict[str, Any] = {}
    if not isinstance(arguments, dict):
        notes["hasBareInput"] = True
    if id is None:
        notes["hasNoId"] = True
    if more := without(block, "type", *(() if id is None else ("id",)), "name", "input"):
        notes["block"] = more
    return {
        "tool_call_id": f"call_{place}_{index}" if id is None else id,
        "function_name": block["name"],
        "arguments": arguments if isinstance(arguments, dict) else {"input": arguments},
        **_extra(notes),
    }


def _result(block: Block, media: "Media", call: str | None, notes: Mapping[str, Any]) -> Block:
    content, content_notes = _result_content(block.get("content"), media)
    consumed = ("type", "tool_use_id", *(() if content is None else ("content",)))
    more = without(block, *consumed)
    return {
        **({} if call is None else {"source_call_id": call}),
        **({} if content is None else {"content": content}),
        **_extra({**notes, **content_notes, **({"block": more} if more else {})}),
    }


def _result_content(content: Any, media: "Media") -> tuple[Any, dict[str, Any]]:
    """Return the content of a result as ATIF accepts it: a text or parts, and other values as JSON text."""
    if content is None or isinstance(content, str):
        return content, {}
    if isinstance(content, list) and all(_is_block(block) for block in content):
        parts, notes = _parts(content, media)
        return parts, notes
    return json.dumps(content, ensure_ascii=False), {"isJson": True}


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and is_valid(value)


def _content(blocks: Sequence[Block], media: "Media") -> tuple[Any, dict[str, Any]]:
    """Return a message as text or parts, and its notes."""
    parts, notes = _parts(blocks, media)
    is_text = len(parts) == 1 and parts[0]["type"] == "text" and parts[0]["text"] and not notes
    return (parts[0]["text"] if is_text else parts or ""), notes


def _parts(blocks: Iterable[Block], media: "Media") -> tuple[list[Block], dict[str, Any]]:
    """Return the parts of blocks. The notes have the other fields of each, and the blocks without a form in ATIF."""
    parts, fields, placed = list[Block](), list[Block](), list[Block]()
    for place, block in enumerate(blocks):
        part = _text_part(block) if block["type"] == "text" else media.part(block)
        if part is None:
            placed.append({"place": place, "block": block})
        else:
            parts.append(part)
            fields.append(
                without(block, "type", "text") if block["type"] == "text" else media.other_fields(block)
            )
    notes: dict[str, Any] = {"parts": fields} if any(fields) else {}
    return parts, notes | ({"blocks": placed} if placed else {})


def _text_part(block: Block) -> Block:
    return {"type": "text", "text": block["text"]}


class Media:
    """Images and recordings: `data:` URLs, or files next to the document."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self.files: dict[str, bytes] = {}

    def part(self, block: Block) -> Block | None:
        """Return the part of an image or a recording; None if ATIF does not accept its type or place."""
        kind = _kind_of_media(block)
        source = block.get("source") or {}
        media_type = _media_type(block)
        if kind is None or media_type not in MEDIA_TYPES[kind]:
            return None
        path = self._path(source, media_type)
        if path is None:
            return None
        return {"type": kind, "source": {"media_type": media_type, "path": path}}

    def other_fields(self, block: Block) -> Block:
        """Return the fields of an image or a recording that its part does not have."""
        source = block["source"]
        kept = {"type", "media_type", "data" if source["type"] == "base64" else "url"}
        is_whole = source.keys() <= kept and source.get("media_type") == _media_type(block)
        return without(block, "type", *(("source",) if is_whole or source["type"] == "base64" else ()))

    def _path(self, source: Block, media_type: str) -> str | None:
        data, url = source.get("data"), source.get("url")
        if source.get("type") == "url" and isinstance(url, str) and not url.startswith("data:"):
            return url
        content = _decoded(data) if source.get("type") == "base64" else None
        if content is None:
            return None
        if self._folder is None:
            return f"data:{media_type};base64,{data}"
        path = f"{self._folder}/{len(self.files) + 1}.{media_type.partition('/')[2]}"
        self.files[path] = content
        return path


def _kind_of_media(block: Block) -> Literal["audio", "image"] | None:
    if block["type"] == "image":
        return "image"
    return "audio" if is_audio(block) else None


def _media_type(block: Block) -> str:
    declared = (block.get("source") or {}).get("media_type") or block.get("mimeType") or ""
    name = declared.strip().lower()
    return _MEDIA_TYPE_ALIASES.get(name, name)


def _decoded(data: Any) -> bytes | None:
    """Return the bytes of base64 text in its usual form, which gives the same text again."""
    try:
        content = b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return None
    return content if b64encode(content).decode() == data else None


def metrics_of(message: StandardMessage) -> Block | None:
    """Return the usage and cost of an answer. The prompt includes tokens that were read from or written to a cache."""
    cost = message.metadata.cost_usd
    counts = {} if message.usage is None else _counts(message.usage)
    metrics = {**counts, **({} if cost is None else {"cost_usd": cost})}
    return metrics or None


def _counts(usage: StandardTokenUsage) -> Block:
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    extra = {"cache_creation_input_tokens": written, "reasoning_tokens": usage.reasoning_tokens}
    known = {name: count for name, count in extra.items() if count is not None}
    return {
        "prompt_tokens": usage.input_tokens + (read or 0) + (written or 0),
        "completion_tokens": usage.output_tokens,
        **({} if read is None else {"cached_tokens": read}),
        **({"extra": known} if known else {}),
    }


def _iso_time(milliseconds: int | None) -> str | None:
    """Return a time as ISO 8601; None if it is unknown or out of range."""
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (OSError, OverflowError, ValueError):
        return None
