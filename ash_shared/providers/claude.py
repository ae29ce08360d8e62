"""The Claude family: Messages API, Claude Agent SDK (`stream-json`) and Claude Code session lines.

Sources: the block and event unions of the `anthropic` package, `SDKMessage` of `claude-agent-sdk`, and captured
session files, whose entry types are published nowhere. Both spellings of a key occur (`toolUseResult` on disk,
`tool_use_result` in the stream), and every record may carry keys that no published type names.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ash_shared.blocks import (
    CLASSES,
    MAX_BLOCKS,
    Block,
    LimitExceeded,
    is_native,
    is_valid,
    pick,
    raw_block,
    text_block,
    translated,
    wire_name,
)
from ash_shared.content import RawReason
from ash_shared.message import Facts, Role
from ash_shared.providers import Part, Provider, Record, RecordReading, Turn
from ash_shared.wire import count_at, first_text, milliseconds, text_at, token_usage, value_at

ROLES: Mapping[Any, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def read_block(block: Any) -> Block:
    """One element of a content list."""
    if is_native(block):
        return block  # type: ignore[no-any-return]  # a dict, as is_native says
    if block.__class__ is str:
        return text_block(block)
    wire = block.get("type") if block.__class__ is dict else None
    if wire.__class__ is not str:
        return raw_block("unknown_type", block)
    if wire in CLASSES:
        return _read_nested(block) if is_valid(block) else raw_block("malformed", block, wire)
    if wire in _TRANSLATIONS:
        return _translate(wire, block)
    return raw_block("control" if wire in _CONTROL_BLOCKS else "unknown_type", block, wire)


def _read_nested(block: Block) -> Block:
    """A native block; the list that a tool result may hold is read like any content list."""
    if block["type"] != "tool_result" or block.get("content").__class__ is not list:
        return block
    blocks = read_list(block["content"])
    same = all(read is wire for read, wire in zip(blocks, block["content"], strict=True))
    return block if same else {**block, "content": blocks}


def read_list(content: list[Any]) -> list[Block]:
    """A content list, element by element."""
    if len(content) > MAX_BLOCKS:
        raise LimitExceeded
    return [read_block(block) for block in content]


def _translate(wire: str, block: Block) -> Block:
    try:
        typed = _TRANSLATIONS[wire](block)
    except (KeyError, TypeError, AttributeError):
        return raw_block("malformed", block, wire)
    return typed if is_valid(typed) else raw_block("malformed", block, wire)


def _redacted_thinking(block: Block) -> Block:
    typed = {"type": "thinking", "thinking": "", "redacted": True, "data": block["data"]}
    return translated(block, typed, {"data"}, "redacted_thinking")


def _tool_use(wire: str, executor: str) -> Callable[[Block], Block]:
    names = ("id", "name", "input", "server_name")
    return lambda block: translated(
        block, {"type": "tool_use", **pick(block, *names), "executor": executor}, names, wire
    )


def _server_result(wire: str) -> Callable[[Block], Block]:
    """The answer of a tool that ran at Anthropic: its object, or list, stays whole under `structured`."""

    def translate(block: Block) -> Block:
        answer = block["content"]
        name = answer.get("type") if answer.__class__ is dict else None
        typed = {
            "type": "tool_result",
            **pick(block, "tool_use_id"),
            **(_ANSWERS[name](answer) if name in _ANSWERS else {}),
            **({"is_error": True} if name.__class__ is str and name.endswith("_error") else {}),
            "structured": answer,
        }
        return translated(block, typed, ("tool_use_id", "content"), wire)

    return translate


def _execution(answer: Record) -> Block:
    texts = [_text(answer[name]) for name in ("stdout", "stderr") if name in answer]
    files = [
        read_block(translated(output, _uploaded(output["file_id"]), {"file_id"}, output["type"]))
        for output in answer.get("content") or []
    ]
    code = {"exit_code": answer["return_code"]} if "return_code" in answer else {}
    return {"content": texts + files, **code}


def _text(text: Any) -> Block:
    return read_block({"type": "text", "text": text})


def _uploaded(file_id: Any) -> Block:
    return {"type": "file", "source": {"type": "file", "file_id": file_id}}


_ANSWERS: Mapping[Any, Callable[[Record], Block]] = {
    "advisor_result": lambda answer: {"content": [_text(answer["text"])]},
    "bash_code_execution_result": _execution,
    "code_execution_result": _execution,
    "encrypted_code_execution_result": _execution,
    "web_fetch_result": lambda answer: {"content": [read_block(answer["content"])]},
}


def _mcp_result(block: Block) -> Block:
    names = ("tool_use_id", "is_error", "content")
    typed = {"type": "tool_result", **pick(block, *names)}
    return _read_nested(translated(block, typed, names, "mcp_tool_result"))


def _document(block: Block) -> Block:
    names = ("source", "title", "context")
    typed = {"type": "file", "source": block["source"], **pick(block, *names), "mediaClass": "document"}
    return translated(block, typed, names, "document")


def _search_result(block: Block) -> Block:
    if block["source"].__class__ is not str:
        raise TypeError
    typed = {"type": "file", "source": {"type": "url", "url": block["source"]}, **pick(block, "title")}
    return translated(block, typed, ("source", "title"), "search_result")


def _container_upload(block: Block) -> Block:
    return translated(block, _uploaded(block["file_id"]), {"file_id"}, "container_upload")


def _compaction(block: Block) -> Block:
    if block.get("content").__class__ is not str:
        return raw_block("opaque", block, "compaction")
    return translated(block, text_block(block["content"], "summary"), {"content"}, "compaction")


_SERVER_RESULTS = (
    "advisor_tool_result",
    "bash_code_execution_tool_result",
    "code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "web_fetch_tool_result",
    "web_search_tool_result",
)

_TRANSLATIONS: Mapping[str, Callable[[Block], Block]] = {
    "compaction": _compaction,
    "container_upload": _container_upload,
    "document": _document,
    "mcp_tool_result": _mcp_result,
    "mcp_tool_use": _tool_use("mcp_tool_use", "mcp"),
    "redacted_thinking": _redacted_thinking,
    "search_result": _search_result,
    "server_tool_use": _tool_use("server_tool_use", "server"),
    **{wire: _server_result(wire) for wire in _SERVER_RESULTS},
}

_CONTROL_BLOCKS = frozenset(
    {
        "browser_state",
        "fallback",
        "mcp_tool_listing",
        "tool_addition",
        "tool_reference",
        "tool_removal",
    }
)

_BLOCK_TYPES = frozenset(CLASSES) | frozenset(_TRANSLATIONS) | _CONTROL_BLOCKS


def read_content(content: Any) -> list[Block]:
    """The `content` of a message: a string, or a list of blocks."""
    if content.__class__ is str:
        return [text_block(content)]
    if content.__class__ is list:
        return read_list(content)
    raise TypeError


def _read_line(record: Record) -> RecordReading:
    """A `user` or `assistant` line of a stream or a session file."""
    message = record.get("message")
    if message.__class__ is not dict:
        message = {"content": message}
    content = message.get("content")
    blocks = _line_blocks(record, record.get("content") if content is None else content)
    if record.get("isCompactSummary") is True:
        blocks = [{"variant": "summary", **block} if block["type"] == "text" else block for block in blocks]
    return RecordReading("message", _role(message, ROLES[record["type"]]), blocks)


def _role(message: Record, otherwise: Role) -> Role:
    role = message.get("role")
    return ROLES.get(role, otherwise) if role.__class__ is str else otherwise


def _line_blocks(record: Record, content: Any) -> list[Block]:
    if content.__class__ in (str, list):
        return read_content(content)
    results = [] if content is not None else [name for name in _TOOL_RESULTS if record.get(name) is not None]
    if results:
        return [_lone_result(record[name], name) for name in results]
    return [raw_block("malformed", record, record["type"])]


_TOOL_RESULTS = ("toolUseResult", "tool_use_result")
"""The structured twin of a tool result, on disk and in the stream."""


def _lone_result(answer: Any, spelling: str) -> Block:
    """The tool result of a line that carries only the structured twin of one."""
    typed: Block = {"type": "tool_result", "content": answer}
    if answer.__class__ is dict:
        text = pick(answer, "content") or ({"content": answer["stdout"]} if "stdout" in answer else {})
        typed = {
            "type": "tool_result",
            **pick(answer, "tool_use_id", "is_error"),
            **text,
            "structured": answer,
        }
    return _read_nested({**typed, "source_type": spelling})


def _read_result(record: Record) -> list[Block]:
    """What a run ended with; errors of any other form than a list of texts are not what the type promises."""
    result, errors = record.get("result"), record.get("errors") or []
    if errors.__class__ is not list or (errors and result is not None and result.__class__ is not str):
        raise TypeError
    texts = [text_block(result, "result")] if result.__class__ is str else []
    return texts + [text_block(error, "error") for error in errors] or _control(record)


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
"""What every record may carry: not content, and kept in the stored text."""


def _notice(*names: str, variant: str) -> Callable[[Record], list[Block]]:
    """Records whose content is one text; it is under the first of these names that holds a string."""

    def read(record: Record) -> list[Block]:
        for name in names:
            if record.get(name).__class__ is str:
                typed = text_block(record[name], variant)
                return [translated(record, typed, _ENVELOPE | {name}, wire_name(record) or "")]
        return _control(record)

    return read


def _summary(record: Record) -> list[Block]:
    typed = text_block(record["summary"], "summary")
    return [translated(record, typed, _ENVELOPE | {"summary"}, record["type"])]


def _read_queued(record: Record) -> list[Block]:
    """What was typed while a turn was running; operations without a text are marks."""
    content = record.get("content")
    return read_content(content) if content.__class__ in (str, list) else _control(record)


def _control(record: Record) -> list[Block]:
    return [raw_block("control", record, wire_name(record))]


def _unknown(record: Record) -> list[Block]:
    return [raw_block("unknown_type", record, wire_name(record))]


def _read_system(record: Record) -> list[Block]:
    subtype = record.get("subtype")
    if subtype.__class__ is str and subtype not in _SYSTEM:
        return _unknown(record)
    return _SYSTEM.get(subtype, _NOTICE)(record)


_NOTICE = _notice("content", "text", variant="notice")

_SYSTEM: Mapping[Any, Callable[[Record], list[Block]]] = {
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
        _control,
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
        _NOTICE,
    ),
    "permission_denied": _notice("message", variant="error"),
}

_RECORDS: Mapping[str, Callable[[Record], list[Block]]] = {
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
        _control,
    ),
    "error": _control,
    "queue-operation": _read_queued,
    "result": _read_result,
    "summary": _summary,
    "system": _read_system,
    "tool_use_summary": _summary,
}
"""Records that are written beside the conversation, by `type`."""

_STREAM = frozenset(
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
    """A request body: the system text, then every message; tools and parameters are envelope."""
    if "content" in record:
        raise TypeError
    blocks = read_content(record["system"]) if record.get("system") is not None else []
    for message in record["messages"]:
        blocks += read_content(message["content"])
    if len(blocks) > MAX_BLOCKS:
        raise LimitExceeded
    return RecordReading("message", "user", blocks)


def _read_untyped(record: Record) -> RecordReading:
    """A message of the API without a `type`, a request, or a marked answer such as a token count."""
    if "messages" in record:
        return _read_request(record)
    if "content" in record:
        return RecordReading("message", _role(record, "user"), read_content(record["content"]))
    reason: RawReason = "control" if _is_token_count(record) else "unknown_type"
    return RecordReading("record", "system", [raw_block(reason, record)])


def _is_token_count(record: Record) -> bool:
    return "input_tokens" in record and record.keys() <= _TOKEN_COUNT


_TOKEN_COUNT = frozenset({"input_tokens", "context_management"})


def _read_answer(record: Record) -> RecordReading:
    """A whole answer of the API."""
    return RecordReading("message", _role(record, "assistant"), read_content(record["content"]))


def _read_completion(record: Record) -> RecordReading:
    """An answer of the text completions API of old."""
    return RecordReading("message", "assistant", [text_block(record["completion"])])


def _read_fragment(record: Record) -> RecordReading:
    return RecordReading("chunk", "assistant", [raw_block("stream_fragment", record, record["type"])])


_CALLS = frozenset({"thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"})


def _read_bare_block(record: Record) -> RecordReading:
    role: Role = "assistant" if record["type"] in _CALLS else "user"
    return RecordReading("message", role, [read_block(record)])


def _read_beside(record: Record) -> RecordReading:
    """What is written beside the conversation."""
    return RecordReading("record", "system", _RECORDS.get(record["type"], _unknown)(record))


_READERS: Mapping[str, Callable[[Record], RecordReading]] = {
    **dict.fromkeys(_STREAM, _read_fragment),
    **dict.fromkeys(_BLOCK_TYPES, _read_bare_block),
    "assistant": _read_line,
    "completion": _read_completion,
    "message": _read_answer,
    "user": _read_line,
}


def read(record: Record) -> RecordReading:
    """Any record of the family."""
    wire = record.get("type")
    return _READERS.get(wire, _read_beside)(record) if wire.__class__ is str else _read_untyped(record)


_ANSWER_KEYS = frozenset({"model", "stop_reason", "usage"})
_REQUEST_KEYS = frozenset(
    {"anthropic_version", "betas", "container", "context_management", "mcp_servers", "system", "thinking"}
)
_FOREIGN_KEYS = frozenset(
    {
        "annotations",
        "audio",
        "function_call",
        "message",
        "parts",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "stopReason",
        "tool_call_id",
        "tool_calls",
    }
)


def _is_content(content: Any) -> bool:
    """Whether this could be the content of a message: a string, or blocks that are all of this vocabulary."""
    if content.__class__ is list:
        return all(
            block.__class__ is str or (block.__class__ is dict and _of(block.get("type"), _BLOCK_TYPES))
            for block in content
        )
    return content.__class__ is str


def _of(value: Any, names: Iterable[str]) -> bool:
    return value.__class__ is str and value in names


def _is_message(record: Any) -> bool:
    """A message parameter: role and content, and nothing that only others write."""
    return (
        record.__class__ is dict
        and _of(record.get("role"), ROLES)
        and not record.keys() & _FOREIGN_KEYS
        and _is_content(record.get("content"))
    )


def _is_request(record: Record) -> bool:
    """A body with marks of this API; without any, a model of its name, or none and no parameter of others."""
    messages = record["messages"]
    if messages.__class__ is not list:
        return False
    if record.keys() & _REQUEST_KEYS:
        return any(map(_is_message, messages))
    return all(map(_is_message, messages)) and (_is_own_model(record) or any(map(_has_own_blocks, messages)))


def _is_own_model(record: Record) -> bool:
    """Gateways of other forms name a model with its vendor: `anthropic/claude-…`."""
    model = record.get("model")
    if model.__class__ is str:
        return "claude" in model and "/" not in model
    tools = record.get("tools")
    wrapped = tools.__class__ is list and any(value_at(tool, "function") for tool in tools)
    return record.keys() <= _PARAMETERS and not wrapped


_PARAMETERS = frozenset(
    {
        "max_tokens",
        "messages",
        "metadata",
        "stop_sequences",
        "stream",
        "temperature",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)


def _has_own_blocks(message: Record) -> bool:
    content = message["content"]
    return content.__class__ is list and any(
        block.__class__ is dict and _of(block.get("type"), _OWN_BLOCKS) for block in content
    )


_OWN_BLOCKS = _BLOCK_TYPES - {"file", "raw", "text", "thinking"}


def _recognizes_untyped(record: Record) -> bool:
    if "messages" in record:
        return _is_request(record)
    return _is_message(record) or _is_token_count(record)


def _is_answer(record: Record) -> bool:
    content = record.get("content")
    if record.keys() & _ANSWER_KEYS:
        return content.__class__ in (str, list)
    return content.__class__ is list and _is_message(record)


def _is_line(record: Record) -> bool:
    if "message" in record:
        return not _is_cursors_line(record)
    return not record.keys() & {"parts", "kwargs"} and _is_content(record.get("content", ""))


_OWN_KEYS = frozenset({"uuid", "num_turns", "parent_tool_use_id", "tools"})
"""A line of Claude's that has none of them may be one of Cursor's, who named its types after Claude's."""
_CURSORS_MESSAGE = frozenset({"role", "content"})
_SESSION_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _is_cursors_line(record: Record) -> bool:
    message = record["message"]
    return (
        message.__class__ is dict
        and message.keys() == _CURSORS_MESSAGE
        and "session_id" in record
        and not record.keys() & _OWN_KEYS
        and ("timestamp_ms" in record or _is_uuid(record["session_id"]))
        and message["content"].__class__ is list
        and all(block.__class__ is dict and block.get("type") == "text" for block in message["content"])
    )


def _is_uuid(value: Any) -> bool:
    return value.__class__ is str and _SESSION_ID.fullmatch(value) is not None


def _is_result(record: Record) -> bool:
    """Cursor's has both of these keys and none of Claude's own; Gemini CLI's has counts of its own."""
    if "stats" in record:
        return False
    return bool(record.keys() & _OWN_KEYS) or not {"session_id", "duration_ms"} <= record.keys()


def _is_system(record: Record) -> bool:
    return (
        record.get("subtype") != "init" or "permissionMode" not in record or bool(record.keys() & _OWN_KEYS)
    )


def _is_block(record: Record) -> bool:
    """A bare block, with what tells that it is no other's: OpenCode's parts belong to a message, Vercel's files have a
    media type, and results of tools are written by many."""
    if record["type"] == "tool_result" and not record.keys() & {"content", "tool_use_id"}:
        return False
    return not record.keys() & {"mediaType", "messageID", "sessionID"} and read_block(record)["type"] != "raw"


def _is_start(record: Record) -> bool:
    """The start of a streamed answer; pi names its own the same, and spells the reason to stop in camel case."""
    message = record.get("message")
    return message.__class__ is dict and "usage" in message and "stopReason" not in message


_RECOGNIZED: Mapping[str, Callable[[Record], bool]] = {
    **dict.fromkeys(_RECORDS, lambda record: True),
    **dict.fromkeys(_STREAM, lambda record: True),
    **dict.fromkeys(_BLOCK_TYPES, _is_block),
    "assistant": _is_line,
    "completion": lambda record: record.get("completion").__class__ is str,
    "error": lambda record: record.get("error").__class__ is dict and "sessionID" not in record,
    "message": _is_answer,
    "message_start": _is_start,
    "result": _is_result,
    "system": _is_system,
    "user": _is_line,
}


def recognizes(record: Record) -> bool:
    """Whether a record is of the Claude family."""
    wire = record.get("type")
    if wire.__class__ is not str:
        return _recognizes_untyped(record)
    return wire in _RECOGNIZED and _RECOGNIZED[wire](record)


def facts(record: Record) -> Facts:
    """What a line says beside its content; on disk in camel case, in the stream in snake case."""
    return Facts(
        uuid=text_at(record, "uuid"),
        timestamp=milliseconds(record.get("timestamp")),
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
        return [Part(role=_turn_role(reading.role), blocks=reading.blocks)]
    said = [block for block in reading.blocks if block["type"] == "text"]
    return [Part(role="system", blocks=said)] if said else []


def _turn_role(role: Role) -> Turn:
    return "user" if role == "tool" else role


def _line_parts(record: Record, reading: RecordReading) -> list[Part]:
    message = record.get("message")
    return [_part(record, message if message.__class__ is dict else {}, reading)]


def _part(record: Record, message: Record, reading: RecordReading) -> Part:
    """A line and the API message in it, which is the line itself where an answer stands alone."""
    id = text_at(message, "id")
    return Part(
        role=_turn_role(reading.role),
        blocks=reading.blocks,
        key=id if reading.role == "assistant" else None,
        usage=_usage(message.get("usage")),
        metadata={
            "messageId": id,
            "model": text_at(message, "model"),
            "stop_reason": text_at(message, "stop_reason"),
            "stop_sequence": text_at(message, "stop_sequence"),
            "agentId": first_text(record, ("agentId", "agent_id")),
            "parentToolUseId": first_text(
                record, ("parent_tool_use_id", "parentToolUseID", "parentToolUseId")
            ),
            "toolUseResult": next((record[name] for name in _TOOL_RESULTS if name in record), None),
            "synthetic": _is_synthetic(record, message) or None,
        },
        error=_line_error(record, message),
        retracts=_ids(record.get("supersedes")),
    )


def _is_synthetic(record: Record, message: Record) -> bool:
    marks = (record.get(name) is True for name in ("isMeta", "isSynthetic", "isCompactSummary"))
    return message.get("model") == "<synthetic>" or any(marks)


def _line_error(record: Record, message: Record) -> Block | None:
    if record.get("isApiErrorMessage") is True or text_at(record, "error"):
        content = message.get("content")
        text = content if content.__class__ is str else text_at(content[0], "text") if content else None
        return _error(text_at(record, "error") or "api_error", text, pick(record, *_ERROR_DETAILS))
    if message.get("stop_reason") == "refusal":
        details = message.get("stop_details")
        return _error("refusal", text_at(details, "explanation"), details)
    return None


_ERROR_DETAILS = ("error", "errorDetails", "apiErrorStatus", "cause", "request_id", "requestId")


def _error(code: str, message: str | None, details: Any) -> Block:
    return {"code": code, "message": message or code, **({"details": details} if details else {})}


def _usage(usage: Any) -> Block | None:
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
    said = [] if system is None else [Part(role="system", blocks=read_content(system))]
    return said + [
        Part(role=_turn_role(_role(message, "user")), blocks=read_content(message["content"]))
        for message in record["messages"]
    ]


def _result_parts(record: Record, reading: RecordReading) -> list[Part]:
    """The end of a run: its text repeats the last answer, and its usage is that of all answers."""
    failed = record.get("is_error") is True or bool(record.get("errors"))
    error = _run_error(record) if failed else None
    cost = record.get("total_cost_usd")
    texts = [block for block in reading.blocks if block["type"] == "text"]
    return [
        Part(
            role=None if not (texts or failed) else "assistant" if record.get("result") else "system",
            blocks=reading.blocks if failed else texts,
            echo=True,
            usage=_usage(record.get("usage")),
            usage_of_turn=True,
            metadata={"stop_reason": text_at(record, "stop_reason")},
            total_cost=float(cost) if cost.__class__ in (int, float) else None,
            error=error,
        )
    ]


def _run_error(record: Record) -> Block:
    errors = [error for error in record.get("errors") or [] if error.__class__ is str]
    text = "\n".join(errors) or text_at(record, "result")
    return _error(text_at(record, "subtype") or "error", text, pick(record, "errors", "api_error_status"))


def _error_parts(record: Record, reading: RecordReading) -> list[Part]:
    """An error of the API: a body, an event of its stream, or what a client notes of a failed request."""
    details = record.get("error")
    code = text_at(details, "type") or text_at(details, "error", "type") or wire_name(record) or "error"
    text = text_at(details, "message") or text_at(details, "error", "message")
    return [Part(role="system", blocks=reading.blocks, error=_error(code, text, details))]


def _queued_parts(record: Record, reading: RecordReading) -> list[Part]:
    """A prompt typed in the middle of a turn: the line that sends it may follow."""
    if reading.blocks[0]["type"] == "raw":
        return []
    return [Part(role="user", blocks=reading.blocks, echo=True)]


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


PROVIDER = Provider(
    source="claude", recognizes=recognizes, read=read, read_block=read_block, facts=facts, parts=parts
)
