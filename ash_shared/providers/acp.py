"""Messages of the Agent Client Protocol: JSON-RPC between an editor and an agent, in both directions.

Source: its schema, version 1 (1.7) and the draft of version 2. In version 1, the response to `session/prompt` ends the
turn; in version 2, a `state_update` does. `session/update` notifications have the content, mostly in chunks
without an end.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from ash_shared.model.blocks import (
    Block,
    bounded,
    control_block,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.message import RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    chunk_record,
    control_record,
    speaker_of_role,
    unknown_record,
)
from ash_shared.records.json_fields import (
    count_at,
    is_integer,
    is_one_of,
    list_or_empty,
    message_error,
    mime_fields,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Chunk, ChunkEnd, Relation, Scope, Step, TurnEnd, TurnStart

# Content blocks, as in MCP.


def _translate_image(block: Block) -> Block:
    source = {"type": "base64", **renamed(block, media_type="mimeType", data="data")}
    return translated(block, {"type": "image", "source": source}, {"data", "mimeType"}, "image")


def _translate_audio(block: Block) -> Block:
    source = {"type": "base64", **renamed(block, media_type="mimeType", data="data")}
    typed = {"type": "file", **mime_fields(block["mimeType"]), "source": source}
    return translated(block, typed, {"data", "mimeType"}, "audio")


def _translate_link(block: Block) -> Block:
    mime = text_at(block, "mimeType")
    source = {"type": "url", "url": block["uri"]}
    typed = {"type": "file", **mime_fields(mime), **renamed(block, filename="name"), **pick(block, "title")}
    consumed = {"uri", "name", "title"} | (set() if mime is None else {"mimeType"})
    return translated(block, {**typed, "source": source}, consumed, "resource_link")


def _translate_resource(block: Block) -> Block:
    resource = block["resource"]
    encoding, key = ("text", "text") if isinstance(resource.get("text"), str) else ("base64", "blob")
    mime = text_at(resource, "mimeType")
    source = {"type": encoding, "data": resource[key]}
    typed = {"type": "file", **mime_fields(mime), "title": resource["uri"], "source": source}
    rest = without(resource, "uri", key, *(() if mime is None else ("mimeType",)))
    return with_extra(translated(block, typed, {"resource"}, "resource"), rest)


_CONTENT: Mapping[str, Callable[[Block], Block]] = {
    "audio": _translate_audio,
    "content": control_block,
    "diff": control_block,
    "image": _translate_image,
    "resource": _translate_resource,
    "resource_link": _translate_link,
    "terminal": control_block,
    "text": lambda block: translated(block, text_block(block["text"]), {"text"}, "text"),
}


def parse_block(block: Any) -> Block:
    name = text_at(block, "type") or ""
    if name not in _CONTENT:
        return raw_block("unknown_type", block, name or None)
    if name == "text" and block.keys() == {"type", "text"} and isinstance(block["text"], str):
        return dict(block)
    return translate(name, block, _CONTENT[name])[0]


def _parse_content(content: Any) -> list[Block]:
    """Parse the content of a message; chunks have a single block."""
    return bounded([parse_block(block) for block in (content if isinstance(content, list) else [content])])


def _result_content(items: Any) -> Any:
    """Return the content of a result; a single text as such."""
    blocks = [
        parse_block(item["content"] if text_at(item, "type") == "content" else item)
        for item in list_or_empty(items)
    ]
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0].keys() == {"type", "text"} else bounded(blocks)


# Updates.


def _update(record: Record) -> Record:
    """Return the update in a notification. Raises KeyError or TypeError for other records."""
    update = record["params"]["update"]
    if not isinstance(update, dict):
        raise TypeError
    return update


def _update_name(record: Record) -> str:
    return f"session/update/{text_at(_update(record), 'sessionUpdate')}"


def _parent_call(update: Record) -> str | None:
    return text_at(update, "_meta", "parentToolCallId")


def _scoped(update: Record, steps: Iterable[Step]) -> list[Step]:
    call = _parent_call(update)
    return [*steps] if call is None else [Scope(call), *steps]


def _parse_message(role: Role) -> Callable[[Record], ParsedRecord]:
    def parse(record: Record) -> ParsedRecord:
        update = _update(record)
        blocks = _parse_content(update["content"])
        if not blocks or _is_empty(blocks):
            return control_record(record, _update_name(record))
        if text_at(update, "sessionUpdate") in _THOUGHTS:
            blocks = [_as_thinking(block) for block in blocks]
        return ParsedRecord("message", role, blocks)

    return parse


_THOUGHTS = ("agent_thought", "agent_thought_chunk")


def _is_empty(blocks: list[Block]) -> bool:
    return all(block["type"] == "text" and block["text"] == "" for block in blocks)


def _as_thinking(block: Block) -> Block:
    if block["type"] != "text":
        return block
    return {"type": "thinking", "thinking": block["text"], **without(block, "type", "text")}


def _chunk_parts(role: Role) -> Callable[[Record, ParsedRecord], list[Part]]:
    """Return the function for the parts of a chunk, which is appended to its message, or else to the last one."""

    def parts(record: Record, parsed: ParsedRecord) -> list[Part]:
        update = _update(record)
        id = text_at(update, "messageId")
        usage = _standard_usage(value_at(update, "_meta", "usage"))
        usages = [] if usage is None else [Part(role=None, usage=usage, parent_call=_parent_call(update))]
        if parsed.kind != "message":
            return usages
        unnamed: Relation = "continuation" if role == "assistant" else "new"
        message = Part(
            role=speaker_of_role(role),
            blocks=parsed.blocks,
            key=id,
            relation=unnamed if id is None else "section",
            message_id=id,
            parent_call=_parent_call(update),
        )
        return [message, *usages]

    return parts


def _chunk_steps(kind: Literal["text", "thinking"]) -> Callable[[Record, ParsedRecord], list[Step]]:
    other: Literal["text", "thinking"] = "thinking" if kind == "text" else "text"
    parts = _chunk_parts("assistant")

    def steps(record: Record, parsed: ParsedRecord) -> list[Step]:
        update = _update(record)
        usages: list[Step] = [part for part in parts(record, parsed) if part.role is None]
        if parsed.kind != "message":
            return _scoped(update, usages)
        [block] = parsed.blocks
        if block["type"] not in ("text", "thinking"):
            return _scoped(update, [ChunkEnd(), *parts(record, parsed)])
        chunk = Chunk(
            kind, block[block["type"]], kind, anonymous_slot=True, response=text_at(update, "messageId")
        )
        return _scoped(update, [ChunkEnd(kinds=(other,)), chunk, *usages])

    return steps


def _message_parts(role: Role) -> Callable[[Record, ParsedRecord], list[Part]]:
    """Return the function for the parts of a whole message, which replaces its earlier content."""

    def parts(record: Record, parsed: ParsedRecord) -> list[Part]:
        id = text_at(_update(record), "messageId")
        if parsed.kind != "message":
            return []
        return [
            Part(
                role=speaker_of_role(role),
                blocks=parsed.blocks,
                key=id,
                relation="new_version",
                message_id=id,
                parent_call=_parent_call(_update(record)),
            )
        ]

    return parts


# Calls. An update has only the changes; one with the first id of a call begins it.

_RUNNING = frozenset({"in_progress", "completed", "failed"})
_ENDED = frozenset({"completed", "failed"})
_RESULT_KEYS = frozenset({"content", "rawOutput"})


def _call_name(update: Record) -> str | None:
    return text_at(update, "_meta", "toolName") or text_at(update, "title")


def _begins_call(update: Record) -> bool:
    """True for an update with the name and the arguments of a call."""
    is_new = update["sessionUpdate"] == "tool_call" or update.get("rawInput") is not None
    return is_new and _call_name(update) is not None


def _parse_call(record: Record) -> ParsedRecord:
    update = _update(record)
    has_ended = is_one_of(update.get("status"), _ENDED)
    if _begins_call(update):
        blocks = translate("tool_call", update, _translate_call)
        if has_ended:
            blocks += translate("tool_call", update, _translate_result)
        return ParsedRecord("message", "assistant", blocks)
    if has_ended:
        return ParsedRecord("message", "tool", translate("tool_call", update, _translate_result))
    return chunk_record(record, _update_name(record))


def _translate_call(update: Record) -> Block:
    typed = {
        "type": "tool_use",
        "id": update["toolCallId"],
        "name": _call_name(update),
        "input": update.get("rawInput"),
    }
    consumed = {"sessionUpdate", "toolCallId", "rawInput"}
    stated = set() if text_at(update, "_meta", "toolName") else {"title"}
    has_ended = is_one_of(update.get("status"), _ENDED)
    results = _RESULT_KEYS if has_ended else set()
    return translated(update, typed, consumed | stated | results, "tool_call")


def _translate_result(update: Record) -> Block:
    content, output = _result_content(update.get("content")), update.get("rawOutput")
    typed = {
        "type": "tool_result",
        "tool_use_id": update["toolCallId"],
        "content": content or (output if isinstance(output, str) else ""),
        "is_error": update["status"] == "failed",
        **({} if output is None else {"structured": output}),
    }
    rest = {} if _begins_call(update) else without(update, "sessionUpdate", "toolCallId", *_RESULT_KEYS)
    return translated(rest, typed, (), "tool_call")


def _call_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    update = _update(record)
    id, parent = text_at(update, "toolCallId"), _parent_call(update)
    calls = [block for block in parsed.blocks if block["type"] == "tool_use"]
    results = [block for block in parsed.blocks if block["type"] == "tool_result"]
    found = [
        Part(role="assistant", blocks=calls, key=id, relation="new_version", parent_call=parent),
        Part(role="user", blocks=results, key=f"{id}/result", relation="new_version", parent_call=parent),
    ]
    return [part for part in found if part.blocks]


def _call_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    update = _update(record)
    id, name = update["toolCallId"], _call_name(update)
    slot, arguments = f"call/{id}", update.get("rawInput")
    steps: list[Step] = []
    if name is not None:
        steps.append(Chunk("input", "", slot, call={"id": id, "name": name}))
    is_running = is_one_of(update.get("status"), _RUNNING)
    if arguments is not None:
        text = msgspec.json.encode(arguments).decode()
        steps.append(ChunkEnd(slot, text=text, wait_for_part=not is_running))
    elif is_running:
        steps.append(ChunkEnd(slot))
    results = [part for part in _call_parts(record, parsed) if part.role == "user"]
    # Texts of the main conversation end, too: chunks state no subagent.
    return [ChunkEnd(kinds=("text", "thinking")), *_scoped(update, [*steps, *results])]


def _output_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    update = _update(record)
    text = text_at(update, "content", "content", "text")
    id = update["toolCallId"]
    return [] if text is None else [ChunkEnd(f"call/{id}"), Chunk("output", text, call={"id": id})]


# Turns.


def _parse_prompt(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "user", _parse_content(list_or_empty(record["params"]["prompt"])))


def _prompt_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    # In version 2, the agent repeats the prompt where it inserts it.
    return [_BEGINS, Part(role="user", blocks=parsed.blocks, relation="copy")]


_BEGINS = Part(role=None, relation="replay_end")


def _load_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of a request to load a session: the agent sends the session again before the response."""
    return [Part(role=None, relation="replay", key=_request_id(record))]


def _response_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, relation="replay_end", key=_request_id(record))]


def _request_id(record: Record) -> str:
    return str(record["id"])


def _standard_usage(usage: Any) -> Block | None:
    """Return the usage. The total tells whether the input includes cached tokens, which differs by agent."""
    read, written = count_at(usage, "cachedReadTokens"), count_at(usage, "cachedWriteTokens")
    input, output = count_at(usage, "inputTokens"), count_at(usage, "outputTokens")
    cached = (read or 0) + (written or 0)
    is_beside = (count_at(usage, "totalTokens") or 0) >= (input or 0) + (output or 0) + cached
    return token_usage(
        usage,
        input=input if is_beside else subtract_counts(input, cached),
        output=output,
        cache_read=read,
        cache_creation=written,
        reasoning=count_at(usage, "thoughtTokens"),
    )


def _end_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    usage = _standard_usage(value_at(record, "result", "usage"))
    return [*_response_parts(record, parsed), Part(role=None, relation="turn_end", usage=usage)]


def _end_steps(stop_reason: str | None, ends: Iterable[Step]) -> list[Step]:
    if stop_reason == "cancelled":
        return [TurnEnd("user_cancel", mode="stop_if_open"), *ends]
    fields = {} if stop_reason in (None, "end_turn") else {"stopReason": stop_reason}
    return [ChunkEnd(fields=fields), *ends]


def _state_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    update = _update(record)
    return _end_steps(text_at(update, "stopReason"), [TurnEnd()]) if update.get("state") == "idle" else []


def _error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    error = record["error"]
    details = text_at(error, "data", "details")
    code = error.get("code")
    message = error["message"] if details is None else f"{error['message']}: {details}"
    failed = Part(role=None, error=message_error(str(code), message, error))
    return [*_response_parts(record, parsed), failed]


def _error_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [*_error_parts(record, parsed), TurnEnd("error", mode="if_open")]


# Tables.


def _control_update(record: Record) -> ParsedRecord:
    return control_record(record, _update_name(record))


_CONTROL = WireType(_control_update, steps=lambda record, parsed: [])
_CALL = WireType(_parse_call, _call_parts, _call_steps)

UPDATES: Mapping[str, WireType] = {
    "agent_message": WireType(_parse_message("assistant"), _message_parts("assistant")),
    "agent_message_chunk": WireType(
        _parse_message("assistant"), _chunk_parts("assistant"), _chunk_steps("text")
    ),
    "agent_thought": WireType(_parse_message("assistant"), _message_parts("assistant")),
    "agent_thought_chunk": WireType(
        _parse_message("assistant"), _chunk_parts("assistant"), _chunk_steps("thinking")
    ),
    "state_update": WireType(_control_update, steps=_state_steps),
    "terminal_output_chunk": WireType(
        lambda record: chunk_record(record, _update_name(record)), steps=lambda record, parsed: []
    ),
    "tool_call": _CALL,
    "tool_call_content_chunk": WireType(
        lambda record: chunk_record(record, _update_name(record)), steps=_output_steps
    ),
    "tool_call_update": _CALL,
    "user_message": WireType(_parse_message("user"), _message_parts("user")),
    "user_message_chunk": WireType(_parse_message("user"), _chunk_parts("user")),
    **dict.fromkeys(
        (
            "available_commands_update",
            "compaction_summary_chunk",
            "compaction_update",
            "config_option_update",
            "current_mode_update",
            "notice",
            "plan",
            "plan_removed",
            "plan_update",
            "session_info_update",
            "terminal_update",
            "usage_update",
        ),
        _CONTROL,
    ),
}
"""The kinds of `session/update`: how they are parsed, what they add to messages, and to the event log."""
_UNKNOWN_UPDATE = WireType(lambda record: unknown_record(record, _update_name(record)))

_PROMPT = WireType(
    _parse_prompt,
    _prompt_parts,
    lambda record, parsed: [_BEGINS, TurnStart(), *_prompt_parts(record, parsed)],
)
_REQUEST = WireType(lambda record: control_record(record, text_at(record, "method")))
_METHODS = frozenset(
    {
        "$/cancel_request",
        "authenticate",
        "fs/read_text_file",
        "fs/write_text_file",
        "initialize",
        "logout",
        "session/cancel",
        "session/close",
        "session/delete",
        "session/fork",
        "session/list",
        "session/load",
        "session/new",
        "session/request_permission",
        "session/resume",
        "session/set_config_option",
        "session/set_mode",
        "session/set_model",
        "terminal/create",
        "terminal/kill",
        "terminal/output",
        "terminal/release",
        "terminal/wait_for_exit",
    }
)
"""Methods of requests and notifications without content."""
_STOP = WireType(
    lambda record: control_record(record, "response"),
    _end_parts,
    lambda record, parsed: _end_steps(text_at(record, "result", "stopReason"), _end_parts(record, parsed)),
)
_RESPONSE = WireType(lambda record: control_record(record, "response"), _response_parts)
_LOAD = WireType(lambda record: control_record(record, text_at(record, "method")), _load_parts)
_ERROR = WireType(lambda record: control_record(record, "error"), _error_parts, _error_steps)
_UNKNOWN = WireType(lambda record: unknown_record(record, text_at(record, "method")))


def wire_type(record: Record) -> WireType:
    method = text_at(record, "method")
    if method is None:
        return _response_type(record)
    if method == "session/update":
        name = text_at(record, "params", "update", "sessionUpdate") or ""
        return UPDATES.get(name, _CONTROL if name.startswith("_") else _UNKNOWN_UPDATE)
    if method == "session/prompt":
        return _PROMPT
    if method == "session/load":
        return _LOAD
    return _REQUEST if method in _METHODS or method.startswith("_") else _UNKNOWN


def _response_type(record: Record) -> WireType:
    if isinstance(record.get("error"), dict):
        return _ERROR
    if text_at(record, "result", "stopReason") is not None:
        return _STOP
    return _RESPONSE if "result" in record else _UNKNOWN


_RESULT_MARKS = frozenset(
    {"agentCapabilities", "configOptions", "modes", "models", "outcome", "sessionId", "stopReason"}
)
"""Keys of results that MCP does not use."""


def _is_own(record: Record) -> bool:
    method = record.get("method")
    if isinstance(method, str):
        if method == "initialize":
            return is_integer(value_at(record, "params", "protocolVersion"))
        return method in ("session/update", "session/prompt") or method in _METHODS
    if "error" in record:
        return is_integer(value_at(record, "error", "code")) and "id" in record
    result = record.get("result")
    is_empty = result in ({}, None) and "result" in record
    return is_empty or (isinstance(result, dict) and not _RESULT_MARKS.isdisjoint(result))


def recognize(record: Record) -> WireType | None:
    is_message = record.get("jsonrpc") == "2.0" and "type" not in record and record.keys() <= _ENVELOPE
    return wire_type(record) if is_message and _is_own(record) else None


_ENVELOPE = frozenset({"error", "id", "jsonrpc", "method", "params", "result"})


def header(record: Record) -> RecordHeader:
    params, update = record.get("params"), value_at(record, "params", "update")
    is_info = text_at(update, "sessionUpdate") == "session_info_update"
    return RecordHeader(
        timestamp=to_milliseconds(value_at(update, "_meta", "timestamp")),
        session_id=text_at(params, "sessionId") or text_at(record, "result", "sessionId"),
        title=text_at(update, "title") if is_info else None,
        folder=text_at(params, "cwd"),
    )


PROVIDER = Provider(
    source="acp",
    recognize=recognize,
    marks=Marks(untyped_keys={"jsonrpc"}, body_keys={"error", "method"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
)
