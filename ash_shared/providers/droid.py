"""Sessions of Droid, Factory's command-line program, and the stream of `droid exec --output-format stream-json`.

Source: fixtures of a reader. The messages of a session have the blocks of Anthropic's API. In the stream, a call and a
result are lines of their own, times are in milliseconds or texts, and `completion` repeats the last text.
"""

from collections.abc import Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    content_parser,
    parse_content,
    renamed,
    text_block,
    translate,
    translated,
)
from ash_shared.model.message import Identity, RecordHeader
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
from ash_shared.records.fingerprints import ENVELOPE_KEYS, PI_MESSAGE_KEYS, has_tool_blocks, is_droid_line
from ash_shared.records.json_fields import (
    count_at,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
)
from ash_shared.records.steps import Step, TurnEnd

_ROLES = frozenset({"assistant", "system", "user"})
_ENVELOPE = ("type", "id", "session_id", "sessionId", "timestamp", "messageId")

parse_block = content_parser({})


# Sessions.


def _parse_message(record: Record) -> ParsedRecord:
    if "text" in record:
        return _parse_text(record)
    message = record["message"]
    blocks = translate("message", message, lambda each: parse_content(each["content"], parse_block))
    has_results = bool(blocks) and all(block["type"] == "tool_result" for block in blocks)
    return ParsedRecord("message", "tool" if has_results else message["role"], blocks)


def _parse_text(record: Record) -> ParsedRecord:
    block = translated(record, text_block(record["text"]), (*_ENVELOPE, "role", "text"), "message")
    return ParsedRecord("message", record["role"], [block])


def _message_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    role = "user" if parsed.role == "tool" else parsed.role
    return [Part(role=role, blocks=parsed.blocks, relation="new" if "message" in record else _relation(role))]


def _relation(role: str) -> Any:
    return "continuation" if role == "assistant" else "new"


def _parse_compaction(record: Record) -> ParsedRecord:
    summary = record.get("summary", record.get("summaryText"))
    consumed = (*_ENVELOPE, "summary", "summaryText")
    block = translated(record, text_block(summary, "summary"), consumed, "compaction_state")  # type: ignore[arg-type]
    return ParsedRecord("message", "system", [block])


# The stream.


def _parse_call(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "assistant", translate("tool_call", record, _translate_call))


def _translate_call(record: Record) -> Block:
    id = "toolCallId" if "toolCallId" in record else "id"
    typed = {
        "type": "tool_use",
        **renamed(record, id=id),
        "name": record["toolName"],
        "input": record["parameters"],
    }
    return translated(record, typed, (*_ENVELOPE, "toolCallId", "toolName", "parameters"), "tool_call")


def _call_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="assistant", blocks=parsed.blocks, relation="continuation")]


def _parse_result(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "tool", translate("tool_result", record, _translate_result))


def _translate_result(record: Record) -> Block:
    id = "toolCallId" if "toolCallId" in record else "id"
    is_error = record.get("isError") is True or record.get("error") is not None
    typed = {
        "type": "tool_result",
        **renamed(record, tool_use_id=id),
        "content": record["value"] if "value" in record else record["error"],
        **({"is_error": True} if is_error else {}),
    }
    consumed = (*_ENVELOPE, "toolCallId", "value", "isError", *(() if "value" in record else ("error",)))
    return translated(record, typed, consumed, "tool_result")


def _parse_completion(record: Record) -> ParsedRecord:
    block = translated(
        record, text_block(record["finalText"]), (*_ENVELOPE, "finalText", "usage"), "completion"
    )
    return ParsedRecord("message", "assistant", [block])


def _completion_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    usage = record.get("usage")
    counts = token_usage(
        usage,
        input=count_at(usage, "input_tokens"),
        output=count_at(usage, "output_tokens"),
        cache_read=count_at(usage, "cache_read_input_tokens"),
        cache_creation=count_at(usage, "cache_creation_input_tokens"),
    )
    return [Part(role="assistant", blocks=parsed.blocks, relation="turn_end", usage=counts)]


def _parse_error(record: Record) -> ParsedRecord:
    block = translated(record, text_block(record["message"], "error"), (*_ENVELOPE, "message"), "error")
    return ParsedRecord("message", "system", [block])


def _error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="system", blocks=parsed.blocks, error=message_error("error", record["message"]))]


def _error_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [Part(role=None, error=message_error("error", record["message"])), TurnEnd(mode="if_open")]


# Records.


def _has_session(record: Record) -> bool:
    """True for a line of the stream."""
    session = record.get("session_id", record.get("sessionId"))
    is_named = isinstance(session, str) and isinstance(record.get("timestamp"), str | int)
    return is_named and _NOT_STREAM_KEYS.isdisjoint(record)


_NOT_STREAM_KEYS = frozenset(
    {
        *("arguments", "call_id", "content", "function", "message", "name", "result", "tool_call", "turnId"),
        *("output", "parentUuid", "tool_id", "uuid"),
    }
)
"""Keys of lines with the same types in other formats."""


def _is_message(record: Record) -> bool:
    message = record.get("message")
    if message is None:
        return (
            _has_session(record)
            and isinstance(record.get("text"), str)
            and record.get("role") in ("user", "assistant")
        )
    is_entry = isinstance(record.get("id"), str) and isinstance(record.get("timestamp"), str)
    is_own = (
        isinstance(message, dict)
        and text_at(message, "role") in _ROLES
        and isinstance(message.get("content"), list)
    )
    is_of_pi = "parentId" in record and isinstance(message, dict) and not has_tool_blocks(message)
    is_foreign = is_own and (is_of_pi or "type" in message or not PI_MESSAGE_KEYS.isdisjoint(message))
    return is_entry and is_own and not is_foreign


def _is_call(record: Record) -> bool:
    return _has_session(record) and "toolName" in record and "parameters" in record


def _is_result(record: Record) -> bool:
    has_id = "toolCallId" in record or "toolId" in record
    return _has_session(record) and has_id and ("value" in record or "error" in record)


def _is_start(record: Record) -> bool:
    return isinstance(record.get("id"), str) and isinstance(record.get("title", record.get("cwd")), str)


TYPES: Mapping[str, WireType] = {
    "compaction_state": WireType(_parse_compaction),
    "completion": WireType(
        _parse_completion,
        _completion_parts,
        matches=lambda record: _has_session(record) and "finalText" in record,
    ),
    "error": WireType(_parse_error, _error_parts, _error_steps, matches=is_droid_line),
    "message": WireType(_parse_message, _message_parts, matches=_is_message),
    "session_end": WireType(control_record),
    "session_start": WireType(control_record, matches=_is_start),
    "system": WireType(control_record, matches=is_droid_line),
    "todo_state": WireType(control_record),
    "tool_call": WireType(_parse_call, _call_parts, matches=_is_call),
    "tool_result": WireType(_parse_result, matches=_is_result),
}
_UNKNOWN = WireType(lambda record: unknown_record(record))
_FOREIGN_KEYS = frozenset(
    ENVELOPE_KEYS
    | {
        *("apiKeySource", "parent_tool_use_id", "part", "permissionMode", "sequence_number", "severity"),
        "tool_use_id",
    }
)


def recognize(record: Record) -> WireType | None:
    name = record.get("type")
    row = TYPES.get(name) if isinstance(name, str) else None
    return row if row is not None and row.matches(record) and _FOREIGN_KEYS.isdisjoint(record) else None


def wire_type(record: Record) -> WireType:
    return TYPES.get(text_at(record, "type") or "", _UNKNOWN)


def header(record: Record) -> RecordHeader:
    is_start = text_at(record, "type") == "session_start"
    session = record["session"] if isinstance(record.get("session"), dict) else record
    named = text_at(record, "session_id") or text_at(record, "sessionId")
    return RecordHeader(
        uuid=text_at(record, "id") if "message" in record else None,
        timestamp=to_milliseconds(record.get("timestamp")),
        session_id=text_at(session, "id") if is_start else named,
        title=text_at(session, "sessionTitle") or text_at(session, "title") if is_start else None,
        folder=text_at(session, "cwd"),
        model=text_at(record, "model"),
        client_version=text_at(session, "version") if is_start else None,
    )


def identify(record: Record) -> Identity:
    is_start = text_at(record, "type") == "session_start"
    return (
        Identity(body="")
        if is_start
        else Identity(record=text_at(record, "id") if "message" in record else None)
    )


PROVIDER = Provider(
    source="droid",
    recognize=recognize,
    marks=Marks(TYPES, foreign_keys=_FOREIGN_KEYS),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
