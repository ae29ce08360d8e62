"""What records say of themselves, and how they join the standard messages of their session."""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import Block, pick, read_content, wire_name
from ash_shared.model.message import Facts
from ash_shared.providers._kit.contract import (
    Part,
    Record,
    RecordReading,
    single_message_part,
    speaker_of_role,
)
from ash_shared.providers._kit.json_fields import (
    cost_at,
    count_at,
    first_text,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.providers.claude.content import read_block
from ash_shared.providers.claude.records import TOOL_RESULTS, role_of


def facts(record: Record) -> Facts:
    """What a line says beside its content; on disk in camel case, in the stream in snake case."""
    return Facts(
        uuid=text_at(record, "uuid"),
        timestamp=to_milliseconds(record.get("timestamp")),
        session_id=first_text(record, ("sessionId", "session_id")),
        client_version=first_text(record, ("version", "claude_code_version")),
        model=text_at(record, "model") or text_at(record, "message", "model"),
        title=_title(record),
    )


def _title(record: Record) -> str | None:
    wire = record.get("type")
    return first_text(record, _TITLES.get(wire, ())) if wire.__class__ is str else None


_TITLES: Mapping[Any, tuple[str, ...]] = {
    "ai-title": ("aiTitle", "title"),
    "custom-title": ("customTitle", "title"),
    "summary": ("summary",),
}


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """What a record adds to the standard messages of its session."""
    wire = record.get("type")
    if wire.__class__ is not str:
        return _request_parts(record, reading) if "messages" in record else [_part(record, record, reading)]
    if wire in _PARTS:
        return _PARTS[wire](record, reading)
    if reading.kind == "message":
        return single_message_part(record, reading)
    said = [block for block in reading.blocks if block["type"] == "text"]
    return [Part(role="system", blocks=said)] if said else []


def _line_parts(record: Record, reading: RecordReading) -> list[Part]:
    message = record.get("message")
    return [_part(record, message if message.__class__ is dict else {}, reading)]


def _part(record: Record, message: Record, reading: RecordReading) -> Part:
    """A line and the API message in it, which is the line itself where an answer stands alone."""
    id = text_at(message, "id")
    return Part(
        role=speaker_of_role(reading.role),
        blocks=reading.blocks,
        key=id if reading.role == "assistant" else None,
        usage=usage_of(message.get("usage")),
        metadata={
            "messageId": id,
            "model": text_at(message, "model"),
            "stop_reason": text_at(message, "stop_reason"),
            "stop_sequence": text_at(message, "stop_sequence"),
            "agentId": first_text(record, ("agentId", "agent_id")),
            "parentToolUseId": first_text(
                record, ("parent_tool_use_id", "parentToolUseID", "parentToolUseId")
            ),
            "toolUseResult": next((record[name] for name in TOOL_RESULTS if name in record), None),
            "synthetic": _is_synthetic(record, message) or is_notice(reading.blocks) or None,
        },
        error=line_error(record, message),
        retracts=_ids(record.get("supersedes")),
    )


def _is_synthetic(record: Record, message: Record) -> bool:
    return (  # spelled out, as on every line
        message.get("model") == "<synthetic>"
        or record.get("isMeta") is True
        or record.get("isSynthetic") is True
        or record.get("isCompactSummary") is True
    )


def is_notice(blocks: list[Block]) -> bool:
    """Whether this is what Claude Code says in the person's name: that a task in the background has ended."""
    first = blocks[0] if len(blocks) == 1 else {}
    return first.get("type") == "text" and first["text"].lstrip().startswith("<task-notification>")


def line_error(record: Record, message: Record) -> Block | None:
    if record.get("isApiErrorMessage") is True or text_at(record, "error"):
        content = message.get("content")
        text = content if content.__class__ is str else text_at(content[0], "text") if content else None
        details = pick(record, *_ERROR_DETAILS) or None
        return message_error(text_at(record, "error") or "api_error", text, details)
    if message.get("stop_reason") == "refusal":
        told = message.get("stop_details")
        return message_error("refusal", text_at(told, "explanation"), told or None)
    return None


_ERROR_DETAILS = ("error", "errorDetails", "apiErrorStatus", "cause", "request_id", "requestId")


def usage_of(usage: Any) -> Block | None:
    """Input counts leave out what came from a cache; output counts hold the thinking."""
    return token_usage(
        usage,
        input=count_at(usage, "input_tokens"),
        output=count_at(usage, "output_tokens"),
        cache_read=count_at(usage, "cache_read_input_tokens"),
        cache_creation=count_at(usage, "cache_creation_input_tokens"),
        reasoning=count_at(usage, "output_tokens_details", "thinking_tokens"),
        service_tier=text_at(usage, "service_tier"),
    )


def _ids(value: Any) -> tuple[str, ...]:
    return tuple(id for id in value if id.__class__ is str) if value.__class__ is list else ()


def _request_parts(record: Record, reading: RecordReading) -> list[Part]:
    system = record.get("system")
    said = (
        []
        if system is None
        else [Part(role="system", blocks=read_content(system, read_block), original=system)]
    )
    return said + [
        Part(
            role=speaker_of_role(role_of(message, "user")),
            blocks=read_content(message["content"], read_block),
            original=message,
        )
        for message in record["messages"]
    ]


def _result_parts(record: Record, reading: RecordReading) -> list[Part]:
    """The end of a run: its text repeats the last answer, and its usage is that of all answers."""
    failed = record.get("is_error") is True or bool(record.get("errors"))
    texts = [block for block in reading.blocks if block["type"] == "text"]
    return [
        Part(
            role=None if not (texts or failed) else "assistant" if record.get("result") else "system",
            blocks=reading.blocks if failed else texts,
            echo=True,
            usage=usage_of(record.get("usage")),
            usage_of_turn=True,
            metadata={"stop_reason": text_at(record, "stop_reason")},
            total_cost=cost_at(record, "total_cost_usd"),
            error=_run_error(record) if failed else None,
        )
    ]


def _run_error(record: Record) -> Block:
    errors = [told for told in record.get("errors") or [] if told.__class__ is str]
    text = "\n".join(errors) or text_at(record, "result")
    details = pick(record, "errors", "api_error_status")
    status = count_at(record, "api_error_status")
    told = text_at(record, "subtype") or "error"
    code = told if told != "success" else "error" if status is None else "api_error"
    return message_error(code, text or (None if status is None else f"HTTP {status}"), details or None)


def _error_parts(record: Record, reading: RecordReading) -> list[Part]:
    """An error of the API: a body, an event of its stream, or what a client notes of a failed request."""
    details = record.get("error")
    inner = value_at(details, "error", "error") or value_at(details, "error") or details
    code = (
        _type_of(inner)
        or text_at(record, "error")
        or text_at(record, "subtype")
        or wire_name(record)
        or "error"
    )
    text = text_at(inner, "message") or text_at(details, "message") or _attempted(record, details)
    return [Part(role="system", blocks=reading.blocks, error=message_error(code, text, details or None))]


def _type_of(error: Any) -> str | None:
    """What kind of error it is; `error` alone says nothing."""
    told = text_at(error, "type")
    return None if told == "error" else told


def _attempted(record: Record, details: Any) -> str | None:
    """What a client notes of a request that it makes once more, where no message says what went wrong."""
    status = count_at(details, "status") or count_at(record, "error_status")
    cause = text_at(record, "cause", "code")
    attempt = _first_count(record, "retryAttempt", "attempt")
    most = _first_count(record, "maxRetries", "max_retries")
    told = [
        None if status is None else f"HTTP {status}",
        cause,
        None if attempt is None else f"attempt {attempt}" if most is None else f"attempt {attempt} of {most}",
    ]
    return ", ".join(filter(None, told)) or None


def _first_count(record: Record, *names: str) -> int | None:
    return next((count for name in names if (count := count_at(record, name)) is not None), None)


def _queued_parts(record: Record, reading: RecordReading) -> list[Part]:
    """A prompt typed in the middle of a turn: the line that sends it may follow."""
    if all(block["type"] == "raw" for block in reading.blocks):
        return []
    told = {"synthetic": True} if is_notice(reading.blocks) else {}
    return [Part(role="user", blocks=reading.blocks, echo=True, metadata=told)]


def _system_parts(record: Record, reading: RecordReading) -> list[Part]:
    if record.get("subtype") in ("api_error", "api_retry", "error"):
        return _error_parts(record, reading)
    retracts = _ids(record.get("retracted_message_uuids")) + _ids(record.get("retractedMessageUuids"))
    said = [block for block in reading.blocks if block["type"] == "text"]
    return [Part(role="system", blocks=said, retracts=retracts)] if said or retracts else []


_PARTS: Mapping[str, Callable[[Record, RecordReading], list[Part]]] = {
    "assistant": _line_parts,
    "error": _error_parts,
    "message": lambda record, reading: [_part(record, record, reading)],
    "queue-operation": _queued_parts,
    "result": _result_parts,
    "system": _system_parts,
    "user": _line_parts,
}
