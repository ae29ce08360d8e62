"""Grok Build: the history of a session, `chat_history.jsonl`.

Sources: files of other projects. Lines have no ids and no times. `updates.jsonl` beside the history repeats it as
updates of the Agent Client Protocol, with times; its lines are known, and not part of the conversation.
"""

import re
from collections.abc import Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    content_parser,
    parse_content,
    pick,
    renamed,
    translate,
    translated,
    with_extra,
    with_extra_in_first,
    without,
)
from ash_shared.model.message import RecordHeader
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    control_record,
    unknown_record,
)
from ash_shared.records.fingerprints import ENVELOPE_KEYS, body_keys, is_grok_line
from ash_shared.records.json_fields import (
    input_at,
    is_integer,
    list_or_empty,
    text_at,
    to_milliseconds,
    url_source,
    value_at,
)
from ash_shared.records.steps import Origin, Step, TurnEnd


def _translate_image(part: Record) -> Block:
    return translated(part, {"type": "image", "source": url_source(part["url"])}, {"url"}, "image")


parse_block = content_parser({"image": _translate_image})


def _parse_system(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "system", translate("system", record, _translate_texts))


def _parse_user(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "user", translate("user", record, _translate_texts))


def _translate_texts(record: Record) -> list[Block]:
    blocks = [_without_tags(block) for block in parse_content(record["content"], parse_block)]
    rest = without(record, "type", "content")
    return with_extra_in_first(blocks, rest)


def _without_tags(block: Block) -> Block:
    """Return the text of the person, with the text that the model received in `extra`."""
    match = _QUERY.fullmatch(block["text"]) if block["type"] == "text" else None
    return block if match is None else with_extra({**block, "text": match[1]}, {"text": block["text"]})


_QUERY = re.compile(r"\s*<user_query>\s*(.*?)\s*</user_query>\s*", re.DOTALL)
_CONTEXT = re.compile(r"\s*<(?:user_info|system-reminder|environment_context)>")


def _user_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    first = parsed.blocks[0] if parsed.blocks else {}
    is_context = "synthetic_reason" in record or _CONTEXT.match(text_at(first, "text") or "") is not None
    origin: Origin = "synthetic" if is_context else "prompt"
    return [Part(role="user", blocks=parsed.blocks, origin=origin)]


def _user_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """End the turn before, if the line states that the person interrupted it."""
    is_interrupted = text_at(record, "prior_turn_interrupt") is not None
    ends: list[Step] = [TurnEnd("user_cancel", mode="if_open")] if is_interrupted else []
    return [*ends, *_user_parts(record, parsed)]


def _parse_reasoning(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "assistant", translate("reasoning", record, _translate_reasoning))


def _translate_reasoning(record: Record) -> Block:
    """Return the summary as one text; several parts also stay in `extra`."""
    parts = record["summary"]
    typed = {"type": "thinking", "thinking": "\n\n".join(part["text"] for part in parts), "is_summary": True}
    data = renamed(record, data="encrypted_content") if text_at(record, "encrypted_content") else {}
    consumed = {*(("encrypted_content",) if data else ()), *(("summary",) if len(parts) == 1 else ())}
    return translated(record, {**typed, **data}, consumed, "reasoning")


def _parse_answer(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "assistant", translate("assistant", record, _translate_answer))


def _translate_answer(record: Record) -> list[Block]:
    """Return text and calls. Empty text has no block."""
    content = record["content"]
    texts = [] if content == "" else parse_content(content, parse_block)
    blocks = [*texts, *map(_translate_call, list_or_empty(record.get("tool_calls")))]
    rest = without(record, "type", "content", "tool_calls", "model_id")
    return with_extra_in_first(blocks, rest)


def _translate_call(call: Record) -> Block:
    arguments, consumed = input_at(call, "arguments")
    typed = {"type": "tool_use", **pick(call, "id"), "name": call["name"], "input": arguments}
    return translated(call, typed, {"id", "name", *consumed}, "tool_call")


def _answer_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of an answer. The lines of its reasoning and its calls of server tools come before it."""
    metadata = {"model": text_at(record, "model_id")}
    return [Part(role="assistant", blocks=parsed.blocks, metadata=metadata, relation="continuation")]


def _parse_result(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "tool", translate("tool_result", record, _translate_result))


def _translate_result(record: Record) -> Block:
    typed = {"type": "tool_result", "tool_use_id": record["tool_call_id"], "content": record["content"]}
    if isinstance(record["content"], list):
        typed["content"] = parse_content(record["content"], parse_block)
    return translated(record, typed, {"tool_call_id", "content"}, "tool_result")


def _parse_server_call(record: Record) -> ParsedRecord:
    return ParsedRecord(
        "message", "assistant", translate("backend_tool_call", record, _translate_server_call)
    )


def _translate_server_call(record: Record) -> list[Block]:
    """Return a call of a tool that ran at the vendor. Of its result, the history contains the sources of a search."""
    call = record["kind"]
    typed = {
        "type": "tool_use",
        **pick(call, "id", "status"),
        "name": call["tool_type"],
        "input": call["action"],
        "executor": "server",
    }
    block = translated(call, typed, {"action", "id", "status", "tool_type"}, "backend_tool_call")
    block = with_extra(block, without(record, "type", "kind"))
    sources = value_at(call, "action", "sources")
    if sources is None:
        return [block]
    result = {"type": "tool_result", **renamed(call, tool_use_id="id"), "structured": sources}
    return [block, {**result, "source_type": "backend_tool_call"}]


def _is_update(record: Record) -> bool:
    """Return True for a line of `updates.jsonl`: a notification of the protocol without its version, with a time."""
    return (
        record.get("method") == "session/update"
        and is_integer(record.get("timestamp"))
        and "jsonrpc" not in record
        and isinstance(value_at(record, "params", "update"), dict)
    )


def _is_summary(record: Record) -> bool:
    """Return True for `summary.json`."""
    is_summary = "chat_format_version" in record and isinstance(value_at(record, "info", "id"), str)
    return is_summary and body_keys(record) <= {"info"}


def header(record: Record) -> RecordHeader:
    if _is_summary(record):
        return RecordHeader(
            timestamp=to_milliseconds(record.get("created_at")),
            session_id=text_at(record, "info", "id"),
            model=text_at(record, "current_model_id"),
            title=text_at(record, "generated_title") or text_at(record, "session_summary"),
            folder=text_at(record, "info", "cwd"),
            branch=text_at(record, "head_branch"),
        )
    return RecordHeader(
        timestamp=to_milliseconds(record.get("timestamp")),
        session_id=text_at(record, "params", "sessionId"),
        model=text_at(record, "model_id"),
    )


TYPES: Mapping[str, WireType] = {
    "assistant": WireType(_parse_answer, _answer_parts, matches=is_grok_line),
    "backend_tool_call": WireType(
        _parse_server_call,
        _answer_parts,
        matches=lambda record: isinstance(record.get("kind"), dict) and ENVELOPE_KEYS.isdisjoint(record),
    ),
    "reasoning": WireType(_parse_reasoning, _answer_parts, matches=lambda record: False),
    "system": WireType(_parse_system, matches=is_grok_line),
    "tool_result": WireType(_parse_result, matches=is_grok_line),
    "user": WireType(_parse_user, _user_parts, _user_steps, matches=is_grok_line),
}
"""Lines by `type`. A line with reasoning is also an item of OpenAI's Responses API, which recognises it."""
_UPDATE = WireType(lambda record: control_record(record, "session/update"))
_SUMMARY = WireType(lambda record: control_record(record, "summary"))
_UNKNOWN = WireType(unknown_record)


def wire_type(record: Record) -> WireType:
    row = TYPES.get(text_at(record, "type") or "")
    return row or (_UPDATE if _is_update(record) else _SUMMARY if _is_summary(record) else _UNKNOWN)


def recognize(record: Record) -> WireType | None:
    name: Any = record.get("type")
    if isinstance(name, str):
        row = TYPES.get(name)
        return row if row is not None and row.matches(record) else None
    if body_keys(record) == {"method"} and _is_update(record):
        return _UPDATE
    return _SUMMARY if _is_summary(record) else None


PROVIDER = Provider(
    source="grok_build",
    recognize=recognize,
    marks=Marks(TYPES, untyped_keys={"chat_format_version", "method"}, body_keys={"info", "method"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
)
