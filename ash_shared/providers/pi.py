"""pi: the events of `pi --mode json`, and the entries of its session files.

Sources: the message types of pi's `ai` and `coding-agent` packages, its description of session files, and
captured events. A response is written when it starts, with every delta, when it ends, and again at the end of its
turn and of the run. It is taken from the event that ends the response; the other events are chunks or control records.

A turn in pi is one response with its tool calls; a turn in Ash is a run of the agent. A failed run is retried as
another run without a user message.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    Translation,
    is_native,
    parse_content,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.message import Identity, RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    chunk_record,
    control_record,
    unknown_record,
)
from ash_shared.records.fingerprints import ENVELOPE_KEYS, PI_MESSAGE_KEYS, body_keys, has_tool_blocks
from ash_shared.records.inherited import with_continuation
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    first_text,
    input_at,
    is_integer,
    list_or_empty,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import (
    Chunk,
    ChunkEnd,
    ResponseEnd,
    ResponseStart,
    Step,
    TurnEnd,
    TurnStart,
    keyed_relation,
)


def parse_block(block: Any) -> Block:
    if isinstance(block, str):
        return text_block(block)
    if is_native(block) and "thinkingSignature" not in block:
        return block
    wire_type = text_at(block, "type")
    if wire_type is None or wire_type not in _TRANSLATIONS:
        return raw_block("malformed" if wire_type in _NATIVE_TYPES else "unknown_type", block, wire_type)
    return translate(wire_type, block, _TRANSLATIONS[wire_type])[0]


def _translate_thinking(block: Record) -> Block:
    """Translate thinking with its signature, which is `thinkingSignature` in pi."""
    typed = {"type": "thinking", "thinking": block["thinking"], "signature": block["thinkingSignature"]}
    names = ("thinking", "thinkingSignature", "redacted")
    return translated(block, {**typed, **pick(block, "redacted")}, names, "thinking")


def _translate_call(block: Record) -> Block:
    arguments, consumed = input_at(block, "arguments")
    typed = {"type": "tool_use", **pick(block, "id"), "name": block["name"], "input": arguments}
    return translated(block, typed, ("id", "name", *consumed), "toolCall")


def _translate_image(block: Record) -> Block:
    source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
    return translated(block, {"type": "image", "source": source}, ("mimeType", "data"), "image")


_NATIVE_TYPES = frozenset({"text", "tool_use", "tool_result", "file", "raw"})

_TRANSLATIONS: Mapping[str, Translation] = {
    "image": _translate_image,
    "thinking": _translate_thinking,
    "toolCall": _translate_call,
}


def _parse_content(message: Record) -> list[Block]:
    return parse_content(message["content"], parse_block)


def _parse_tool_result(message: Record) -> list[Block]:
    """Parse a tool result; `details`, which pi shows to the user, become `structured`."""
    typed = {
        "type": "tool_result",
        "content": parse_content(message["content"], parse_block),
        **renamed(message, tool_use_id="toolCallId", is_error="isError", structured="details"),
    }
    consumed = {"role", "toolCallId", "content", "isError", "details", "timestamp"}
    return [translated(message, typed, consumed, text_at(message, "role") or "tool_execution_end")]


def _parse_shell(message: Record) -> list[Block]:
    call = {"type": "tool_use", "name": "bash", "input": {"command": message["command"]}, "executor": "user"}
    code = message.get("exitCode")
    exit_code = {"exit_code": code} if is_integer(code) else {}
    result = {"type": "tool_result", "content": message["output"], **exit_code}
    consumed = {"role", "command", "output", "exitCode", "timestamp"}
    return [{**call, "source_type": "bashExecution"}, translated(message, result, consumed, "bashExecution")]


def _parse_custom(message: Record) -> list[Block]:
    """Parse the content added by an extension; its other keys go to the first block."""
    blocks = parse_content(message["content"], parse_block)
    consumed = {"content", "role", "timestamp", *_ENVELOPE}
    rest = without(message, *consumed)
    return [with_extra({**block, "source_type": "custom"}, rest) for block in blocks[:1]] + blocks[1:]


_ENVELOPE = frozenset({"type", "id", "parentId", "timestamp"})


def _translate_summary(message: Record) -> list[Block]:
    consumed = {"summary", "role", *_ENVELOPE}
    wire_type = text_at(message, "role") or text_at(message, "type") or "summary"
    return [translated(message, text_block(message["summary"], "summary"), consumed, wire_type)]


_MESSAGE_READERS: Mapping[Any, tuple[Role, Callable[[Record], list[Block]]]] = {
    "assistant": ("assistant", _parse_content),
    "bashExecution": ("user", _parse_shell),
    "branchSummary": ("user", _translate_summary),
    "compactionSummary": ("user", _translate_summary),
    "custom": ("user", _parse_custom),
    "hookMessage": ("user", _parse_custom),
    "system": ("system", _parse_content),
    "toolResult": ("tool", _parse_tool_result),
    "user": ("user", _parse_content),
}
"""Role and content parser of a message, by its `role`."""


def _parse_message(record: Record) -> ParsedRecord:
    """Parse a complete message: from the event that ends it, or from a session entry."""
    message = record["message"]
    name = text_at(message, "role")
    if name is None or name not in _MESSAGE_READERS:
        return unknown_record(record, name)
    role, translation = _MESSAGE_READERS[name]
    return ParsedRecord("message", role, translate(name, message, translation))


def _parse_execution(record: Record) -> ParsedRecord:
    """Parse a tool result from the end of the tool's execution; a later message to the model repeats the result."""
    message = {**record["result"], **pick(record, "toolCallId", "toolName", "isError")}
    return ParsedRecord("message", "tool", translate("tool_execution_end", message, _parse_tool_result))


def _parse_summary(record: Record) -> ParsedRecord:
    return ParsedRecord("record", "system", translate(record["type"], record, _translate_summary))


def _parse_compaction_end(record: Record) -> ParsedRecord:
    if text_at(record, "result", "summary") is None:
        return _parse_control(record)
    summary = {"type": record["type"], **record["result"]}
    return ParsedRecord("record", "system", translate(record["type"], summary, _translate_summary))


def _parse_custom_entry(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "user", translate(record["type"], record, _parse_custom))


def _parse_control(record: Record) -> ParsedRecord:
    return control_record(record, text_at(record, "type"))


def _is_message(message: Any) -> bool:
    """Return True for a message of pi. Claude's stream has the same event types, but its messages have a `type`."""
    return (
        isinstance(message, dict)
        and message.get("type") != "message"
        and isinstance(message.get("role"), str)
        and message["role"] in _MESSAGE_READERS
        and not PI_MESSAGE_KEYS.isdisjoint(message)
    )


def _has_message(record: Record) -> bool:
    return _is_message(record.get("message"))


def _is_entry(record: Record) -> bool:
    """Return True for a session entry: it refers to the previous entry, or is from version 1, which has no ids."""
    if "parentId" in record:
        return isinstance(record.get("id"), str)
    return (
        "id" not in record and isinstance(record.get("timestamp"), str) and record.keys() >= _own_keys(record)
    )


def _own_keys(record: Record) -> frozenset[str]:
    """Return the required keys of a version 1 entry, besides `type` and `timestamp`."""
    return _V1_KEYS.get(record["type"], frozenset({"parentId"}))


_V1_KEYS: Mapping[str, frozenset[str]] = {
    "compaction": frozenset({"summary", "tokensBefore"}),
    "message": frozenset({"message"}),
    "model_change": frozenset({"provider", "modelId"}),
    "thinking_level_change": frozenset({"thinkingLevel"}),
}
"""The required keys of version 1 entries, by type; other types are newer."""


def _is_message_entry(record: Record) -> bool:
    message = record.get("message")
    if not _is_entry(record) or not isinstance(message, dict):
        return False
    is_linked = "parentId" in record and not has_tool_blocks(message)
    is_own = is_linked or (len(record) == len(_V1_MESSAGE) and "timestamp" in message)
    return is_own and text_at(message, "role") in _MESSAGE_READERS


_V1_MESSAGE = ("type", "timestamp", "message")


def _is_bare(record: Record) -> bool:
    return record.keys() <= {"type", "timestamp"}


def _has_attempt(record: Record) -> bool:
    return "attempt" in record


def _has_call(record: Record) -> bool:
    return "toolCallId" in record and "toolName" in record


def _is_update(record: Record) -> bool:
    return "assistantMessageEvent" in record or _has_message(record)


def header(record: Record) -> RecordHeader:
    wire_type = text_at(record, "type")
    message = record if wire_type is None else record.get("message")
    is_session = wire_type == "session"
    mark = value_at(record, "data", "ash") if wire_type == "custom" else record.get("ash")
    found = RecordHeader(
        uuid=text_at(record, "id") if "parentId" in record else None,
        timestamp=to_milliseconds(value_at(message, "timestamp")) or to_milliseconds(record.get("timestamp")),
        session_id=text_at(record, "id") if is_session else None,
        model=text_at(message, "model")
        or (text_at(record, "modelId") if wire_type == "model_change" else None),
        title=text_at(record, "name") if wire_type == "session_info" else None,
        parent=_parent_session(record) if is_session else None,
        folder=text_at(record, "cwd") if is_session else None,
    )
    return with_continuation(found, mark)


def identify(record: Record) -> Identity:
    """Return the names of a line. A fork states the file of its origin and copies entries with their ids."""
    if text_at(record, "type") != "session":
        return Identity(record=text_at(record, "id") if "parentId" in record else None)
    return Identity(project=text_at(record, "cwd"), origin=_parent_session(record), body="")


def _parent_session(first_line: Record) -> str | None:
    """Return the id of the session that this one branched from; version 1 has its file as `branchedFrom`."""
    return _session_id_in(first_text(first_line, ("parentSession", "branchedFrom")))


def _session_id_in(path: str | None) -> str | None:
    """Return the id in the name of a session file, `<time>_<id>.jsonl`."""
    match = _SESSION_FILE.search(path or "")
    return match[1] if match else None


_SESSION_FILE = re.compile(r"_([0-9a-f-]{36})\.jsonl$")


def _summary_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    return [Part(role="system", blocks=texts)] if texts else []


def _message_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    wire_type = text_at(record, "type")
    message = record if wire_type is None else record.get("message") or record
    if parsed.role == "tool":
        return [_result_part(message, parsed)]
    if parsed.role == "user":
        synthetic = wire_type == "custom_message" or message.get("role") != "user"
        return [Part(role="user", blocks=parsed.blocks, origin="synthetic" if synthetic else "prompt")]
    if parsed.role == "system":
        return [Part(role="system", blocks=parsed.blocks)]
    return [_response_part(message, parsed)]


def _result_part(message: Record, parsed: ParsedRecord) -> Part:
    """Return the part of a tool result, written when the tool ends and again in a message, which replaces it."""
    id = text_at(message, "toolCallId")
    return Part(role="user", blocks=parsed.blocks, key=id, relation=keyed_relation(id))


def _response_part(message: Record, parsed: ParsedRecord) -> Part:
    return Part(
        role="assistant",
        blocks=parsed.blocks,
        usage=_standard_usage(message.get("usage")),
        cost=cost_at(message, "usage", "cost", "total"),
        message_id=text_at(message, "responseId"),
        metadata={"model": text_at(message, "model"), "stop_reason": text_at(message, "stopReason")},
        error=_standard_error(message),
    )


def _standard_usage(usage: Any) -> Block | None:
    """Return the usage. Input excludes cached tokens, output includes reasoning."""
    return token_usage(
        usage,
        input=count_at(usage, "input"),
        output=count_at(usage, "output"),
        cache_read=count_at(usage, "cacheRead"),
        cache_creation=count_at(usage, "cacheWrite"),
        reasoning=count_at(usage, "reasoning"),
    )


def _standard_error(message: Record) -> Block | None:
    reason, text = text_at(message, "stopReason"), text_at(message, "errorMessage")
    if text is None and reason not in ("error", "aborted"):
        return None
    return message_error(reason or "error", text)


def _message_steps(record: Record, parsed: ParsedRecord) -> list[Step] | None:
    """Return the steps of a message in any record. For session entries these include the end of the response."""
    if parsed.kind != "message":
        return None
    message = record.get("message") or record
    make_steps = _STEPS_BY_ROLE.get(text_at(message, "role"))
    return make_steps(record, parsed) if make_steps else None


def _response_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    [part] = _message_parts(record, parsed)
    reason = text_at(part.metadata, "stop_reason")
    if reason != "aborted":
        return [part, ChunkEnd(), ResponseEnd()]
    return [replace(part, error=None), TurnEnd("user_cancel")]


def _shell_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Represent a command of the user as a call with its result."""
    call, result = parsed.blocks
    return [Part(role="assistant", blocks=[call]), Part(role="user", blocks=[result])]


_STEPS_BY_ROLE: Mapping[Any, Callable[[Record, ParsedRecord], list[Step]]] = {
    "assistant": _response_steps,
    "bashExecution": _shell_steps,
}


def _start_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    message = record["message"]
    is_response = text_at(message, "role") == "assistant"
    return [ResponseStart(text_at(message, "responseId"))] if is_response else []


def _update_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the steps of a delta. A completed block is not emitted before the message, which contains it."""
    event = record["assistantMessageEvent"]
    wire_type, slot = event["type"], str(event.get("contentIndex"))
    kind, _, state = wire_type.rpartition("_")
    if kind not in _KINDS:
        return []
    if state == "end":
        text = text_at(event, "content")
        return [ChunkEnd(slot, text=text, wait_for_part=True)]
    message = record.get("message") or event.get("partial")
    block = _block_at(message, event.get("contentIndex"))
    names = {"id": text_at(block, "id"), "name": text_at(block, "name")}
    call = {**names, "input": value_at(block, "arguments")}
    chunk = Chunk(_KINDS[kind], text_at(event, "delta") or "", slot, call=call)
    return [ResponseStart(text_at(message, "responseId"), begins="if_none_open"), chunk]


_KINDS: Mapping[str, Literal["text", "thinking", "input"]] = {
    "text": "text",
    "thinking": "thinking",
    "toolcall": "input",
}


def _block_at(message: Any, index: Any) -> Any:
    content = list_or_empty(value_at(message, "content"))
    return content[index] if is_integer(index) and 0 <= index < len(content) else None


def _execution_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the steps of a running call, which usually was already emitted with its response."""
    id, name = text_at(record, "toolCallId"), text_at(record, "toolName")
    call = {"type": "tool_use", "id": id, "name": name, "input": record.get("args")}
    return [Part(role="assistant", blocks=[call], relation="revision")] if name is not None else []


def _output_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the tool output so far; nothing if pi truncated its start, so that the new text cannot be determined."""
    output = record["partialResult"]
    if value_at(output, "details", "truncation") is not None:
        return []
    texts = [text_at(block, "text") for block in list_or_empty(output["content"])]
    text = "".join(text for text in texts if text is not None)
    id = text_at(record, "toolCallId")
    return [Chunk("output_so_far", text, call={"id": id, "name": text_at(record, "toolName")})]


def _compaction_steps(record: Record, parsed: ParsedRecord) -> list[Step] | None:
    part_steps: list[Step] = [*_summary_parts(record, parsed)]
    return part_steps + ([_RETRY] if record.get("willRetry") is True else []) or None


_RETRY = TurnStart(trigger="system")
"""Begins a turn of its own, although no prompt follows."""


_COMPACTION_END = WireType(
    _parse_compaction_end, _summary_parts, _compaction_steps, matches=lambda record: "aborted" in record
)
_CONTROL_ENTRY = WireType(_parse_control, matches=_is_entry)
_SUMMARY = WireType(_parse_summary, _summary_parts, matches=_is_entry)

TYPES: Mapping[str, WireType] = {
    "agent_end": WireType(
        _parse_control,
        steps=lambda record, parsed: [TurnEnd()],
        matches=lambda record: isinstance(record.get("messages"), list),
    ),
    "agent_settled": WireType(_parse_control, matches=_is_bare),
    "agent_start": WireType(_parse_control, steps=lambda record, parsed: [TurnStart()], matches=_is_bare),
    "auto_compaction_end": _COMPACTION_END,
    "auto_compaction_start": WireType(_parse_control, matches=lambda record: "reason" in record),
    "auto_retry_end": WireType(
        _parse_control, steps=lambda record, parsed: [TurnEnd()], matches=_has_attempt
    ),
    "auto_retry_start": WireType(_parse_control, steps=lambda record, parsed: [_RETRY], matches=_has_attempt),
    "branch_summary": _SUMMARY,
    "child_usage_attributed": _CONTROL_ENTRY,  # of Prime Agent: the usage of a subagent, which is not the message's
    "compaction": _SUMMARY,
    "compaction_end": _COMPACTION_END,
    "compaction_start": WireType(_parse_control, matches=lambda record: record.keys() == {"type", "reason"}),
    "custom": _CONTROL_ENTRY,
    "custom_message": WireType(_parse_custom_entry, _message_parts, matches=_is_entry),
    "extension_error": WireType(_parse_control, matches=lambda record: False),
    "label": _CONTROL_ENTRY,
    "message": WireType(_parse_message, _message_parts, _message_steps, matches=_is_message_entry),
    "message_end": WireType(_parse_message, _message_parts, _message_steps, matches=_has_message),
    "message_start": WireType(chunk_record, steps=_start_steps, matches=_has_message),
    "message_update": WireType(chunk_record, steps=_update_steps, matches=_is_update),
    "model_change": _CONTROL_ENTRY,
    "queue_update": WireType(
        _parse_control, matches=lambda record: {"steering", "followUp"} <= record.keys()
    ),
    "session": WireType(_parse_control, matches=lambda record: {"id", "cwd", "timestamp"} <= record.keys()),
    "session_info": _CONTROL_ENTRY,
    "thinking_level_change": _CONTROL_ENTRY,
    "tool_execution_end": WireType(_parse_execution, _message_parts, matches=_has_call),
    "tool_execution_start": WireType(_parse_control, steps=_execution_steps, matches=_has_call),
    "tool_execution_update": WireType(chunk_record, steps=_output_steps, matches=_has_call),
    "turn_end": WireType(_parse_control, matches=_has_message),
    "turn_start": WireType(_parse_control, matches=_is_bare),
}
"""Events and session entries by `type`."""
_BARE_MESSAGE = WireType(lambda record: _parse_message({"message": record}), _message_parts, _message_steps)
_UNKNOWN = WireType(lambda record: unknown_record(record, text_at(record, "type")))


def wire_type(record: Record) -> WireType:
    name = text_at(record, "type")
    if name is None and text_at(record, "role") in _MESSAGE_READERS:
        return _BARE_MESSAGE
    return TYPES.get(name or "", _UNKNOWN)


def recognize(record: Record) -> WireType | None:
    """Return the row of an event of pi, a session entry, or a bare message that no other format writes."""
    name = record.get("type")
    if isinstance(name, str):
        row = TYPES.get(name)
        return row if row and row.matches(record) and _FOREIGN_KEYS.isdisjoint(record) else None
    is_own = "stopReason" in record and body_keys(record) == {"api"} and _is_message(record)
    return wire_type(record) if is_own else None


_FOREIGN_KEYS = ENVELOPE_KEYS | {"encrypted_content"}
"""Keys of records in other formats; a compaction of the Responses API is encrypted."""


PROVIDER = Provider(
    source="pi",
    recognize=recognize,
    marks=Marks(TYPES, foreign_keys=_FOREIGN_KEYS, untyped_keys={"stopReason"}, body_keys={"api"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
