"""Ash's own lines: chat events, standard messages, and bare blocks of the vocabulary.

A chat event is `{"id", "timestamp", "sessionId", "type", "payload", "turnId"?, "responseId"?}`; its payload is the
content, the rest envelope. A standard message is recognised by its `_original`.

An event passes into the log as it is, if it is what its type promises; places in a log are left out, since the log
gives its own. One that is not is shown as it was written.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from ash_shared.model.blocks import (
    CLASSES,
    Block,
    is_native,
    is_valid,
    pick,
    raw_block,
    read_list,
    read_nested,
    renamed,
    text_block,
    translate,
    translated,
    wire_name,
    with_extra,
    without,
)
from ash_shared.model.events import read_event
from ash_shared.model.message import Facts, Kind, Role
from ash_shared.providers._kit.contract import (
    Part,
    Provider,
    Record,
    RecordReading,
    Speaker,
    chunk_reading,
    control_reading,
    single_message_part,
    unknown_reading,
)
from ash_shared.providers._kit.fingerprints import ENVELOPE_KEYS, body_keys
from ash_shared.providers._kit.json_fields import (
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
from ash_shared.providers._kit.steps import Passes, Says, Step

_ROLES: Mapping[str, Speaker] = {"assistant": "assistant", "system": "system", "user": "user"}

Payload = Callable[[Block], Block | list[Block]]


def _text(event: str, name: str = "text", *, variant: str | None = None) -> Callable[[Block], Block]:
    def read(payload: Block) -> Block:
        typed = {**text_block(payload[name], variant), **pick(payload, "phase", "variant")}
        return _translated(payload, typed, {name, "phase", "variant"}, event)

    return read


def _translated(payload: Block, typed: Block, consumed: set[str], event: str) -> Block:
    """As `translated`, for a payload: it has no discriminator, and a `type` in it is a key like any."""
    return with_extra(translated(payload, typed, consumed, event), pick(payload, "type"))


def _user_message(payload: Block) -> list[Block]:
    """The blocks, where there is more than a text; the text beside them where none of them says it."""
    if payload.get("content").__class__ is not list:
        return [_text("user_message")(payload)]
    blocks = read_list(payload["content"], read_block)
    if all(block.get("text") != payload["text"] for block in blocks):
        blocks = [text_block(payload["text"]), *blocks]
    return [with_extra(blocks[0], without(payload, "text", "content")), *blocks[1:]]


def _thinking(payload: Block) -> Block:
    names = ("signature", "redacted")
    typed = {"type": "thinking", "thinking": payload["text"], **pick(payload, *names)}
    return _translated(payload, typed, {*names, "text"}, "thinking_done")


def _call(payload: Block) -> Block:
    names = {"id": "toolCallId", "name": "toolName", "input": "args", "executor": "executor"}
    typed = {"type": "tool_use", **renamed(payload, **names)}
    return _translated(payload, typed, set(names.values()), "tool_call")


def _result(payload: Block) -> Block:
    names = {"tool_use_id": "toolCallId", "exit_code": "exitCode", "structured": "structured"}
    failed = {"is_error": True} if payload.get("error") is not None else {}
    typed = {"type": "tool_result", **_answer(payload), **renamed(payload, **names), **failed}
    return _translated(payload, typed, {*names.values(), "result"}, "tool_result")


def _answer(payload: Block) -> Block:
    """What the tool answered; a list that holds no block stands where the machine-readable form does."""
    if payload.get("result") is None and payload.get("error") is not None:
        return {"content": payload["error"]["message"]}
    result = payload["result"]
    if result.__class__ is not list:
        return {"content": result}
    blocks = read_list(result, read_block)
    is_data = "structured" not in payload and all(block["type"] == "raw" for block in blocks)
    return {"structured": result} if is_data and blocks else {"content": blocks}


_PAYLOADS: Mapping[str, tuple[Kind, Role, Payload]] = {
    "agent_callback": ("message", "user", _text("agent_callback", "result")),
    "agent_message": ("message", "assistant", _text("agent_message", "message")),
    "assistant_done": ("message", "assistant", _text("assistant_done")),
    "error": ("record", "system", _text("error", "message", variant="error")),
    "summary": ("record", "system", _text("summary", variant="summary")),
    "thinking_done": ("message", "assistant", _thinking),
    "tool_call": ("message", "assistant", _call),
    "tool_result": ("message", "tool", _result),
    "user_audio": ("message", "user", _text("user_audio", "transcription", variant="transcript")),
    "user_message": ("message", "user", _user_message),
}
"""The events that say a whole thing: how they are read."""
_CHUNKS = frozenset(
    {"assistant_chunk", "audio_chunk", "thinking_chunk", "tool_input_chunk", "tool_output_chunk"}
)
_CONTROL = frozenset(
    {"agent_switch", "audio_done", "interrupt", "raw", "reset", "retraction", "turn_end", "turn_start"}
)
_TYPES = _PAYLOADS.keys() | _CHUNKS | _CONTROL


def _read_event(record: Record) -> RecordReading:
    wire = record["type"]
    if wire in _CHUNKS:
        return chunk_reading(record, wire)
    if wire not in _PAYLOADS:
        return (control_reading if wire in _CONTROL else unknown_reading)(record, wire)
    kind, role, payload = _PAYLOADS[wire]
    return RecordReading(kind, role, translate(wire, record["payload"], payload))


def read_block(block: Any) -> Block:
    """One element of a content list: everything but our own vocabulary is unknown here."""
    if is_native(block):
        return block
    if block.__class__ is str:
        return text_block(block)
    wire: Any = block.get("type") if block.__class__ is dict else None
    if wire.__class__ is not str or wire not in CLASSES:
        return raw_block("unknown_type", block, wire_name(block) if wire else None)
    if not is_valid(block):
        return raw_block("malformed", block, wire)
    return read_nested(block, read_block)


def read(record: Record) -> RecordReading:
    """An event, a standard message, or one bare block."""
    if _is_standard(record):
        return RecordReading("message", _ROLES[record["role"]], read_list(record["content"], read_block))
    if record.get("payload").__class__ is dict and record.get("type").__class__ is str:
        return _read_event(record)
    block = read_block(record)
    is_raw = block["type"] == "raw"
    return RecordReading("record" if is_raw else "message", "system" if is_raw else "user", [block])


def _is_standard(record: Record) -> bool:
    """Whether this is a whole standard message; another's record may have a key of that name, too."""
    return (
        record.get("_original").__class__ is list
        and body_keys(record) <= _STANDARD_BODIES
        and is_one_of(record.get("role"), _ROLES)
        and record.get("content").__class__ is list
        and record.get("metadata").__class__ is dict
    )


_STANDARD_BODIES = frozenset({"_original", "error"})


def _is_event(record: Record) -> bool:
    wire = record.get("type")
    if wire.__class__ is not str or record.get("payload").__class__ is not dict or "sessionId" not in record:
        return False
    if record.keys() & ENVELOPE_KEYS != {"payload"}:
        return False
    return wire in _TYPES or "id" in record


def recognizes(record: Record) -> bool:
    """Whether a record is an event with its session, or a standard message."""
    return _is_event(record) if "payload" in record else _is_standard(record)


def facts(record: Record) -> Facts:
    """Both have an id of their own."""
    return Facts(
        uuid=text_at(record, "id"),
        timestamp=to_milliseconds(record.get("timestamp")),
        session_id=text_at(record, "sessionId") or text_at(record, "metadata", "sessionId"),
        client_version=text_at(record, "metadata", "cliVersion"),
        model=text_at(record, "metadata", "model"),
    )


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """Events of one response are one message; what ends a turn, fails or revokes adds to those before it."""
    if _is_standard(record):
        return [_standard(record, reading)]
    tell = _PARTS.get(record["type"], single_message_part)
    return tell(record, reading)


def _standard(record: Record, reading: RecordReading) -> Part:
    told = without(record["metadata"], "source")
    failure = record.get("error")
    return Part(
        role=_ROLES[record["role"]],
        blocks=reading.blocks,
        usage=_usage(record.get("usage")),
        metadata=told | {"messageId": text_at(told, "messageId")},
        error=None if text_at(failure, "code") is None else _error_of(failure),
    )


def _usage(usage: Any) -> Block | None:
    """Counts as a message is stored with them; None where they are not whole."""
    given, answered = count_at(usage, "input_tokens"), count_at(usage, "output_tokens")
    if given is None or answered is None:
        return None
    return token_usage(
        value_at(usage, "vendor"),
        input=given,
        output=answered,
        cache_read=count_at(usage, "cache_read_input_tokens"),
        cache_creation=count_at(usage, "cache_creation_input_tokens"),
        reasoning=count_at(usage, "reasoning_tokens"),
        service_tier=text_at(usage, "service_tier"),
    )


def _error_of(told: Any, details: Any = None) -> Block:
    """The keys of a `MessageError`."""
    more = value_at(told, "details") if details is None else details
    return message_error(text_at(told, "code") or "error", text_at(told, "message"), more)


def _assistant(record: Record, reading: RecordReading) -> list[Part]:
    stop_reason = text_at(record, "payload", "stopReason")
    key = text_at(record, "responseId")
    return [
        Part(
            role="assistant",
            blocks=reading.blocks,
            key=key,
            adjoins=key is None,
            metadata={
                "stop_reason": stop_reason,
                "messageId": key,
                "parentToolUseId": text_at(record, "payload", "parentToolCallId"),
            },
        )
    ]


def _user(record: Record, reading: RecordReading) -> list[Part]:
    return [Part(role="user", blocks=reading.blocks)]


def _summary(record: Record, reading: RecordReading) -> list[Part]:
    return [Part(role="system", blocks=reading.blocks)]


def _turn_end(record: Record, reading: RecordReading) -> list[Part]:
    payload = record["payload"]
    return [
        Part(
            role=None,
            usage=_usage(payload.get("usage")),
            usage_of_turn=True,
            metadata={"costUsd": cost_at(payload, "costUsd")},
        )
    ]


def _error(record: Record, reading: RecordReading) -> list[Part]:
    payload = record["payload"]
    return [Part(role=None, error=_error_of(payload, payload))]


def _retraction(record: Record, reading: RecordReading) -> list[Part]:
    revoked = [
        name
        for names in ("eventIds", "messageIds")
        for name in list_or_empty(value_at(record, "payload", names))
        if name.__class__ is str
    ]
    return [Part(role=None, retracts=tuple(revoked))]


_PARTS: Mapping[str, Callable[[Record, RecordReading], list[Part]]] = {
    "agent_callback": _user,
    "agent_message": _assistant,
    "assistant_done": _assistant,
    "error": _error,
    "retraction": _retraction,
    "summary": _summary,
    "thinking_done": _assistant,
    "tool_call": _assistant,
    "tool_result": _user,
    "turn_end": _turn_end,
    "user_audio": _user,
    "user_message": _user,
}


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """An event as it is; what a standard message or a block adds is told by its parts."""
    if record.get("payload").__class__ is not dict or record.get("type").__class__ is not str:
        return None
    event = {
        name: value
        for name, value in record.items()
        if name not in _PLACES and not (value is None and name in _OPTIONAL)
    }
    try:
        read_event({"id": "-", "timestamp": 0, **event, "sessionId": "-"})
    except ValidationError:
        return [Says("raw", {"source": "ash", "raw": record})]
    return [Passes(event)]


_PLACES = frozenset({"messageSequence", "sequence"})
_OPTIONAL = frozenset({"recordId", "responseId", "turnId"})


PROVIDER = Provider(
    source="ash",
    recognizes=recognizes,
    marks={"_original", "payload"},
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
    steps=steps,
)
