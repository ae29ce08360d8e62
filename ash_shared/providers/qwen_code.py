"""Qwen Code: the session files of a fork of Gemini CLI, with lines like Claude's and the content of Gemini.

Sources: files of versions 0.15 to 0.21. A line is `{uuid, parentUuid, sessionId, timestamp, type, …}`. Lines with the
same `uuid` are one message. Failed requests are recorded as telemetry only; telemetry also repeats usage and texts.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, text_block, translate, translated, with_extra, without
from ash_shared.model.message import Identity, RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    control_record,
    speaker_of_role,
    unknown_record,
)
from ash_shared.records.fingerprints import is_qwen_line
from ash_shared.records.gemini_parts import is_client_result, parse_part, parse_parts
from ash_shared.records.json_fields import (
    count_at,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import MessageSender, Origin

_ROLES: Mapping[str, Role] = {"assistant": "assistant", "tool_result": "tool", "user": "user"}


def _parse_message(record: Record) -> ParsedRecord:
    role = _ROLES[record["type"]]
    return ParsedRecord("message", role, translate(record["type"], record, _translate_message))


def _translate_message(record: Record) -> list[Block]:
    """Return the blocks of the parts; the outcome of a call and the payload go to `extra` of the first one."""
    blocks = _with_outcome(parse_parts(record["message"]["parts"]), record.get("toolCallResult"))
    shown = text_at(record, "systemPayload", "displayText")
    if shown is not None:
        blocks = [_without_context(block, shown) for block in blocks]
    payload = {} if record.get("systemPayload") is None else {"systemPayload": record["systemPayload"]}
    return [with_extra(block, payload) for block in blocks[:1]] + blocks[1:]


def _without_context(block: Block, shown: str) -> Block:
    """Mark a text that the client or a hook added to the text that the person sees."""
    return {**block, "variant": "notice"} if block["type"] == "text" and block["text"] != shown else block


def _with_outcome(blocks: list[Block], outcome: Any) -> list[Block]:
    """Add the outcome of a call, and the form for the person in `extra`, to its result."""
    if not isinstance(outcome, dict) or not blocks or blocks[0]["type"] != "tool_result":
        return blocks
    status = outcome.get("status")
    state = {"is_error": status != "success"} if isinstance(status, str) else {}
    return [with_extra({**blocks[0], **state}, without(outcome, "callId")), *blocks[1:]]


def _message_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    id = text_at(record, "uuid")
    header = RecordHeader(uuid=id)
    part = Part(role=speaker_of_role(parsed.role), blocks=parsed.blocks, key=id, header=header)
    if parsed.role == "assistant":
        return [
            replace(
                part,
                usage=_standard_usage(record.get("usageMetadata")),
                metadata={"model": text_at(record, "model")},
            )
        ]
    if parsed.role == "tool" or any(map(is_client_result, parsed.blocks)):
        return [part]
    origin, sender = _ORIGINS.get(text_at(record, "subtype") or "", _PROMPT)
    branch = _branch_parts(record, text_at(record, "parentUuid")) if origin == "prompt" else []
    return [*branch, replace(part, origin=origin, sender=sender)]


def _branch_parts(record: Record, follows: str | None) -> list[Part]:
    """Return the part that retracts an earlier prompt after the same line, with everything after it."""
    return [] if follows is None else [Part(role=None, key=follows, relation="branch")]


_PROMPT: tuple[Origin, MessageSender | None] = ("prompt", None)
_ORIGINS: Mapping[str, tuple[Origin, MessageSender | None]] = {
    "mid_turn_user_message": ("mid_turn", None),
    "notification": ("program", MessageSender("task")),
}
"""By the subtype of a user's line."""


def _standard_usage(usage: Any) -> Block | None:
    """Return the usage. The prompt includes cached tokens, and the candidates, unlike Gemini's, include thoughts."""
    cached = count_at(usage, "cachedContentTokenCount")
    return token_usage(
        usage,
        input=subtract_counts(count_at(usage, "promptTokenCount"), cached),
        output=count_at(usage, "candidatesTokenCount"),
        cache_read=cached,
        reasoning=count_at(usage, "thoughtsTokenCount"),
    )


def _parse_system(record: Record) -> ParsedRecord:
    name = text_at(record, "subtype")
    if name not in _SUBTYPES:
        return unknown_record(record)
    if name == "ui_telemetry" and _failure(record) is not None:
        return ParsedRecord("record", "system", translate("system/ui_telemetry", record, _translate_failure))
    if name == "chat_compression" and _summary(record) is not None:
        return ParsedRecord(
            "record", "system", translate("system/chat_compression", record, _translate_summary)
        )
    return control_record(record)


_SUBTYPES = frozenset(
    {
        "at_command",
        "attribution_snapshot",
        "chat_compression",
        "custom_title",
        "rewind",
        "session_artifact_snapshot",
        "slash_command",
        "ui_telemetry",
    }
)

_ENVELOPE = frozenset(
    {"cwd", "gitBranch", "parentUuid", "sessionId", "subtype", "timestamp", "uuid", "version"}
)


def _failure(record: Record) -> str | None:
    """Return the message of a request that failed."""
    return text_at(record, "systemPayload", "uiEvent", "error_message")


def _translate_failure(record: Record) -> Block:
    typed = text_block(record["systemPayload"]["uiEvent"]["error_message"], "error")
    return translated(record, typed, _ENVELOPE, "system/ui_telemetry")


def _summary(record: Record) -> str | None:
    """Return the text that replaced the history: the first one of the new history."""
    history = value_at(record, "systemPayload", "compressedHistory")
    first = history[0] if isinstance(history, list) and history else None
    parts = value_at(first, "parts")
    return text_at(parts[0], "text") if isinstance(parts, list) and parts else None


def _translate_summary(record: Record) -> Block:
    return translated(
        record, text_block(_summary(record) or "", "summary"), _ENVELOPE, "system/chat_compression"
    )


def _system_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    if record.get("subtype") == "rewind":
        return _branch_parts(record, text_at(record, "systemPayload", "targetUuid"))
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    if not texts:
        return []
    if texts[0]["variant"] == "summary":
        return [Part(role="system", blocks=texts)]
    event = record["systemPayload"]["uiEvent"]
    code = text_at(event, "error_type") or "error"
    return [Part(role="system", blocks=texts, error=message_error(code, event["error_message"], event))]


def header(record: Record) -> RecordHeader:
    """Return the metadata of a line. Lines of the model and of tools may repeat a `uuid`, and are all kept."""
    is_repeatable = record.get("type") in ("assistant", "tool_result")
    payload = record.get("systemPayload") if record.get("subtype") == "custom_title" else None
    return RecordHeader(
        uuid=None if is_repeatable else text_at(record, "uuid"),
        timestamp=to_milliseconds(record.get("timestamp")),
        session_id=text_at(record, "sessionId"),
        client_version=text_at(record, "version"),
        model=text_at(record, "model"),
        title=text_at(payload, "customTitle"),
        is_title_of_person=value_at(payload, "titleSource") == "manual",
        folder=text_at(record, "cwd"),
        branch=text_at(record, "gitBranch"),
    )


def identify(record: Record) -> Identity:
    return Identity(
        session=text_at(record, "sessionId"), project=text_at(record, "cwd"), record=text_at(record, "uuid")
    )


_MESSAGE = WireType(_parse_message, _message_parts)

TYPES: Mapping[str, WireType] = {
    "assistant": _MESSAGE,
    "system": WireType(_parse_system, _system_parts),
    "tool_result": _MESSAGE,
    "user": _MESSAGE,
}
_UNKNOWN = WireType(unknown_record)


def wire_type(record: Record) -> WireType:
    return TYPES.get(text_at(record, "type") or "", _UNKNOWN)


def recognize(record: Record) -> WireType | None:
    row = TYPES.get(text_at(record, "type") or "")
    return row if row is not None and is_qwen_line(record) else None


PROVIDER = Provider(
    source="qwen_code",
    recognize=recognize,
    marks=Marks(TYPES),
    wire_type=wire_type,
    parse_block=parse_part,
    header=header,
    identify=identify,
)
