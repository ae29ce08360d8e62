"""Events of the AG-UI protocol, and the input of its runs.

Source: the models of `ag-ui-protocol` 1.0. A message is written as events: its start, deltas, and its end, which name
it, or chunks, which may not. `MESSAGES_SNAPSHOT` and the input of a run repeat the conversation so far. `THINKING_*`
events are from versions before 1.0.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    content_parser,
    parse_content,
    pick,
    raw_block,
    renamed,
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
from ash_shared.records.fingerprints import ENVELOPE_KEYS
from ash_shared.records.json_fields import (
    TOKEN_COUNTS,
    count_at,
    input_at,
    items_at,
    list_or_empty,
    message_error,
    mime_fields,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Chunk, ChunkEnd, Scope, SlotKind, Step, TurnEnd, TurnStart

_ROLES: Mapping[str, Role] = {
    "activity": "system",
    "assistant": "assistant",
    "developer": "system",
    "reasoning": "assistant",
    "system": "system",
    "tool": "tool",
    "user": "user",
}


# Content of messages.


def _media_source(part: Block) -> Block:
    source = part["source"]
    names = {"type": source["type"], **renamed(source, media_type="mimeType")}
    more = without(source, "type", "value", "mimeType")
    return {**names, **_SOURCES[source["type"]](source["value"]), **more}


_SOURCES: Mapping[str, Callable[[str], Block]] = {
    "data": lambda data: {"type": "base64", "data": data},
    "file": lambda id: {"file_id": id},
    "url": lambda url: {"url": url},
}


def _translate_image(part: Block) -> Block:
    return translated(part, {"type": "image", "source": _media_source(part)}, {"source"}, "image")


def _translate_file(part: Block) -> Block:
    source = _media_source(part)
    typed = {"type": "file", **mime_fields(source.get("media_type")), "source": source}
    return translated(part, typed, {"source"}, part["type"])


def _translate_binary(part: Block) -> Block:
    """Translate the part for all media of versions before 1.0."""
    source = {"type": "base64", **pick(part, "data"), **pick(part, "url"), **renamed(part, file_id="id")}
    typed = {"type": "file", **mime_fields(part["mimeType"]), **pick(part, "filename"), "source": source}
    return translated(part, typed, {"mimeType", "filename", "data", "url", "id"}, "binary")


_MEDIA: Mapping[str, Callable[[Block], Block]] = {
    "audio": _translate_file,
    "binary": _translate_binary,
    "document": _translate_file,
    "image": _translate_image,
    "video": _translate_file,
}
_parse_other = content_parser({})


def parse_block(part: Any) -> Block:
    """Parse one part of a message. An image is also in Ash's vocabulary, but its source is not."""
    name = text_at(part, "type") or ""
    return translate(name, part, _MEDIA[name])[0] if name in _MEDIA else _parse_other(part)


def _translate_call(call: Block) -> Block:
    function = call["function"]
    arguments, consumed = input_at(function, "arguments")
    typed = {"type": "tool_use", **pick(call, "id"), "name": function["name"], "input": arguments}
    rest = {**without(call, "function"), "function": without(function, "name", *consumed)}
    return translated(rest if rest["function"] else without(rest, "function"), typed, {"id"}, "function")


def _translate_assistant(message: Record) -> list[Block]:
    content = message.get("content")
    texts = [] if content in (None, "") else parse_content(content, parse_block)
    calls = [
        block
        for call in list_or_empty(message.get("toolCalls"))
        for block in translate("function", call, _translate_call)
    ]
    return bounded(texts + calls)


def _translate_result(message: Record) -> Block:
    error = message.get("error")
    return {
        "type": "tool_result",
        "tool_use_id": message["toolCallId"],
        "content": _result_content(message["content"]),
        **({} if error is None else {"is_error": True}),
    }


def _result_content(content: Any) -> Any:
    return parse_content(content, parse_block) if isinstance(content, list) else content


def _translate_reasoning(message: Record) -> Block:
    return {
        "type": "thinking",
        "thinking": message["content"],
        **renamed(message, signature="encryptedValue"),
    }


_MESSAGES: Mapping[str, tuple[Callable[[Record], Block | list[Block]], frozenset[str]]] = {
    "activity": (lambda message: raw_block("control", message, "activity"), frozenset({"content"})),
    "assistant": (_translate_assistant, frozenset({"content", "toolCalls"})),
    "developer": (lambda message: parse_content(message["content"], parse_block), frozenset({"content"})),
    "reasoning": (_translate_reasoning, frozenset({"content", "encryptedValue"})),
    "system": (lambda message: parse_content(message["content"], parse_block), frozenset({"content"})),
    "tool": (_translate_result, frozenset({"content", "toolCallId"})),
    "user": (lambda message: parse_content(message["content"], parse_block), frozenset({"content"})),
}
"""By role: the translation of a message, and the keys that it consumes."""


def _message_blocks(message: Any) -> list[Block]:
    role = text_at(message, "role") or ""
    if role not in _MESSAGES:
        return [raw_block("unknown_type", message)]
    translation, consumed = _MESSAGES[role]
    blocks = translate(role, message, translation)
    if not blocks or blocks[0]["type"] == "raw":
        return blocks
    rest = without(message, "id", "role", *consumed)
    return [with_extra(blocks[0], rest), *blocks[1:]]


def _parse_messages(record: Record, messages: Iterable[Any]) -> ParsedRecord:
    blocks = bounded([block for message in messages for block in _message_blocks(message)])
    return ParsedRecord("message", "user", blocks) if blocks else control_record(record)


def _own_messages(record: Record) -> list[Any]:
    return list_or_empty(record["messages"])


def _parse_own(record: Record) -> ParsedRecord:
    return _parse_messages(record, _own_messages(record))


def _own_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return _parts_of_messages(_own_messages(record))


def _parts_of_messages(messages: Iterable[Any]) -> list[Part]:
    """Return a part for each message; a later snapshot replaces a message by its id."""
    return [part for part in map(_message_part, messages) if part.blocks]


def _message_part(message: Any) -> Part:
    role = _ROLES.get(text_at(message, "role") or "", "user")
    id = text_at(message, "id")
    is_activity = text_at(message, "role") == "activity"
    return Part(
        role=speaker_of_role(role),
        blocks=[] if is_activity else _message_blocks(message),
        key=id,
        relation="new" if id is None else "new_version",
        message_id=id,
        original=message,
    )


def _steps_of_messages(messages: Iterable[Any]) -> list[Step]:
    """Return the steps of messages, without those that were streamed or sent before."""
    return [
        Part(role=part.role, blocks=part.blocks, message_id=part.message_id, original=part.original)
        for part in _parts_of_messages(messages)
    ]


def _snapshot_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [ChunkEnd(), *_steps_of_messages(_own_messages(record))]


# Runs.


def _input_messages(record: Record) -> list[Any]:
    return list(items_at(record, "input", "messages"))


def _parse_run_start(record: Record) -> ParsedRecord:
    return _parse_messages(record, _input_messages(record))


def _run_start_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    messages = _steps_of_messages(_input_messages(record))
    # A part without blocks: what the run streams is counted from here on, because a snapshot may repeat it.
    return [TurnStart(text_at(record, "runId")), *messages, Part(role="assistant", original=record)]


def _run_usage(record: Record) -> dict[str, Block]:
    """Return the usage of a run by model. The input includes cached tokens, and the output reasoning."""
    by_model: dict[str, Block] = {}
    for each in items_at(record, "usage"):
        cached, written = count_at(each, "cachedInputTokens"), count_at(each, "cacheWriteInputTokens")
        usage = token_usage(
            each,
            input=subtract_counts(count_at(each, "inputTokens"), cached, written),
            output=count_at(each, "outputTokens"),
            cache_read=cached,
            cache_creation=written,
            reasoning=count_at(each, "reasoningTokens"),
        )
        model = text_at(each, "model") or ""
        if usage is not None:
            by_model[model] = _sum_usage(by_model[model], usage) if model in by_model else usage
    return by_model


def _sum_usage(first: Block, second: Block) -> Block:
    counts = {
        name: first.get(name, 0) + second.get(name, 0)
        for name in TOKEN_COUNTS
        if name in first or name in second
    }
    vendors = [
        vendor
        for usage in (first, second)
        for vendor in (usage["vendor"] if isinstance(usage["vendor"], list) else [usage["vendor"]])
    ]
    return {**counts, "vendor": vendors}


def _total_usage(by_model: Mapping[str, Block]) -> Block | None:
    total: Block | None = None
    for usage in by_model.values():
        total = usage if total is None else _sum_usage(total, usage)
    return total


def _run_end_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    by_model = _run_usage(record)
    models = {model: usage for model, usage in by_model.items() if model}
    return [Part(role=None, relation="turn_end", usage=_total_usage(by_model), usage_by_model=models)]


def _run_end_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    [end] = _run_end_parts(record, parsed)
    if value_at(record, "outcome", "type") == "cancelled":
        return [TurnEnd("user_cancel", mode="stop_if_open"), end]
    return [ChunkEnd(), end]


def _error_of(record: Record) -> Block:
    return message_error(text_at(record, "code") or "error", record["message"])


def _run_error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [
        Part(role=None, error=_error_of(record)),
        *(part for part in _run_end_parts(record, parsed) if part.usage is not None),
    ]


def _run_error_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    usage = _total_usage(_run_usage(record))
    usages = [] if usage is None else [Part(role="assistant", usage=usage)]
    return [*usages, Part(role=None, error=_error_of(record), relation="interruption")]


# Deltas. Slots are `text/ID`, `thinking/ID` and `input/ID`. Chunks may lack ids: their slots begin with `chunk/`.

_CHUNKS = "chunk/"
_ALL_KINDS: tuple[SlotKind, ...] = ("text", "thinking", "input")
_END_OF_CHUNKS = ChunkEnd(_CHUNKS, kinds=_ALL_KINDS)
_VARIANTS = {"developer": "notice", "system": "notice", "user": "user"}
"""Variants of streamed texts that are not the assistant's."""


def _text_fields(record: Record) -> Block:
    variant = _VARIANTS.get(text_at(record, "role") or "")
    return {} if variant is None else {"variant": variant}


def _begin_text(kind: SlotKind) -> Callable[[Record], list[Step]]:
    def steps(record: Record) -> list[Step]:
        id = text_at(record, "messageId")
        fields = _text_fields(record)
        return [
            _END_OF_CHUNKS,
            Chunk(kind, "", f"{kind}/{id}", fields=fields, anonymous_slot=True, response=id),
        ]

    return steps


def _continue_text(kind: SlotKind) -> Callable[[Record], list[Step]]:
    def steps(record: Record) -> list[Step]:
        id = text_at(record, "messageId")
        return [Chunk(kind, record["delta"], f"{kind}/{id}", response=id)]

    return steps


def _end_text(kind: SlotKind) -> Callable[[Record], list[Step]]:
    return lambda record: [ChunkEnd(f"{kind}/{text_at(record, 'messageId')}")]


def _chunk_of_text(kind: SlotKind) -> Callable[[Record], list[Step]]:
    """Return the function for chunks that begin and end a message without further events."""
    others = tuple(other for other in _ALL_KINDS if other != kind)

    def steps(record: Record) -> list[Step]:
        chunk = Chunk(
            kind,
            record.get("delta", ""),
            _CHUNKS + kind,
            fields=_text_fields(record),
            anonymous_slot=True,
            response=text_at(record, "messageId"),
        )
        return [ChunkEnd(_CHUNKS, kinds=others), chunk]

    return steps


def _begin_call(record: Record) -> list[Step]:
    id, name = record["toolCallId"], record["toolCallName"]
    chunk = Chunk(
        "input",
        "",
        f"input/{id}",
        call={"id": id, "name": name},
        anonymous_slot=True,
        response=text_at(record, "parentMessageId"),
    )
    return [_END_OF_CHUNKS, chunk]


def _continue_call(record: Record) -> list[Step]:
    id = record["toolCallId"]
    return [Chunk("input", record["delta"], f"input/{id}", call={"id": id})]


def _end_call(record: Record) -> list[Step]:
    return [ChunkEnd(f"input/{record['toolCallId']}")]


def _chunk_of_call(record: Record) -> list[Step]:
    chunk = Chunk(
        "input",
        record.get("delta", ""),
        f"{_CHUNKS}input",
        call=renamed(record, id="toolCallId", name="toolCallName"),
        anonymous_slot=True,
        response=text_at(record, "parentMessageId"),
    )
    return [ChunkEnd(_CHUNKS, kinds=("text", "thinking")), chunk]


# Results and subagents. A subagent is shown as a call with the id of its run, which its events name.


def _parse_result(record: Record) -> ParsedRecord:
    [block] = translate(record["type"], record, _translate_result)
    rest = without(record, "type", "role", "messageId", "timestamp", "content", "toolCallId")
    return ParsedRecord("message", "tool", [block if block["type"] == "raw" else with_extra(block, rest)])


def _result_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    id = text_at(record, "messageId")
    relation: Any = "new" if id is None else "new_version"
    return [Part(role="user", blocks=parsed.blocks, key=id, relation=relation, message_id=id)]


def _result_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    ended: list[Step] = [_END_OF_CHUNKS, ChunkEnd(f"input/{text_at(record, 'toolCallId')}")]
    return [*ended, Part(role="user", blocks=parsed.blocks)]


_SUBAGENT_KEYS = frozenset({"subagentRunId", "name", "description", "timestamp"})


def _translate_subagent(record: Record) -> Block:
    typed = {
        "type": "tool_use",
        "id": record["subagentRunId"],
        "name": record["name"],
        "input": pick(record, "description"),
    }
    return translated(record, typed, _SUBAGENT_KEYS, record["type"])


def _translate_subagent_result(record: Record) -> Block:
    has_failed = record["type"] == "SUBAGENT_ERROR"
    key = "message" if has_failed else "result"
    typed = {
        "type": "tool_result",
        "tool_use_id": record["subagentRunId"],
        **renamed(record, content=key),
        "is_error": has_failed,
    }
    return translated(record, typed, {"subagentRunId", "timestamp", key}, record["type"])


def _subagent_type(role: Role, translation: Callable[[Record], Block]) -> WireType:
    def parse(record: Record) -> ParsedRecord:
        # Nothing is returned without a result, and a subagent with the id of a call is that call.
        is_known = record["type"] == "SUBAGENT_FINISHED" and "result" not in record
        if is_known or record["subagentRunId"] == record.get("parentToolCallId"):
            return control_record(record)
        return ParsedRecord("message", role, translate(record["type"], record, translation))

    def parts(record: Record, parsed: ParsedRecord) -> list[Part]:
        if parsed.kind != "message":
            return []
        outer = text_at(record, "parentSubagentRunId")
        return [Part(role=speaker_of_role(role), blocks=parsed.blocks, parent_call=outer)]

    return WireType(
        parse,
        parts,
        lambda record, parsed: [_END_OF_CHUNKS, *parts(record, parsed)],
        lambda record: isinstance(record.get("subagentRunId"), str),
    )


# Rows of the table of types.


def _has(keys: Iterable[str]) -> Callable[[Record], bool]:
    required = frozenset(keys)
    return lambda record: record.keys() >= required


def _delta_type(*keys: str, steps: Callable[[Record], list[Step]] = lambda record: []) -> WireType:
    """Return the row of deltas by their required keys, and the steps of a record."""

    def scoped(record: Record, parsed: ParsedRecord) -> list[Step]:
        subagent = text_at(record, "subagentRunId")
        return steps(record) if subagent is None else [Scope(subagent), *steps(record)]

    return WireType(chunk_record, steps=scoped, matches=_has(keys))


def _control_type(*keys: str) -> WireType:
    return WireType(control_record, steps=lambda record, parsed: [], matches=_has(keys))


TYPES: Mapping[str, WireType] = {
    "ACTIVITY_DELTA": _control_type("messageId", "patch"),
    "ACTIVITY_SNAPSHOT": _control_type("messageId", "content"),
    "CUSTOM": _control_type("name", "value"),
    "MESSAGES_SNAPSHOT": WireType(_parse_own, _own_parts, _snapshot_steps, _has({"messages"})),
    "RAW": _control_type("event"),
    "REASONING_ENCRYPTED_VALUE": _control_type("entityId", "encryptedValue"),
    "REASONING_END": _control_type("messageId"),
    "REASONING_MESSAGE_CHUNK": _delta_type(steps=_chunk_of_text("thinking")),
    "REASONING_MESSAGE_CONTENT": _delta_type("messageId", "delta", steps=_continue_text("thinking")),
    "REASONING_MESSAGE_END": _delta_type("messageId", steps=_end_text("thinking")),
    "REASONING_MESSAGE_START": _delta_type("messageId", steps=_begin_text("thinking")),
    "REASONING_START": _control_type("messageId"),
    "RUN_ERROR": WireType(control_record, _run_error_parts, _run_error_steps, _has({"message"})),
    "RUN_FINISHED": WireType(control_record, _run_end_parts, _run_end_steps, _has({"threadId", "runId"})),
    "RUN_STARTED": WireType(
        _parse_run_start,
        lambda record, parsed: _parts_of_messages(_input_messages(record)),
        _run_start_steps,
        _has({"threadId", "runId"}),
    ),
    "STATE_DELTA": _control_type("delta"),
    "STATE_SNAPSHOT": _control_type("snapshot"),
    "STEP_FINISHED": _control_type("stepName"),
    "STEP_STARTED": _control_type("stepName"),
    "SUBAGENT_ERROR": _subagent_type("tool", _translate_subagent_result),
    "SUBAGENT_FINISHED": _subagent_type("tool", _translate_subagent_result),
    "SUBAGENT_STARTED": _subagent_type("assistant", _translate_subagent),
    "TEXT_MESSAGE_CHUNK": _delta_type(steps=_chunk_of_text("text")),
    "TEXT_MESSAGE_CONTENT": _delta_type("messageId", "delta", steps=_continue_text("text")),
    "TEXT_MESSAGE_END": _delta_type("messageId", steps=_end_text("text")),
    "TEXT_MESSAGE_START": _delta_type("messageId", steps=_begin_text("text")),
    "THINKING_CONTENT": _delta_type("delta", steps=_continue_text("thinking")),
    "THINKING_END": _delta_type(steps=_end_text("thinking")),
    "THINKING_START": _control_type(),
    "THINKING_TEXT_MESSAGE_CONTENT": _delta_type("delta", steps=_continue_text("thinking")),
    "THINKING_TEXT_MESSAGE_END": _delta_type(steps=_end_text("thinking")),
    "THINKING_TEXT_MESSAGE_START": _delta_type(steps=_begin_text("thinking")),
    "TOOL_CALL_ARGS": _delta_type("toolCallId", "delta", steps=_continue_call),
    "TOOL_CALL_CHUNK": _delta_type(steps=_chunk_of_call),
    "TOOL_CALL_END": _delta_type("toolCallId", steps=_end_call),
    "TOOL_CALL_RESULT": WireType(
        _parse_result, _result_parts, _result_steps, _has({"toolCallId", "content"})
    ),
    "TOOL_CALL_START": _delta_type("toolCallId", "toolCallName", steps=_begin_call),
}
"""The events by `type`: how they are parsed, what they add to messages, and to the event log."""
_INPUT = WireType(
    _parse_own,
    _own_parts,
    lambda record, parsed: [
        *_steps_of_messages(_own_messages(record)),
        Part(role="assistant", original=record),
    ],
)
_UNKNOWN = WireType(unknown_record)
_FOREIGN_KEYS = ENVELOPE_KEYS | {"step_index"}
"""Keys of records in other formats, which may have any type."""
_INPUT_KEYS = frozenset({"threadId", "runId", "messages"})
_ALL_INPUT_KEYS = _INPUT_KEYS | {
    *("context", "forwardedProps", "parentRunId", "protocolVersion", "resume", "state", "tools"),
}


def wire_type(record: Record) -> WireType:
    name = record.get("type")
    if not isinstance(name, str):
        return _INPUT if record.keys() >= _INPUT_KEYS else _UNKNOWN
    return TYPES.get(name, _UNKNOWN)


def recognize(record: Record) -> WireType | None:
    name = record.get("type")
    if not isinstance(name, str):
        return _INPUT if _INPUT_KEYS <= record.keys() <= _ALL_INPUT_KEYS else None
    row = TYPES.get(name)
    is_own = row is not None and record.keys().isdisjoint(_FOREIGN_KEYS) and row.matches(record)
    return row if is_own else None


def header(record: Record) -> RecordHeader:
    return RecordHeader(
        timestamp=to_milliseconds(record.get("timestamp")), session_id=text_at(record, "threadId")
    )


PROVIDER = Provider(
    source="ag_ui",
    recognize=recognize,
    marks=Marks(TYPES, untyped_keys={"threadId"}, body_keys={"messages"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
)
