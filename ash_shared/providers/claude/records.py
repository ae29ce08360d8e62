"""Content of each Claude record: lines, responses, requests and records outside the conversation."""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    pick,
    raw_block,
    read_content,
    read_nested,
    renamed,
    text_block,
    translated,
    wire_name,
)
from ash_shared.model.message import Role
from ash_shared.providers._kit.contract import (
    Record,
    RecordReading,
    chunk_reading,
    control_reading,
    unknown_reading,
)
from ash_shared.providers._kit.json_fields import is_one_of
from ash_shared.providers.claude.content import BLOCK_TYPES, ROLES, read_block


def _read_line(record: Record) -> RecordReading:
    """Read a `user` or `assistant` line of a stream or a session file."""
    message = record.get("message")
    if message.__class__ is not dict:
        message = {"content": message}
    content = message.get("content")
    blocks = _line_blocks(record, record.get("content") if content is None else content)
    if record.get("isCompactSummary") is True:
        blocks = [{"variant": "summary", **block} if block["type"] == "text" else block for block in blocks]
    return RecordReading("message", message_role(message, ROLES[record["type"]]), blocks)


def message_role(message: Record, default: Role) -> Role:
    role = message.get("role")
    return ROLES.get(role, default) if role.__class__ is str else default


def _line_blocks(record: Record, content: Any) -> list[Block]:
    if content.__class__ in (str, list):
        return read_content(content, read_block)
    results = [] if content is not None else [name for name in TOOL_RESULTS if record.get(name) is not None]
    if results:
        return [_read_structured_result(record[name], name) for name in results]
    return [raw_block("malformed", record, record["type"])]


TOOL_RESULTS = ("toolUseResult", "tool_use_result")
"""Keys of the structured copy of a tool result, on disk and in the stream."""


def _read_structured_result(result: Any, spelling: str) -> Block:
    """Read the tool result of a line that has only the structured copy."""
    typed: Block = {"type": "tool_result", "content": result}
    if result.__class__ is dict:
        text = pick(result, "content") or renamed(result, content="stdout")
        typed = {
            "type": "tool_result",
            **pick(result, "tool_use_id", "is_error"),
            **text,
            "structured": result,
        }
    return read_nested({**typed, "source_type": spelling}, read_block)


def _read_result(record: Record) -> list[Block]:
    """Read the result of a run. Raises TypeError if the errors are not a list of texts."""
    result, errors = record.get("result"), record.get("errors") or []
    if errors.__class__ is not list or (errors and result is not None and result.__class__ is not str):
        raise TypeError
    texts = [text_block(result, "result")] if result.__class__ is str else []
    return texts + [text_block(error, "error") for error in errors] or _control_block(record)


_ENVELOPE = frozenset(
    {
        "type",
        "subtype",
        "agentId",
        "agent_id",
        "cwd",
        "entrypoint",
        "gitBranch",
        "isMeta",
        "isSidechain",
        "logicalParentUuid",
        "parentUuid",
        "parent_tool_use_id",
        "sessionId",
        "session_id",
        "slug",
        "timestamp",
        "userType",
        "uuid",
        "version",
    }
)
"""Keys that any record may have; they are not content and stay in the stored text."""


def _text_reader(*keys: str, variant: str) -> Callable[[Record], list[Block]]:
    """Return a reader of records with one text, under the first of these keys whose value is a string."""

    def read(record: Record) -> list[Block]:
        for key in keys:
            if record.get(key).__class__ is str:
                typed = text_block(record[key], variant)
                return [translated(record, typed, _ENVELOPE | {key}, wire_name(record) or "")]
        return _control_block(record)

    return read


def _read_summary(record: Record) -> list[Block]:
    typed = text_block(record["summary"], "summary")
    return [translated(record, typed, _ENVELOPE | {"summary"}, record["type"])]


def _read_queued(record: Record) -> list[Block]:
    """Read an operation of the queue of prompts typed during a turn; without a text it is a control record."""
    content = record.get("content")
    return read_content(content, read_block) if content.__class__ in (str, list) else _control_block(record)


def _control_block(record: Record) -> list[Block]:
    return [raw_block("control", record, wire_name(record))]


def _unknown_block(record: Record) -> list[Block]:
    return [raw_block("unknown_type", record, wire_name(record))]


def _read_system(record: Record) -> list[Block]:
    subtype = record.get("subtype")
    if subtype.__class__ is str and subtype not in _SYSTEM_READERS:
        return _unknown_block(record)
    return _SYSTEM_READERS.get(subtype, _read_notice)(record)


_read_notice = _text_reader("content", "text", variant="notice")

_SYSTEM_READERS: Mapping[Any, Callable[[Record], list[Block]]] = {
    **dict.fromkeys(
        (
            "api_error",
            "api_retry",
            "background_tasks_changed",
            "bridge_status",
            "commands_changed",
            "compact_boundary",
            "control_request_progress",
            "elicitation_complete",
            "error",
            "files_persisted",
            "hook_progress",
            "hook_response",
            "hook_started",
            "init",
            "memory_recall",
            "microcompact_boundary",
            "mirror_error",
            "plugin_install",
            "scheduled_task_fire",
            "session_end",
            "session_start",
            "session_state_changed",
            "session_writes_lost",
            "status",
            "stop_hook_summary",
            "task_notification",
            "task_progress",
            "task_started",
            "task_updated",
            "thinking_tokens",
            "turn_duration",
            "worker_shutting_down",
        ),
        _control_block,
    ),
    **dict.fromkeys(
        (
            "api_refusal",
            "away_summary",
            "informational",
            "local_command",
            "local_command_output",
            "model_refusal_fallback",
            "model_refusal_no_fallback",
            "notification",
        ),
        _read_notice,
    ),
    "permission_denied": _text_reader("message", variant="error"),
}

RECORDS: Mapping[str, Callable[[Record], list[Block]]] = {
    **dict.fromkeys(
        (
            "active_goal",
            "agent-color",
            "agent-name",
            "agent-setting",
            "ai-title",
            "atis-latch",
            "attachment",
            "attribution-snapshot",
            "auth_status",
            "bridge-session",
            "companion_intro",
            "content-replacement",
            "control_cancel_request",
            "control_request",
            "control_response",
            "conversation_reset",
            "custom-title",
            "file-history-snapshot",
            "frame-link",
            "keep_alive",
            "last-prompt",
            "mode",
            "permission-mode",
            "pr-link",
            "progress",
            "prompt_suggestion",
            "rate_limit_event",
            "relocated",
            "session-env",
            "started",
            "tag",
            "tool_progress",
            "worktree-state",
        ),
        _control_block,
    ),
    "error": _control_block,
    "queue-operation": _read_queued,
    "result": _read_result,
    "summary": _read_summary,
    "system": _read_system,
    "tool_use_summary": _read_summary,
}
"""Readers of records outside the conversation, by `type`."""

STREAM = frozenset(
    {
        "content_block_delta",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_start",
        "message_stop",
        "ping",
        "stream_event",
    }
)


def _read_request(record: Record) -> RecordReading:
    """Read a request body: the system text, then every message. Tools and parameters are not content."""
    if "content" in record:
        raise TypeError
    blocks = read_content(record["system"], read_block) if record.get("system") is not None else []
    for message in record["messages"]:
        blocks += read_content(message["content"], read_block)
    return RecordReading("message", "user", bounded(blocks))


def _read_untyped(record: Record) -> RecordReading:
    """Read an API message without a `type`, a request, or a token count."""
    if "messages" in record:
        return _read_request(record)
    if "content" in record:
        return RecordReading(
            "message", message_role(record, "user"), read_content(record["content"], read_block)
        )
    return control_reading(record) if is_token_count(record) else unknown_reading(record)


def is_token_count(record: Record) -> bool:
    return "input_tokens" in record and record.keys() <= _TOKEN_COUNT_KEYS


_TOKEN_COUNT_KEYS = frozenset({"input_tokens", "context_management"})


def _read_response(record: Record) -> RecordReading:
    """Read a complete response of the API."""
    return RecordReading(
        "message", message_role(record, "assistant"), read_content(record["content"], read_block)
    )


def _read_completion(record: Record) -> RecordReading:
    """Read a response of the legacy text completions API."""
    return RecordReading("message", "assistant", [text_block(record["completion"])])


_ASSISTANT_BLOCKS = frozenset(
    {"thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"}
)


def _read_bare_block(record: Record) -> RecordReading:
    role: Role = "assistant" if record["type"] in _ASSISTANT_BLOCKS else "user"
    return RecordReading("message", role, [read_block(record)])


def _read_non_message(record: Record) -> RecordReading:
    """Read a record outside the conversation."""
    return RecordReading("record", "system", RECORDS.get(record["type"], _unknown_block)(record))


_READERS: Mapping[str, Callable[[Record], RecordReading]] = {
    **dict.fromkeys(STREAM, chunk_reading),
    **dict.fromkeys(BLOCK_TYPES, _read_bare_block),
    "assistant": _read_line,
    "completion": _read_completion,
    "message": _read_response,
    "user": _read_line,
}


def unwrap(record: Record) -> Record:
    """Return the line inside the envelope `{type, timestamp, data}` of some clients: its `data`, or the `metadata`
    in `data`."""
    data = record.get("data")
    if data.__class__ is not dict or not is_one_of(record.get("type"), _WRAPPED_TYPES) or "message" in record:
        return record
    line = data.get("metadata", data)
    if line.__class__ is not dict or ("message" not in line and line.get("type") != record["type"]):
        return record
    return {"type": record["type"], "timestamp": record.get("timestamp"), **line}


_WRAPPED_TYPES = frozenset({"assistant", "result", "stream_event", "system", "user"})


def read(record: Record) -> RecordReading:
    """Read any record of the family."""
    wire_type = record.get("type")
    return (
        _READERS.get(wire_type, _read_non_message)(record)
        if wire_type.__class__ is str
        else _read_untyped(record)
    )
