"""Metadata of Claude records, and the parts they add to the standard messages of their session."""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, parse_content, pick, text_block, wire_name, without
from ash_shared.model.message import Identity, RecordHeader, StatedTotal
from ash_shared.model.usage.costs import NANO_DOLLARS
from ash_shared.providers.claude.content import parse_block
from ash_shared.providers.claude.records import TOOL_RESULTS, message_role
from ash_shared.providers.claude.senders import NOT_TYPED_FLAGS, SENDER_KEYS, find_sender
from ash_shared.records.contract import ParsedRecord, Part, Record, speaker_of_role
from ash_shared.records.inherited import with_continuation
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    first_count,
    first_text,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import MessageSender, Origin, Relation, is_person
from ash_shared.records.system_text import is_client_text, prompt_text, task_notice, typed_text


def header(record: Record) -> RecordHeader:
    """Return the header of a line. Its keys are in camel case on disk and in snake case in the stream."""
    if _FACT_KEYS.isdisjoint(record):  # most events of a stream
        return _NO_FACTS
    name = _new_name(record)
    return with_continuation(_header(record, name), record.get("ash"))


def _header(record: Record, name: str | None) -> RecordHeader:
    return RecordHeader(
        uuid=text_at(record, "uuid"),
        timestamp=to_milliseconds(record.get("timestamp")),
        session_id=first_text(record, ("sessionId", "session_id")),
        client_version=first_text(record, ("version", "claude_code_version")),
        model=text_at(record, "model") or text_at(record, "message", "model") or _fallback_model(record),
        title=name or first_text(record, _TITLES.get(text_at(record, "type"), ())),
        is_title_of_person=name is not None,
        agent=_agent_of_session(record),
        folder=text_at(record, "cwd"),
        branch=text_at(record, "gitBranch"),
        root=text_at(record, "worktreeSession", "originalCwd"),
        stated_total=_stated_total(record),
        turn_ms=count_at(record, "durationMs") if record.get("subtype") == "turn_duration" else None,
    )


def _stated_total(record: Record) -> StatedTotal | None:
    """Return the cost of the session in a `cost-state` record, which includes requests that no line contains."""
    cost = cost_at(record, "totalCostUSD") if record.get("type") == "cost-state" else None
    if cost is None or cost > MAX_STATED_COST:
        return None
    usage = record.get("modelUsage")
    models = tuple(sorted(usage)[:_MAX_MODELS]) if isinstance(usage, dict) else ()
    return StatedTotal(round(cost * NANO_DOLLARS), models)


def _fallback_model(record: Record) -> str | None:
    """Return the model that answers from here on."""
    return text_at(record, "fallbackModel") if record.get("type") == "system" else None


MAX_STATED_COST = 1_000_000
"""Dollars of a session; a higher cost is not plausible."""
_MAX_MODELS = 50

_NO_FACTS = RecordHeader()
_FACT_KEYS = frozenset(
    {"uuid", "timestamp", "sessionId", "session_id", "version", "claude_code_version", "model", "message"}
    | {"aiTitle", "customTitle", "summary", "title", "subtype", "isSidechain"}
    | {"cwd", "gitBranch", "worktreeSession", "totalCostUSD"}
)
"""The keys that `header` reads; without them, the header is empty."""


def identify(record: Record) -> Identity:
    """Return the names of a line. `/branch` gives a copy new ids, and states the session and line of the original."""
    id = text_at(record, "forkedFrom", "messageUuid") or text_at(record, "uuid")
    content = value_at(record, "message", "content")
    if isinstance(content, str):  # a resumed session contains it as a block
        content = [text_block(content)]
    return Identity(
        project=text_at(record, "cwd"),
        agent=text_at(record, "agentId"),
        origin=text_at(record, "forkedFrom", "sessionId") or _derived_from(record),
        record=id,
        body=json.dumps(content, sort_keys=True, default=str) if id and content else "",
    )


def _derived_from(record: Record) -> str | None:
    sessions = record.get("sessions") if record.get("type") == "derived-from" else None
    return text_at(sessions[0], "id") if isinstance(sessions, list) and sessions else None


def _agent_of_session(record: Record) -> str | None:
    """Return the subagent that a session file belongs to. Lines of a stream and of old sidechains do not say it."""
    is_sidechain = record.get("isSidechain")
    if is_sidechain is True:
        return text_at(record, "agentId")
    return "" if is_sidechain is False else None


_TITLES: Mapping[Any, tuple[str, ...]] = {
    "ai-title": ("aiTitle", "title"),
    "summary": ("summary",),
}


def _new_name(record: Record) -> str | None:
    """Return the name that a person gives to the session, by the command `/rename` or otherwise."""
    if record.get("type") == "custom-title":
        return first_text(record, ("customTitle", "title"))
    if record.get("subtype") != "local_command":
        return None
    command, _, name = typed_text(text_at(record, "content") or "").partition(" ")
    return (name.strip() or None) if command == "/rename" else None


def stream_event_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the usage at the end of an answer; its lines have only the first count."""
    event = record["event"]
    parts = usage_update(event.get("usage")) if text_at(event, "type") == "message_delta" else []
    return [replace(part, parent_call=text_at(record, "parent_tool_use_id")) for part in parts]


def usage_update(usage: Any) -> list[Part]:
    """Return the usage so far; `message_delta` repeats some counts of `message_start`."""
    counts = standard_usage(usage)
    if counts is None:
        return []
    missing = [name for name in ("input_tokens", "output_tokens") if count_at(usage, name) is None]
    return [Part(role=None, usage=without(counts, *missing), relation="revision")]


def text_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return one system message with the texts of a record outside the conversation."""
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    return [Part(role="system", blocks=texts)] if texts else []


def assistant_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    (part,) = line_parts(record, parsed)
    if record.get("isSidechain") is True:
        return [*_sidechain_parts(record, part), part]
    return [*_root_parts(record), part]


def _root_parts(record: Record, *, is_prompt: bool = False) -> list[Part]:
    """Return the part of a line of the main conversation that follows no other line."""
    if record.get("parentUuid", "") is not None:
        return []
    origin: Origin = "prompt" if is_prompt else "synthetic"
    return [Part(role=None, key=text_at(record, "sessionId"), relation="root", origin=origin)]


def _sidechain_parts(record: Record, part: Part) -> list[Part]:
    """Return the part that links a subagent's line to its call, if the line states neither agent nor call."""
    line, parent = text_at(record, "uuid"), text_at(record, "parentUuid")
    if line is None or not is_unattributed_sidechain(record, part):
        return []
    blocks = [] if parent else part.blocks
    return [Part(role=None, key=parent, blocks=blocks, header=RecordHeader(uuid=line), relation="sidechain")]


def is_unattributed_sidechain(record: Record, part: Part) -> bool:
    """Return True for a subagent's line that states neither the agent nor its call. Before 2.0.28 such lines were
    written between the lines of the main conversation; later ones state the agent and are in a separate file."""
    return record.get("isSidechain") is True and not (part.metadata.get("agentId") or part.parent_call)


def user_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of a user's line; a prompt also states the line that it follows. Versions that state the sender
    of a prompt record the delivery of queued ones."""
    (part,) = line_parts(record, parsed)
    if record.get("isSidechain") is True:
        return [*_sidechain_parts(record, part), part]
    log = [] if SENDER_KEYS.isdisjoint(record) else [Part(role=None, relation="delivery_log")]
    parent, is_prompt = text_at(record, "parentUuid"), _is_prompt(part)
    if parent is None:
        return [*log, *_root_parts(record, is_prompt=is_prompt and not _is_client_command(part)), part]
    branch = [Part(role=None, key=parent, relation="branch")] if is_prompt else []
    return [*log, *branch, part]


def _is_client_command(part: Part) -> bool:
    """Return True for a command such as `/clear`, which restarts the conversation."""
    texts = [block["text"] for block in part.blocks if block["type"] == "text"]
    return bool(texts) and not any(map(prompt_text, texts))


def _is_prompt(part: Part) -> bool:
    """Return True if a person wrote this line of the main conversation."""
    is_result = any(block["type"] == "tool_result" for block in part.blocks)
    is_typed = is_person(part.sender) or not is_client_text(part.blocks)
    return part.origin == "prompt" and part.relation != "copy" and not is_result and is_typed


def line_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    message = record.get("message")
    return [_message_part(record, message if isinstance(message, dict) else {}, parsed)]


def message_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [_message_part(record, record, parsed)]


def _message_part(record: Record, message: Record, parsed: ParsedRecord) -> Part:
    """Return the part of a line and its API message; for a bare response, both are the same object."""
    id, agent = text_at(message, "id"), first_text(record, ("agentId", "agent_id"))
    script_row = text_at(record, "uuid") if "ranByToolUseId" in record else None
    key = (script_row or id) if parsed.role == "assistant" else None
    is_main_prompt = record.get("type") == "user" and record.get("isSidechain") is not True
    sender = find_sender(record, parsed.blocks) if is_main_prompt else None
    return Part(
        role=speaker_of_role(parsed.role),
        blocks=parsed.blocks,
        key=key,
        relation="new_version" if key is not None and key == script_row else _relation(record, key),
        sender=sender,
        usage=standard_usage(message.get("usage")),
        message_id=id,
        follows=text_at(record, "parentUuid") if "requestId" in record else None,
        parent_call=first_text(
            record, ("parent_tool_use_id", "parentToolUseID", "parentToolUseId", "ranByToolUseId")
        ),
        origin=_origin(record, message, agent, parsed.blocks, sender),
        metadata={
            "model": text_at(message, "model"),
            "stop_reason": text_at(message, "stop_reason"),
            "stop_sequence": text_at(message, "stop_sequence"),
            "agentId": agent,
            "ranByToolUseId": text_at(record, "ranByToolUseId"),
            "toolUseResult": next((record[name] for name in TOOL_RESULTS if name in record), None),
        },
        error=line_error(record, message),
        retracts=_string_ids(record.get("supersedes")),
    )


def _relation(record: Record, key: str | None) -> Relation:
    """Return the relation of a line; a prompt that is stored again keeps its first id in `sentAsUuid`."""
    if key is not None:
        return "growth"
    return "copy" if record.get("type") == "user" and text_at(record, "sentAsUuid") else "new"


def _origin(
    record: Record, message: Record, agent: str | None, blocks: list[Block], sender: MessageSender | None
) -> Origin:
    if sender is not None and sender.is_program:
        return "program" if agent is None else "synthetic"
    if is_person(sender):
        return "prompt" if agent is None else "mid_turn"
    if _is_synthetic(record, message) or is_task_notice(blocks) or _is_command_error(record, blocks):
        return "synthetic"
    return "prompt" if agent is None else "mid_turn"


def _is_synthetic(record: Record, message: Record) -> bool:
    if message.get("model") == "<synthetic>":
        return True
    return not _FLAGS.isdisjoint(record) and any(record.get(flag) is True for flag in _FLAGS)


_FLAGS = frozenset({"isSynthetic", *NOT_TYPED_FLAGS})


def is_task_notice(blocks: list[Block]) -> bool:
    """Return True for a report by Claude Code, in the user's role, about the start or end of a background task."""
    first = blocks[0] if len(blocks) == 1 else {}
    return first.get("type") == "text" and task_notice(first["text"]) is not None


def _is_command_error(record: Record, blocks: list[Block]) -> bool:
    """Return True for the error that a slash command is unknown, which 2.1.29 writes as a user's line without a tag or
    flag. Typed prompts of that version have the permission mode."""
    first = blocks[0] if len(blocks) == 1 else {}
    if first.get("type") != "text" or _UNKNOWN_COMMAND.fullmatch(first["text"]) is None:
        return False
    follows_line = record.get("type") == "user" and text_at(record, "parentUuid") is not None
    return follows_line and _PROMPT_KEYS.isdisjoint(record)


_UNKNOWN_COMMAND = re.compile(r"Unknown skill: [\w:.-]{1,200}")
_PROMPT_KEYS = frozenset({"permissionMode", "promptSource", "thinkingMetadata", "todos"})


def line_error(record: Record, message: Record) -> Block | None:
    if record.get("isApiErrorMessage") is True or text_at(record, "error"):
        content = message.get("content")
        text = content if isinstance(content, str) else text_at(content[0], "text") if content else None
        details = pick(record, *_ERROR_DETAILS) or None
        return message_error(text_at(record, "error") or "api_error", text, details)
    if message.get("stop_reason") == "refusal":
        details = message.get("stop_details")
        return message_error("refusal", text_at(details, "explanation"), details or None)
    return None


_ERROR_DETAILS = ("error", "errorDetails", "apiErrorStatus", "cause", "request_id", "requestId")


def standard_usage(usage: Any) -> Block | None:
    """Return the usage. Input counts exclude cached tokens; output counts include thinking."""
    return token_usage(
        usage,
        input=count_at(usage, "input_tokens"),
        output=count_at(usage, "output_tokens"),
        cache_read=count_at(usage, "cache_read_input_tokens"),
        cache_creation=count_at(usage, "cache_creation_input_tokens"),
        reasoning=count_at(usage, "output_tokens_details", "thinking_tokens"),
        service_tier=text_at(usage, "service_tier"),
    )


def _string_ids(value: Any) -> tuple[str, ...]:
    return tuple(id for id in value if isinstance(id, str)) if isinstance(value, list) else ()


def request_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    system = record.get("system")
    messages = [
        Part(
            role=speaker_of_role(message_role(message, "user")),
            blocks=parse_content(message["content"], parse_block),
            original=message,
        )
        for message in record["messages"]
    ]
    if system is None:
        return messages
    return [Part(role="system", blocks=parse_content(system, parse_block), original=system), *messages]


def result_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of the end of a run: its text repeats the last response, and its usage is the total of all
    responses."""
    subtype = text_at(record, "subtype") or ""
    failed = record.get("is_error") is True or bool(record.get("errors")) or subtype.startswith("error_")
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    return [
        Part(
            role=None if not (texts or failed) else "assistant" if record.get("result") else "system",
            blocks=parsed.blocks if failed else texts,
            usage=standard_usage(record.get("usage")),
            metadata={"stop_reason": text_at(record, "stop_reason")},
            usage_by_model=_usage_by_model(record.get("modelUsage")),
            cost=cost_at(record, "total_cost_usd"),
            error=_run_error(record) if failed else None,
            relation="turn_end",
        )
    ]


def _usage_by_model(models: Any) -> dict[str, Block]:
    usages = {
        model: token_usage(
            None,
            input=count_at(usage, "inputTokens"),
            output=count_at(usage, "outputTokens"),
            cache_read=count_at(usage, "cacheReadInputTokens"),
            cache_creation=count_at(usage, "cacheCreationInputTokens"),
        )
        for model, usage in (models.items() if isinstance(models, dict) else ())
    }
    return {model: usage for model, usage in usages.items() if usage is not None}


def _run_error(record: Record) -> Block:
    text = "\n".join(_error_texts(record.get("errors"))) or text_at(record, "result")
    details = pick(record, "errors", "api_error_status")
    status = count_at(record, "api_error_status")
    subtype = text_at(record, "subtype") or "error"
    code = subtype if subtype != "success" else "error" if status is None else "api_error"
    return message_error(code, text or (None if status is None else f"HTTP {status}"), details or None)


def _error_texts(errors: Any) -> list[str]:
    """Return the texts of the errors of a run, which are texts or objects with a message."""
    each = errors if isinstance(errors, list) else [errors]
    texts = (error if isinstance(error, str) else text_at(error, "message") for error in each)
    return list(filter(None, texts))


def error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of an API error: a response body, a stream event, a line that a run prints, or a client's note
    about a failed request. `error` is the text of a printed line, but the code of a note."""
    details, is_printed = record.get("error"), record.get("type") == "error"
    inner = value_at(details, "error", "error") or value_at(details, "error") or details
    code = (
        _error_type(inner)
        or text_at(record, "code" if is_printed else "error")
        or text_at(record, "subtype")
        or wire_name(record)
        or "error"
    )
    text = (
        text_at(inner, "message")
        or text_at(details, "message")
        or (first_text(record, ("message", "error")) if is_printed else None)
        or _describe_retry(record, details)
    )
    return [Part(role="system", blocks=parsed.blocks, error=message_error(code, text, details or None))]


def _error_type(error: Any) -> str | None:
    """Return the type of an error, unless it is just `error`."""
    error_type = text_at(error, "type")
    return None if error_type == "error" else error_type


def _describe_retry(record: Record, details: Any) -> str | None:
    """Return a description of a failed request that the client retries, for records without a message."""
    status = count_at(details, "status") or count_at(record, "error_status")
    cause = text_at(record, "cause", "code")
    attempt = first_count(record, "retryAttempt", "attempt")
    max_attempts = first_count(record, "maxRetries", "max_retries")
    limit = "" if max_attempts is None else f" of {max_attempts}"
    progress = None if attempt is None else f"attempt {attempt}{limit}"
    phrases = [None if status is None else f"HTTP {status}", cause, progress]
    return ", ".join(filter(None, phrases)) or None


def queued_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part for a queue operation.

    A prompt typed during a turn waits in the queue, and may be repeated by the line that sends it.
    """
    operation = _QUEUE_OPERATIONS.get(text_at(record, "operation") or "enqueue")
    blocks = [] if all(block["type"] == "raw" for block in parsed.blocks) else parsed.blocks
    if operation is None or (operation in _WITH_CONTENT and not blocks):
        return []
    if operation != "held_copy":
        return [Part(role=None, blocks=blocks, relation=operation)]
    origin: Origin = "synthetic" if is_task_notice(blocks) else "prompt"
    return [Part(role="user", blocks=blocks, origin=origin, relation=operation)]


_QUEUE_OPERATIONS: Mapping[str, Relation] = {
    "dequeue": "take",
    "enqueue": "held_copy",
    "popAll": "withdrawal",
    "remove": "removal",
}
_WITH_CONTENT = ("held_copy", "withdrawal")


def attachment_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of a queued prompt where the model receives it. Other attachments are only for the model."""
    attachment = record["attachment"]
    if text_at(attachment, "type") != "queued_command":
        return [Part(role=None, relation="delivery_log")]
    log, blocks = Part(role=None, relation="delivery_log"), parse_content(attachment["prompt"], parse_block)
    line = {**record, **attachment}
    sender = find_sender(line, blocks)
    is_of_program = sender is not None and sender.is_program
    is_notice = attachment.get("commandMode") == "task-notification" or is_task_notice(blocks)
    is_synthetic = not is_person(sender) and (is_of_program or is_notice or _is_synthetic(line, {}))
    origin: Origin = "synthetic" if is_synthetic else "mid_turn"
    return [log, Part(role="user", blocks=blocks, origin=origin, sender=sender)]


def boundary_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the parts of a compaction boundary, which restarts the conversation."""
    return [*_root_parts(record), *system_parts(record, parsed)]


def system_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    names = ("retracted_message_uuids", "retractedMessageUuids")
    retracts = tuple(id for name in names for id in _string_ids(record.get(name)))
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    return [Part(role="system", blocks=texts, retracts=retracts)] if texts or retracts else []
