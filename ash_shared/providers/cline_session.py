"""Sessions of Cline's command-line program, and the events of `cline --json`.

Source: `@cline/core` and `@cline/shared`, and sessions that version 3.0.65 wrote. A session has two documents: one with
its settings, title and totals, and `ID.messages.json` with its messages, which is rewritten at each step. Blocks are
as in Anthropic's API, but the parts of a result have no type, and a tool result states the name of its tool.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    content_parser,
    is_native,
    parse_content,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
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
    unknown_record,
)
from ash_shared.records.documents import DocumentItem, UniqueKeys, document_type
from ash_shared.records.fingerprints import ENVELOPE_KEYS, body_keys, is_cline_document
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    items_at,
    latest_time,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import (
    Chunk,
    ChunkEnd,
    ResponseEnd,
    ResponseStart,
    SlotKind,
    Step,
    TurnEnd,
    TurnStart,
)

_ROLES: Mapping[str, Speaker] = {"assistant": "assistant", "system": "system", "user": "user"}

# Blocks.

_USER_INPUT = re.compile(r'<user_input mode="(\w+)">(.*)</user_input>\s*', re.DOTALL)
"""The wrapping of a prompt."""


def _translate_file(block: Block) -> Block:
    source = {"type": "text", "data": block["content"]}
    return translated(
        block, {"type": "file", "filename": block["path"], "source": source}, ("path", "content"), "file"
    )


def _translate_result(block: Block) -> Block:
    """Translate a result. Its parts are objects without a type; if all have failed, so has the call."""
    content = block["content"]
    parts = content if isinstance(content, list) else [content]
    outcomes = [part["success"] for part in parts if isinstance(part, dict) and "success" in part]
    typed = {
        "type": "tool_result",
        **pick(block, "tool_use_id", "is_error"),
        "content": [*map(_result_part, content)] if isinstance(content, list) else content,
        **({"is_error": True} if outcomes and not any(outcomes) and "is_error" not in block else {}),
    }
    return translated(block, typed, ("tool_use_id", "content", "is_error"), "tool_result")


def _result_part(part: Any) -> Any:
    return parse_block(part) if text_at(part, "type") is not None else part


_parse_typed = content_parser({"tool_result": _translate_result})


def parse_block(block: Any) -> Block:
    wire_type = text_at(block, "type")
    if wire_type == "file" and "path" in block:
        return translate("file", block, _translate_file)[0]
    if wire_type == "tool_result":
        return translate("tool_result", block, _translate_result)[0]
    return block if is_native(block) else _parse_typed(block)


def _with_input(block: Block) -> Block:
    """Return a prompt without its wrapping, which stays in `extra`."""
    match = _USER_INPUT.fullmatch(block["text"]) if block["type"] == "text" else None
    if match is None:
        return block
    return {**block, "text": match[2], "extra": {**(block.get("extra") or {}), "wrapped": block["text"]}}


# Messages.


def _message_blocks(message: Any) -> list[Block]:
    if text_at(message, "role") not in _ROLES:
        return [raw_block("malformed", message, "message")]
    blocks = translate("message", message, lambda each: parse_content(each["content"], parse_block))
    return [*map(_with_input, blocks)] if message["role"] == "user" else blocks


def _parse_messages(record: Record) -> ParsedRecord:
    head = raw_block("control", without(record, "messages"), "session")
    blocks = [block for message in record["messages"] for block in _message_blocks(message)]
    return ParsedRecord("message", "user", bounded([head, *blocks]))


def _items(record: Record) -> list[DocumentItem]:
    keys = UniqueKeys()
    return [
        DocumentItem(keys.name(value_at(each, "id") or "message"), each, [_part(each)])
        for each in record["messages"]
    ]


def _part(message: Any) -> Part:
    role = _ROLES.get(text_at(message, "role") or "", "system")
    time = to_milliseconds(value_at(message, "ts"))
    return Part(
        role=role,
        blocks=_message_blocks(message),
        header=RecordHeader(timestamp=time),
        is_undated=time is None,
        original=message,
        usage=_usage(value_at(message, "metrics")),
        cost=cost_at(message, "metrics", "cost"),
        metadata={"model": text_at(message, "modelInfo", "id")},
    )


def _usage(metrics: Any) -> Block | None:
    """Return the usage of an answer. Its input includes tokens that were read from or written to a cache."""
    read, written = count_at(metrics, "cacheReadTokens"), count_at(metrics, "cacheWriteTokens")
    return token_usage(
        metrics,
        input=subtract_counts(count_at(metrics, "inputTokens"), read, written),
        output=count_at(metrics, "outputTokens"),
        cache_read=read,
        cache_creation=written,
    )


_MESSAGES = document_type("messages", _parse_messages, _items)
_SESSION = WireType(lambda record: control_record(record, "session"))


# The stream of `cline --json`.


def _parse_event(record: Record) -> ParsedRecord:
    event = record["event"]
    name = text_at(event, "type") or ""
    full_name = f"agent_event/{name}"
    if name == "content_end" and text_at(event, "contentType") in _ENDS:
        blocks = translate("content_end", event, _ENDS[event["contentType"]])
        return ParsedRecord("message", "tool" if event["contentType"] == "tool" else "assistant", blocks)
    if name == "content_start" and event.get("contentType") == "tool":
        return ParsedRecord("message", "assistant", translate("content_start", event, _translate_call))
    if name in ("content_start", "content_update"):
        return chunk_record(record, full_name)
    if name in _EVENTS:
        return control_record(record, full_name)
    return unknown_record(record, full_name)


_EVENTS = frozenset({"done", "error", "iteration_end", "iteration_start", "notice", "usage"})


def _translate_call(event: Record) -> Block:
    typed = {
        "type": "tool_use",
        **renamed(event, id="toolCallId"),
        "name": event["toolName"],
        "input": event["input"],
    }
    return translated(event, typed, ("contentType", "toolCallId", "toolName", "input"), "content_start")


def _translate_output(event: Record) -> Block:
    """Translate the end of a call. One that has failed has an `error`, and may have no output."""
    content = event["output"] if "output" in event else event.get("error")
    result = {"type": "tool_result", **renamed(event, tool_use_id="toolCallId"), "content": content}
    block = _translate_result(result)
    failed = {"is_error": True} if event.get("error") else {}
    consumed = ("contentType", "toolCallId", "output")
    return translated(event, {**block, **failed}, consumed, "content_end")


def _translate_text(event: Record) -> Block:
    return translated(event, text_block(event["text"]), ("contentType", "text"), "content_end")


def _translate_reasoning(event: Record) -> Block:
    key = "reasoning" if "reasoning" in event else "text"
    return translated(
        event, {"type": "thinking", "thinking": event[key]}, ("contentType", key), "content_end"
    )


_ENDS = {"reasoning": _translate_reasoning, "text": _translate_text, "tool": _translate_output}


def _event_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    event = record["event"]
    name = event["type"]
    if name == "usage":
        # It precedes the complete text of its answer.
        usage, cost = _usage(event), cost_at(event, "cost")
        return [Part(role="assistant", usage=usage, cost=cost, relation="continuation")]
    if name == "error":
        return [Part(role=None, error=_error(event))]
    if parsed.kind != "message":
        return []
    if parsed.role == "tool":
        return [Part(role="user", blocks=parsed.blocks)]
    return [Part(role="assistant", blocks=parsed.blocks, relation="continuation")]


def _error(event: Record) -> Block:
    error = event.get("error")
    text = error if isinstance(error, str) else text_at(error, "message") or text_at(event, "message")
    return message_error(text_at(error, "name") or "error", text, error)


def _event_steps(record: Record, parsed: ParsedRecord) -> list[Step] | None:
    event = record["event"]
    kind = text_at(event, "contentType") or ""
    steps = _STEPS.get((event["type"], kind if event["type"] in ("content_start", "content_end") else ""))
    return None if steps is None else steps(event)


def _chunk(event: Record) -> list[Step]:
    kind: SlotKind = "text" if event["contentType"] == "text" else "thinking"
    text = event.get("text") if kind == "text" else event.get("reasoning", event.get("text"))
    return [Chunk(kind, text or "", kind)]


_STEPS: Mapping[tuple[str, str], Callable[[Record], list[Step]]] = {
    ("content_end", "reasoning"): lambda event: [ChunkEnd("thinking")],
    ("content_end", "text"): lambda event: [ChunkEnd("text", text=event.get("text"))],
    ("content_start", "reasoning"): _chunk,
    ("content_start", "text"): _chunk,
    ("content_update", ""): lambda event: [],
    ("done", ""): lambda event: [ChunkEnd(), TurnEnd()],
    ("iteration_end", ""): lambda event: [ChunkEnd(), ResponseEnd()],
    ("iteration_start", ""): lambda event: [ResponseStart(None)],
}
"""The steps of events, by their type and the type of their content; others follow from the parts."""


def _hook_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    starts = record.get("hookEventName") == "agent_start" and record.get("parentAgentId") is None
    return [TurnStart()] if starts else []


_TYPES: Mapping[str, WireType] = {
    "agent_event": WireType(
        _parse_event, _event_parts, _event_steps, matches=lambda record: isinstance(record.get("event"), dict)
    ),
    "hook_event": WireType(
        lambda record: control_record(record, "hook_event"),
        steps=_hook_steps,
        matches=lambda record: "hookEventName" in record,
    ),
    "run_result": WireType(
        lambda record: control_record(record, "run_result"), matches=lambda record: "finishReason" in record
    ),
}
"""The lines of the stream."""
_UNKNOWN = WireType(lambda record: unknown_record(record))


# Records.


def wire_type(record: Record) -> WireType:
    return _find_row(record) or _UNKNOWN


def recognize(record: Record) -> WireType | None:
    row = _find_row(record)
    return row if _FOREIGN_KEYS.isdisjoint(record) else None


_FOREIGN_KEYS = ENVELOPE_KEYS | {"message", "part", "role"}
"""Keys of messages and envelopes of other formats."""


def _find_row(record: Record) -> WireType | None:
    name = record.get("type")
    if isinstance(name, str):
        row = _TYPES.get(name)
        return row if row is not None and isinstance(record.get("ts"), str) and row.matches(record) else None
    keys = body_keys(record)
    if keys == {"messages_path"}:
        return _SESSION if isinstance(record.get("session_id"), str) else None
    return _MESSAGES if keys == {"messages"} and is_cline_document(record) else None


def header(record: Record) -> RecordHeader:
    if "messages_path" in record:
        return RecordHeader(
            timestamp=to_milliseconds(record.get("started_at")),
            session_id=text_at(record, "session_id"),
            model=text_at(record, "model"),
            title=text_at(record, "metadata", "title"),
            folder=text_at(record, "cwd"),
            branch=text_at(record, "metadata", "git", "branch"),
            client_version=text_at(record, "metadata", "sessionHistoryOrigin", "version"),
        )
    if "messages" in record:
        times = [
            time for each in items_at(record, "messages") if (time := to_milliseconds(value_at(each, "ts")))
        ]
        return RecordHeader(
            timestamp=times[0] if times else None,
            session_id=text_at(record, "sessionId"),
            client_version=text_at(record, "origin", "version"),
            last_timestamp=latest_time(times),
        )
    return RecordHeader(timestamp=to_milliseconds(record.get("ts")))


def identify(record: Record) -> Identity:
    """Return the names of a document. A fork is another session, and states its origin."""
    return Identity(
        record=text_at(record, "sessionId") if "messages" in record else None,
        origin=text_at(record, "metadata", "fork", "forkedFromSessionId"),
    )


PROVIDER = Provider(
    source="cline_session",
    recognize=recognize,
    marks=Marks(
        types={"agent_event", "hook_event", "run_result"},
        untyped_keys={"messages_path", "updated_at"},
        body_keys={"messages", "messages_path"},
    ),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
