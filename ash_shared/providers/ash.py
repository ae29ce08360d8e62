"""Ash's own records: chat events, standard messages and bare blocks.

A chat event is `{"id", "timestamp", "sessionId", "type", "payload", "turnId"?, "responseId"?}`; only its
payload is content. A standard message is recognised by its `_original`.

A valid event is added to the log unchanged except for its sequence numbers, which the log assigns. An invalid event
is emitted as a `raw` event.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from ash_shared.model.blocks import (
    CLASSES,
    Block,
    is_native,
    is_valid,
    parse_list,
    parse_nested,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    wire_name,
    with_extra,
    without,
)
from ash_shared.model.event_types import CATALOGUE, EventType
from ash_shared.model.events import EVENT_TYPES, blocks_of, failure_of, read_event, text_of_json
from ash_shared.model.message import Kind, RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    Speaker,
    WireType,
    chunk_record,
    control_record,
    single_message_part,
    unknown_record,
)
from ash_shared.records.fingerprints import ENVELOPE_KEYS, body_keys
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    is_one_of,
    list_or_empty,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Emit, Step

_ROLES: Mapping[str, Speaker] = {"assistant": "assistant", "system": "system", "user": "user"}

PayloadTranslation = Callable[[Block], Block | list[Block]]


def _text_translation(
    event: str, name: str = "text", *, variant: str | None = None
) -> Callable[[Block], Block]:
    def parse(payload: Block) -> Block:
        typed = {**text_block(text_of_json(payload[name]), variant), **pick(payload, "phase", "variant")}
        return _translated_payload(payload, typed, {name, "phase", "variant"}, event)

    return parse


def _translated_payload(payload: Block, typed: Block, consumed: set[str], event: str) -> Block:
    """Return the result of `translated` for a payload; its `type` is an ordinary key and goes to `extra`."""
    return with_extra(translated(payload, typed, consumed, event), pick(payload, "type"))


def _message_translation(event: str) -> Callable[[Block], list[Block]]:
    """Translate a message by its content blocks if it has any; the first has the other fields of the payload."""
    parse_text = _text_translation(event)

    def parse(payload: Block) -> list[Block]:
        if not isinstance(payload.get("content"), list):
            return [parse_text(payload)]
        content = parse_list(payload["content"], parse_block)
        first, *others = blocks_of({"text": payload["text"], "content": content})
        fields = pick(payload, "phase", "variant") if first["type"] == "text" else {}
        return [with_extra({**first, **fields}, without(payload, "text", "content", *fields)), *others]

    return parse


def _translate_user_audio(payload: Block) -> list[Block]:
    """Translate a spoken message to its transcription, unless that is unknown, and the recording."""
    if not isinstance(payload.get("content"), list):
        return [_parse_transcription(payload)]
    content = parse_list(payload["content"], parse_block)
    words = _parse_transcription(without(payload, "content"))
    if words["text"] or not content:
        return [words, *content]
    return [with_extra(content[0], without(payload, "content", "transcription")), *content[1:]]


_parse_transcription = _text_translation("user_audio", "transcription", variant="transcript")


def _translate_thinking(payload: Block) -> Block:
    names = ("signature", "redacted")
    typed = {"type": "thinking", "thinking": payload["text"], **pick(payload, *names)}
    return _translated_payload(payload, typed, {*names, "text"}, "thinking_done")


def _translate_call(payload: Block) -> Block:
    names = {"id": "toolCallId", "name": "toolName", "input": "args", "executor": "executor"}
    typed = {"type": "tool_use", **renamed(payload, **names)}
    return _translated_payload(payload, typed, set(names.values()), "tool_call")


def _translate_result(payload: Block) -> Block:
    names = {"tool_use_id": "toolCallId", "exit_code": "exitCode", "structured": "structured"}
    error_flag = {"is_error": True} if failure_of(payload) is not None else {}
    typed = {"type": "tool_result", **_result_content(payload), **renamed(payload, **names), **error_flag}
    return _translated_payload(payload, typed, {*names.values(), "result"}, "tool_result")


def _result_content(payload: Block) -> Block:
    """Return the content of a result; a list that contains no typed block is data and goes to `structured`."""
    failure = failure_of(payload)
    if payload.get("result") is None and failure is not None:
        return {"content": failure.message}
    result = payload["result"]
    if not isinstance(result, list):
        return {"content": result}
    blocks = parse_list(result, parse_block)
    is_data = "structured" not in payload and all(block["type"] == "raw" for block in blocks)
    return {"structured": result} if is_data and blocks else {"content": blocks}


_VARIANTS = {"error": "error", "summary": "summary"}
_PAYLOAD_TRANSLATIONS: Mapping[str, PayloadTranslation] = {
    **{
        name: _text_translation(name, row.text, variant=_VARIANTS.get(name))
        for name, row in CATALOGUE.items()
        if row.message_role is not None and row.text is not None
    },
    "assistant_done": _message_translation("assistant_done"),
    "thinking_done": _translate_thinking,
    "tool_call": _translate_call,
    "tool_result": _translate_result,
    "user_audio": _translate_user_audio,
    "user_message": _message_translation("user_message"),
}


def _event_parser(name: str, row: EventType) -> Callable[[Record], ParsedRecord]:
    if row.message_role is None:
        parsed = chunk_record if row.chunk_of else control_record
        return lambda record: parsed(record, name)
    role, translation = row.message_role, _PAYLOAD_TRANSLATIONS[name]
    kind: Kind = "record" if role == "system" else "message"
    return lambda record: ParsedRecord(kind, role, translate(name, record["payload"], translation))


def parse_block(block: Any) -> Block:
    """Parse one element of a content list; blocks outside Ash's vocabulary are unknown."""
    if is_native(block):
        return block
    if isinstance(block, str):
        return text_block(block)
    wire_type: Any = block.get("type") if isinstance(block, dict) else None
    if not isinstance(wire_type, str) or wire_type not in CLASSES:
        return raw_block("unknown_type", block, wire_name(block) if wire_type else None)
    if not is_valid(block):
        return raw_block("malformed", block, wire_type)
    return parse_nested(block, parse_block)


def _parse_standard_message(record: Record) -> ParsedRecord:
    return ParsedRecord("message", _ROLES[record["role"]], parse_list(record["content"], parse_block))


def _parse_bare_block(record: Record) -> ParsedRecord:
    block = parse_block(record)
    is_raw = block["type"] == "raw"
    return ParsedRecord("record" if is_raw else "message", "system" if is_raw else "user", [block])


def _is_standard_message(record: Record) -> bool:
    """Return True for a complete standard message; records of other formats may have an `_original` too."""
    return (
        isinstance(record.get("_original"), list)
        and body_keys(record) <= {"_original", "error"}
        and is_one_of(record.get("role"), _ROLES)
        and isinstance(record.get("content"), list)
        and isinstance(record.get("metadata"), dict)
    )


def _is_event(record: Record) -> bool:
    wire_type = record.get("type")
    if (
        not isinstance(wire_type, str)
        or not isinstance(record.get("payload"), dict)
        or "sessionId" not in record
    ):
        return False
    if record.keys() & ENVELOPE_KEYS != {"payload"}:
        return False
    return wire_type in EVENT_TYPES or "id" in record


def recognize(record: Record) -> WireType | None:
    """Return the row of an event with its session, or of a standard message."""
    is_own = _is_event(record) if "payload" in record else _is_standard_message(record)
    return wire_type(record) if is_own else None


def header(record: Record) -> RecordHeader:
    return RecordHeader(
        uuid=text_at(record, "id"),
        timestamp=to_milliseconds(record.get("timestamp")),
        session_id=text_at(record, "sessionId") or text_at(record, "metadata", "sessionId"),
        client_version=text_at(record, "metadata", "cliVersion"),
        model=text_at(record, "metadata", "model"),
    )


def _standard_message_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    metadata = without(record["metadata"], "source")
    cost = metadata.get("costUsd")
    error = record.get("error")
    return [
        Part(
            role=_ROLES[record["role"]],
            blocks=parsed.blocks,
            usage=_standard_usage(record.get("usage")),
            cost=cost if isinstance(cost, int | float) else None,
            message_id=text_at(metadata, "messageId"),
            parent_call=text_at(metadata, "parentToolUseId"),
            origin="synthetic" if metadata.get("synthetic") else "prompt",
            metadata=without(metadata, "messageId"),
            error=None if text_at(error, "code") is None else _event_error(error),
        )
    ]


def _standard_usage(usage: Any) -> Block | None:
    """Return the usage of a stored message; None if it is incomplete."""
    input, output = count_at(usage, "input_tokens"), count_at(usage, "output_tokens")
    if input is None or output is None:
        return None
    return token_usage(
        value_at(usage, "vendor"),
        input=input,
        output=output,
        cache_read=count_at(usage, "cache_read_input_tokens"),
        cache_creation=count_at(usage, "cache_creation_input_tokens"),
        reasoning=count_at(usage, "reasoning_tokens"),
        service_tier=text_at(usage, "service_tier"),
    )


def _event_error(error: Any) -> Block:
    return message_error(
        text_at(error, "code") or "error", text_at(error, "message"), value_at(error, "details")
    )


def _assistant_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    stop_reason = text_at(record, "payload", "stopReason")
    key = text_at(record, "responseId")
    return [
        Part(
            role="assistant",
            blocks=parsed.blocks,
            key=key,
            message_id=key,
            parent_call=text_at(record, "payload", "parentToolCallId"),
            metadata={"stop_reason": stop_reason},
            relation="continuation" if key is None else "new",
        )
    ]


def _system_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="system", blocks=parsed.blocks)]


def _turn_end_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    payload = record["payload"]
    usage, metadata = _standard_usage(payload.get("usage")), {"costUsd": cost_at(payload, "costUsd")}
    return [Part(role=None, usage=usage, metadata=metadata, relation="turn_end")]


def _error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    payload = record["payload"]
    return [Part(role=None, error=_event_error(payload))]


def _retraction_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    retracted = [
        name
        for names in ("eventIds", "messageIds")
        for name in list_or_empty(value_at(record, "payload", names))
        if isinstance(name, str)
    ]
    turns = count_at(record, "payload", "turns")
    return [
        Part(role=None, retracts=tuple(retracted)),
        *([Part(role=None, relation="rollback", turns=turns)] if turns else []),
    ]


_PARTS_BY_ROLE: Mapping[Role | None, Callable[[Record, ParsedRecord], list[Part]]] = {
    "assistant": _assistant_parts,
    "system": _system_parts,
}
_PARTS_BY_TYPE: Mapping[str, Callable[[Record, ParsedRecord], list[Part]]] = {
    "error": _error_parts,
    "retraction": _retraction_parts,
    "turn_end": _turn_end_parts,
}


def _event_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    event = {
        name: value
        for name, value in without(record, "messageSequence", "sequence").items()
        if not (value is None and name in {"recordId", "responseId", "turnId"})
    }
    try:
        read_event({"id": "-", "timestamp": 0, **event, "sessionId": "-"})
    except ValidationError:
        return [Emit("raw", {"source": "ash", "raw": record})]
    return [Part(role=None, original=event, relation="event")]


def _event_row(name: str, row: EventType) -> WireType:
    by_role = _PARTS_BY_ROLE.get(row.message_role, single_message_part)
    return WireType(_event_parser(name, row), _PARTS_BY_TYPE.get(name, by_role), _event_steps)


_EVENTS: Mapping[str, WireType] = {name: _event_row(name, row) for name, row in CATALOGUE.items()}
_BARE_BLOCK = WireType(_parse_bare_block)
_STANDARD_MESSAGE = WireType(_parse_standard_message, _standard_message_parts)
_UNKNOWN_EVENT = WireType(lambda record: unknown_record(record, record["type"]), steps=_event_steps)


def wire_type(record: Record) -> WireType:
    if _is_standard_message(record):
        return _STANDARD_MESSAGE
    name = record.get("type")
    if isinstance(name, str) and isinstance(record.get("payload"), dict):
        return _EVENTS.get(name, _UNKNOWN_EVENT)
    return _BARE_BLOCK


PROVIDER = Provider(
    source="ash",
    recognize=recognize,
    marks=Marks(
        typed_keys={"payload"},
        untyped_keys={"_original"},
        body_keys={"_original", "error"},
    ),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
)
