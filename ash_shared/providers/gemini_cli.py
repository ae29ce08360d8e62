"""Gemini CLI: its session files, and the output of `--output-format stream-json` and `json`.

Sources: `chatRecordingTypes` and `output/types` of `gemini-cli-core`, and captured files. Early session files
are one JSON document. Current ones are a log of lines: a header; message records, which are written again with the
same `id` each time they grow; changes of the header (`$set`); and rewinds (`$rewindTo`, which removes a message and
everything after it). Tool results are in the record of the response that called the tools.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    Translation,
    bounded,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    wire_name,
    with_extra,
)
from ash_shared.model.message import Identity, Kind, RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    Speaker,
    WireType,
    control_record,
    speaker_of_role,
    unknown_record,
)
from ash_shared.records.fingerprints import ENVELOPE_KEYS, GEMINI_CLI_SESSION_KEYS, body_keys
from ash_shared.records.gemini_parts import (
    UsageKeys,
    as_list,
    gemini_usage,
    is_client_result,
    is_part,
    parse_part,
    parse_parts,
)
from ash_shared.records.json_fields import (
    count_at,
    first_text,
    is_one_of,
    items_at,
    latest_time,
    list_or_empty,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Chunk, ChunkEnd, Emit, Step, TurnEnd, TurnStart

_ROLES: Mapping[Any, Role] = {
    "assistant": "assistant",
    "error": "system",
    "gemini": "assistant",
    "info": "system",
    "model": "assistant",
    "user": "user",
    "warning": "system",
}
_VARIANTS: Mapping[Any, str] = {"error": "error", "info": "notice", "warning": "notice"}
"""Variants of the text blocks of messages that the CLI itself writes."""


def _message_type(message: Any) -> Any:
    return value_at(message, "type") or value_at(message, "role")


def _parse_message(message: Any) -> ParsedRecord:
    name = _message_type(message)
    if not is_one_of(name, _ROLES):
        wire_type = wire_name(message) if isinstance(message, dict) else None
        return ParsedRecord("record", "system", [raw_block("unknown_type", message, wire_type)])
    role, blocks = _ROLES[name], translate(name, message, _message_blocks)
    return ParsedRecord("record" if role == "system" else "message", role, blocks)


def _message_blocks(message: Record) -> list[Block]:
    """Return the blocks in chronological order: thoughts, text, calls."""
    content = parse_parts(message["content"] if "content" in message else message["parts"])
    variant = _VARIANTS.get(_message_type(message))
    if variant:
        content = [{"variant": variant, **block} if block["type"] == "text" else block for block in content]
    listed, listed_calls = list_or_empty(message.get("thoughts")), list_or_empty(message.get("toolCalls"))
    thoughts = [block for item in listed for block in translate("thought", item, _translate_thought)]
    calls = [block for call in listed_calls for block in translate("toolCall", call, _translate_call)]
    return bounded(thoughts + content + calls)


def _translate_thought(thought: Record) -> Block:
    """Join subject and description as the CLI displays them; `extra` keeps both if both are present."""
    subject, description = thought.get("subject"), thought.get("description")
    if subject and description:
        text, consumed = f"**{subject}**\n\n{description}", ""
    else:
        consumed = "description" if description or not subject else "subject"
        text = thought[consumed]
    typed = {"type": "thinking", "thinking": text, "is_summary": True}
    return translated(thought, typed, (consumed,), "thought")


_ENDED_STATUSES = frozenset({"success", "error", "cancelled"})


def _translate_call(call: Record) -> list[Block]:
    """Return a call and, if it has ended, its result, which is in the same object."""
    result_blocks = parse_parts(call.get("result"))
    ended = bool(result_blocks) or is_one_of(call.get("status"), _ENDED_STATUSES)
    executor = {"executor": "agent"} if call.get("agentId") else {}
    common = pick(call, "id", "name", "status")
    typed = {"type": "tool_use", **common, "input": call.get("args", {}), **executor}
    consumed = (*common, "args", "result", *(("resultDisplay",) if ended else ()))
    tool_use = translated(call, typed, consumed, "toolCall")
    return [tool_use, _result_block(call, result_blocks)] if ended else [tool_use]


def _result_block(call: Record, result_blocks: list[Block]) -> Block:
    """Return the result of a call: the function response and attached parts, or else the displayed text."""
    empty: Block = {"type": "tool_result"}
    response = next((candidate for candidate in result_blocks if candidate["type"] == "tool_result"), empty)
    block: Block = {**renamed(call, tool_use_id="id"), **response}
    attached = [candidate for candidate in result_blocks if candidate is not response]
    display = pick(call, "resultDisplay")
    if attached:
        content = response.get("content")
        block["content"] = ([text_block(content)] if isinstance(content, str) else []) + attached
    elif not result_blocks and isinstance(display.get("resultDisplay"), str):
        block["content"] = display.pop("resultDisplay")
    if call.get("status") in _ENDED_STATUSES:
        block["is_error"] = call["status"] != "success"
    block["source_type"] = "toolCall"
    return with_extra(block, display)


def _parse_document(record: Record) -> ParsedRecord:
    blocks = [block for message in _document_messages(record) for block in _parse_message(message).blocks]
    return ParsedRecord("message", "user", bounded(blocks))


def _document_messages(record: Record) -> list[Any]:
    return as_list(record["messages"] if "messages" in record else record["history"])


_ENVELOPE = ("type", "timestamp")
"""Keys of every event; they are not content and stay in the stored text."""


def _parse_message_event(record: Record) -> ParsedRecord:
    return ParsedRecord("message", _ROLES[record["role"]], [text_block(record["content"])])


def _block_parser(kind: Kind, role: Role, item: Translation) -> Callable[[Record], ParsedRecord]:
    return lambda record: ParsedRecord(kind, role, translate(record["type"], record, item))


def _translate_tool_use(event: Record) -> Block:
    names = {"id": "tool_id", "name": "tool_name", "input": "parameters"}
    typed = {"type": "tool_use", **{name: event[key] for name, key in names.items()}}
    return translated(event, typed, (*_ENVELOPE, *names.values()), "tool_use")


def _translate_tool_result(event: Record) -> Block:
    """Translate a tool result; the error message of a failure is its content if there is no output."""
    message = value_at(event, "error", "message")
    content = {"content": event["output"]} if "output" in event else {"content": message} if message else {}
    error_flag = {"is_error": event["status"] != "success"}
    typed = {"type": "tool_result", "tool_use_id": event["tool_id"], **content, **error_flag}
    return translated(event, typed, (*_ENVELOPE, "tool_id", "output"), "tool_result")


def _translate_notice(event: Record) -> Block:
    typed = text_block(event["message"], "error" if event["severity"] == "error" else "notice")
    return translated(event, typed, (*_ENVELOPE, "message"), "error")


def _parse_output(record: Record) -> ParsedRecord:
    """Parse the document printed by `--output-format json`."""
    response = record.get("response")
    block = text_block(response) if isinstance(response, str) else raw_block("control", record)
    return ParsedRecord("message", "assistant", [block])


def _event_check(*keys: str) -> Callable[[Record], bool]:
    return lambda record: all(key in record for key in keys) and "uuid" not in record


def _is_result_event(record: Record) -> bool:
    return {"status", "timestamp"} <= record.keys() and record.keys().isdisjoint(("session_id", "uuid"))


_FOREIGN_KEYS = frozenset({"errorText", "message", "parentUuid", "role", "sessionId", "session_id", "uuid"})


def _is_message(record: Record) -> bool:
    """Return True for a record with an id, a time and content, and without keys of the lines of other CLIs."""
    return (
        text_at(record, "id") is not None
        and "timestamp" in record
        and ("content" in record or "parts" in record)
        and _FOREIGN_KEYS.isdisjoint(record)
    )


_RESPONSE_KEYS = frozenset({"id", "message", "model", "stop_reason", "usage", "uuid"})
"""Keys of other vendors' responses, which message events do not have."""


def _is_message_event(record: Record) -> bool:
    return (
        isinstance(record.get("content"), str)
        and "timestamp" in record
        and record.keys().isdisjoint(_RESPONSE_KEYS)
        and is_one_of(record.get("role"), ("user", "assistant"))
    )


def _is_document(record: Record) -> bool:
    return (
        isinstance(record.get("messages"), list)
        and text_at(record, "sessionId") is not None
        and first_text(record, ("projectHash", "startTime", "lastUpdated")) is not None
    )


def _is_history(record: Record) -> bool:
    history = record.get("history")
    return isinstance(history, list) and all(map(_is_content, history))


def _is_content(content: Any) -> bool:
    parts = value_at(content, "parts")
    return isinstance(parts, list) and all(map(is_part, parts))


def _is_header(record: Record) -> bool:
    return bool(text_at(record, "sessionId") and text_at(record, "projectHash"))


def _is_output(record: Record) -> bool:
    models = value_at(record, "stats", "models")
    return isinstance(models, dict) and not record.keys().isdisjoint(("response", "error"))


def header(record: Record) -> RecordHeader:
    """Return the metadata of a record. Message ids are not unique, because a message is written again when it grows."""
    fields = record["$set"] if isinstance(record.get("$set"), dict) else record
    times = ("timestamp", "startTime", "start_time", "lastUpdated")
    message_times = (value_at(message, "timestamp") for message in items_at(fields, "messages"))
    return RecordHeader(
        timestamp=to_milliseconds(first_text(fields, times)),
        session_id=first_text(fields, ("sessionId", "session_id")),
        model=text_at(fields, "model") or text_at(fields, "meta", "model"),
        title=text_at(fields, "summary"),
        agent=_agent_of_session(fields),
        last_timestamp=latest_time((fields.get("lastUpdated"), *message_times)),
    )


def _agent_of_session(first_line: Record) -> str | None:
    """Return the id of a subagent's session, which is the agent's id. Headers of early versions have no kind."""
    kind = first_line.get("kind") if "projectHash" in first_line else None
    if kind == "subagent":
        return text_at(first_line, "sessionId")
    return "" if kind == "main" else None


def identify(record: Record) -> Identity:
    return Identity(project=text_at(record, "projectHash"))


def _document_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [
        replace(part, original=message)
        for message in _document_messages(record)
        for part in _message_parts(message, _parse_message(message))
    ]


_USAGE_KEYS = UsageKeys(prompt="input", tool="tool", cached="cached", answer="output", thoughts="thoughts")


def _message_parts(message: Any, parsed: ParsedRecord) -> list[Part]:
    """Return the part of a message and, if it has results of client tools, a part for these."""
    id = text_at(message, "id")
    response = [block for block in parsed.blocks if not is_client_result(block)]
    results = [block for block in parsed.blocks if is_client_result(block)]
    role = speaker_of_role(parsed.role)
    time = to_milliseconds(value_at(message, "timestamp") or value_at(message, "ts"))
    message_part = Part(
        role=role,
        blocks=_without_blanks(response),
        key=id,
        header=RecordHeader(uuid=id, timestamp=time),
        usage=gemini_usage(value_at(message, "tokens"), _USAGE_KEYS),
        message_id=id if role == "assistant" else None,
        metadata={"model": text_at(message, "model")},
        error=_message_error(message),
        relation="new_version" if id is not None else "new",
    )
    if not results:
        return [message_part]
    key, own = id and f"{id}/results", RecordHeader(timestamp=time)
    result_part = Part(role="user", blocks=results, key=key, header=own, relation=message_part.relation)
    return [message_part, result_part] if response or role != "user" else [result_part]


def _without_blanks(blocks: list[Block]) -> list[Block]:
    """Drop empty texts, unless there are no other blocks."""
    response = [block for block in blocks if block["type"] != "text" or block["text"]]
    return response or blocks


def _message_error(message: Any) -> Block | None:
    if _message_type(message) != "error":
        return None
    content = value_at(message, "content")
    text = content if isinstance(content, str) else text_at(next(iter(as_list(content)), None), "text")
    return message_error("error", text or None)


def _rewind_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    id = text_at(record, "$rewindTo")
    return [] if id is None else [Part(role=None, retracts=(id,), relation="truncation")]


def _item_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of a response item or a tool result; events have no response id."""
    role: Speaker = "assistant" if parsed.role == "assistant" else "user"
    joins_previous = role == "assistant" or parsed.role == "tool"
    return [Part(role=role, blocks=parsed.blocks, relation="continuation" if joins_previous else "new")]


def _notice_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    error = message_error("error", text_at(record, "message"))
    is_error = record["severity"] == "error"
    return [Part(role="system", blocks=parsed.blocks, error=error if is_error else None)]


def _result_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    usage = _stats_usage(record.get("stats"))
    return [Part(role=None, usage=usage, error=_run_error(record), relation="turn_end")]


def _run_error(record: Record) -> Block | None:
    error = record.get("error")
    if error is None and record.get("status", "success") == "success":
        return None
    code = first_text(error, ("type", "code")) or text_at(record, "status") or "error"
    return message_error(code, text_at(error, "message"), error or None)


def _stats_usage(stats: Any) -> Block | None:
    """Return the usage of a run. Reasoning tokens are counted only in the total."""
    input, output = count_at(stats, "input_tokens"), count_at(stats, "output_tokens")
    non_input = subtract_counts(count_at(stats, "total_tokens"), input)
    cached = count_at(stats, "cached")
    full_output = output if non_input is None or output is None else max(non_input, output)
    return token_usage(stats, input=subtract_counts(input, cached), output=full_output, cache_read=cached)


_RUN_USAGE_KEYS = UsageKeys(
    prompt="prompt", tool="tool", cached="cached", answer="candidates", thoughts="thoughts"
)


def _output_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of the output document, with its usage if only one model was used."""
    models = value_at(record, "stats", "models")
    is_single = isinstance(models, dict) and len(models) == 1
    name, metrics = next(iter(models.items())) if is_single else (None, None)
    blocks = [block for block in parsed.blocks if block["type"] == "text"]
    usage, error = gemini_usage(value_at(metrics, "tokens"), _RUN_USAGE_KEYS), _run_error(record)
    return [Part(role="assistant", blocks=blocks, usage=usage, metadata={"model": name}, error=error)]


def _document_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    messages = _document_messages(record)
    return [step for message in messages for step in _message_steps(message, _parse_message(message))]


def _message_steps(message: Any, parsed: ParsedRecord) -> list[Step]:
    """Return the steps of a message record, which may repeat an earlier version of the message."""
    ends = [TurnEnd("user_cancel", mode="if_open")] if _is_cancelled(message) else []
    return [*(_with_agents(part, message) for part in _message_parts(message, parsed)), *ends]


def _with_agents(part: Part, message: Any) -> Part:
    """Add to results the subagents that their calls started; their transcripts have the id of the agent."""
    agents = {
        text_at(call, "id"): text_at(call, "agentId")
        for call in list_or_empty(value_at(message, "toolCalls"))
    }
    if not any(agents.values()):
        return part
    blocks = [
        {**block, "agent_id": agent}
        if block["type"] == "tool_result" and (agent := agents.get(block.get("tool_use_id")))
        else block
        for block in part.blocks
    ]
    return replace(part, blocks=blocks)


def _is_cancelled(message: Any) -> bool:
    """Return True if the user cancelled the response. If any of its calls was not cancelled, the model continues."""
    if _message_type(message) == "info":
        return text_at(message, "content") == "Request cancelled."
    calls = as_list(value_at(message, "toolCalls"))
    return bool(calls) and all(text_at(call, "status") == "cancelled" for call in calls)


def _message_event_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    if parsed.role == "assistant" and record.get("delta") is True:
        return [Chunk("text", record["content"], "text", anonymous_slot=True)]
    return _item_steps(record, parsed)


def _item_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Complete the open text, as every event but a text delta does."""
    return [ChunkEnd(), *_item_parts(record, parsed)]


def _notice_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Emit a notice as an error event; notices do not end the turn."""
    return [ChunkEnd(), Emit("error", message_error(record["severity"], text_at(record, "message")))]


def _result_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """End a run, as an interruption if the user cancelled it."""
    [part] = _result_parts(record, parsed)
    if text_at(record, "error", "type") != "FatalCancellationError":
        return [ChunkEnd(), part]
    interruption = TurnEnd("user_cancel", mode="stop_if_open")
    return [ChunkEnd(), Part(role=None, error=part.error), interruption, replace(part, error=None)]


_MESSAGE = WireType(_parse_message, _message_parts, _message_steps, matches=_is_message)

TYPES: Mapping[str, WireType] = {
    **dict.fromkeys(("gemini", "info", "model", "user", "warning"), _MESSAGE),
    "error": WireType(_block_parser("record", "system", _translate_notice), _notice_parts, _notice_steps),
    "init": WireType(
        control_record,
        steps=lambda record, parsed: [ChunkEnd(), TurnStart()],
        matches=_event_check("session_id", "model", "timestamp"),
    ),
    "message": WireType(_parse_message_event, _item_parts, _message_event_steps, matches=_is_message_event),
    "result": WireType(control_record, _result_parts, _result_steps, matches=_is_result_event),
    "tool_result": WireType(
        _block_parser("message", "tool", _translate_tool_result),
        _item_parts,
        _item_steps,
        matches=_event_check("tool_id", "status"),
    ),
    "tool_use": WireType(
        _block_parser("message", "assistant", _translate_tool_use),
        _item_parts,
        _item_steps,
        matches=_event_check("tool_id", "tool_name", "parameters"),
    ),
}
"""Records by `type`; an `error` without a severity is a message record."""

_UNTYPED: Mapping[str, WireType] = {
    "$set": WireType(control_record, matches=lambda record: isinstance(record["$set"], dict)),
    "$rewindTo": WireType(
        control_record,
        _rewind_parts,
        lambda record, parsed: [TurnEnd(), *_rewind_parts(record, parsed)],
        matches=lambda record: isinstance(record["$rewindTo"], str),
    ),
    "messages": WireType(_parse_document, _document_parts, _document_steps, matches=_is_document),
    "history": WireType(_parse_document, _document_parts, _document_steps, matches=_is_history),
    "projectHash": WireType(control_record, matches=_is_header),
    "stats": WireType(
        _parse_output,
        _output_parts,
        lambda record, parsed: [*_output_parts(record, parsed), TurnEnd()],
        matches=_is_output,
    ),
}
"""Records without a `type`, by identifying key."""


def _find_row(record: Record) -> WireType | None:
    """Return the row of a record that has the keys of its type; None for other records."""
    name = record.get("type")
    if not isinstance(name, str):
        return next((row for key, row in _UNTYPED.items() if key in record and row.matches(record)), None)
    row = _MESSAGE if name == "error" and "severity" not in record else TYPES.get(name)
    return row if row is not None and row.matches(record) else None


def _parse_incomplete(record: Record) -> ParsedRecord:
    has_content = "content" in record or "parts" in record
    is_message = has_content and is_one_of(record.get("type"), _ROLES)
    return _parse_message(record) if is_message else unknown_record(record)


_INCOMPLETE_EVENTS: Mapping[str, WireType] = {
    name: WireType(unknown_record, row.parts, row.steps) for name, row in TYPES.items() if name not in _ROLES
}
"""Events without the keys of their type, which still end the turn or the open text."""
_INCOMPLETE = WireType(
    _parse_incomplete, lambda record, parsed: _output_parts(record, parsed) if "stats" in record else []
)
"""Other records without the keys of their type, and records of unknown types."""


def wire_type(record: Record) -> WireType:
    return _find_row(record) or _INCOMPLETE_EVENTS.get(text_at(record, "type") or "", _INCOMPLETE)


def recognize(record: Record) -> WireType | None:
    row = _find_row(record)
    return None if row is None or _is_foreign(record) else row


def _is_foreign(record: Record) -> bool:
    """Return True for a record with the keys of another format."""
    if isinstance(record.get("type"), str):
        return not record.keys().isdisjoint(ENVELOPE_KEYS)
    present_keys = body_keys(record) - GEMINI_CLI_SESSION_KEYS
    has_other_keys = len(record) > 1 and not present_keys.isdisjoint(_CHANGE_KEYS)
    return has_other_keys or not present_keys <= _UNTYPED_KEYS


_UNTYPED_KEYS = frozenset({*_UNTYPED, "error"})
_CHANGE_KEYS = frozenset({"$rewindTo", "$set"})
"""Keys of change lines, which have no other key."""


PROVIDER = Provider(
    source="gemini_cli",
    recognize=recognize,
    marks=Marks(
        TYPES,
        foreign_keys=ENVELOPE_KEYS,
        untyped_keys={"$rewindTo", "$set", "history", "sessionId", "stats"},
        body_keys=_UNTYPED_KEYS | GEMINI_CLI_SESSION_KEYS,
    ),
    wire_type=wire_type,
    parse_block=parse_part,
    header=header,
    identify=identify,
)
