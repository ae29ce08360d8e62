"""Mistral Vibe: the store of a session in version 3, the lines of `vibe --output streaming`, and messages of version 2.

Source: runs of Vibe 3.0.2, and a reader's test cases of version 2. Version 3 writes entries with ids: messages,
reasoning, and effects, which are calls with their results. Its store has them in lists that are written again at each
turn; the counts of tokens are totals of the session. Version 2 writes messages as in Chat Completions.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    content_parser,
    parse_content,
    raw_block,
    renamed,
    translate,
    translated,
    with_extra,
    with_extra_in_first,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.chat_completions import translate_tool_call
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    Speaker,
    WireType,
    control_record,
    unknown_record,
)
from ash_shared.records.documents import DocumentItem, document_parts, document_type
from ash_shared.records.fingerprints import body_keys, is_vibe_entry, is_vibe_message
from ash_shared.records.json_fields import (
    count_at,
    is_one_of,
    list_or_empty,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)

parse_block = content_parser({})


# Entries of version 3.


def _translate_message(entry: Record) -> list[Block]:
    blocks = parse_content(entry["content"], parse_block)
    return with_extra_in_first(blocks, without(entry, "content", *_ENVELOPE))


def _translate_reasoning(entry: Record) -> Block:
    typed = {"type": "thinking", "thinking": entry["text"]}
    return translated(entry, typed, ("text", *_ENVELOPE), "reasoning")


def _translate_effect(entry: Record) -> list[Block]:
    """Return a call, and its result once it has ended. Both have the id of the entry: it states no other."""
    detail, state = entry["detail"], entry["state"]
    call = {"type": "tool_use", "id": entry["id"], "name": detail["toolName"], "input": detail["input"]}
    rest = {**without(entry, "detail", "state", *_ENVELOPE), **without(detail, "input", "toolName")}
    is_over = "output" in state or "error" in state
    blocks = [with_extra({**call, "source_type": "effect"}, rest if is_over else {**rest, "state": state})]
    if not is_over:
        return blocks
    typed = {"type": "tool_result", "tool_use_id": entry["id"], "is_error": state.get("status") == "failed"}
    return [*blocks, {**typed, **_result_fields(state), "source_type": "effect"}]


def _result_fields(state: Record) -> Block:
    """Return the content of a result: the text that a person sees, or else the output as data."""
    message, text = text_at(state, "error", "message"), text_at(state, "outputText")
    if message is not None or text is not None:
        rest = without(state, "output", *(("outputText",) if message is None else ()))
        return {"content": message or text, **renamed(state, structured="output"), "extra": rest}
    output: Any = state.get("output")
    if value_at(output, "structured_content") is None:
        return {"content": output, "extra": without(state, "output")}
    rest = {**state, "output": without(output, "structured_content")}
    return {"content": output["structured_content"], "extra": rest}


_ENVELOPE = ("createdAt", "generationStatus", "id", "role", "sessionId", "turnId", "type", "updatedAt")
_ENTRIES: Mapping[str, Callable[[Any], Block | list[Block]]] = {
    "effect": _translate_effect,
    "message": _translate_message,
    "reasoning": _translate_reasoning,
}


def _entry_blocks(entry: Any) -> list[Block]:
    name = text_at(entry, "type")
    if name is None or name not in _ENTRIES:
        return [raw_block("unknown_type", entry, name)]
    return translate(name, entry, _ENTRIES[name])


def _parse_entry(entry: Record) -> ParsedRecord:
    role: Speaker = "user" if text_at(entry, "role") == "user" else "assistant"
    return ParsedRecord("message", role, _entry_blocks(entry))


def _entry_item(entry: Any) -> DocumentItem:
    return DocumentItem(text_at(entry, "id") or "", entry, [*_entry_parts(entry)])


def _entry_parts(entry: Any) -> Iterator[Part]:
    blocks = _entry_blocks(entry)
    header = RecordHeader(timestamp=to_milliseconds(value_at(entry, "createdAt")))
    said = [block for block in blocks if block["type"] != "tool_result"]
    is_prompt = text_at(entry, "role") == "user"
    yield Part(role="user" if is_prompt else "assistant", blocks=said, header=header, original=entry)
    if len(said) < len(blocks):
        time = to_milliseconds(value_at(entry, "updatedAt"))
        yield Part(role="user", blocks=blocks[-1:], header=RecordHeader(timestamp=time), original=entry)


def _is_entry(record: Any) -> bool:
    return isinstance(record, dict) and is_one_of(record.get("type"), _ENTRIES) and is_vibe_entry(record)


_ENTRY = WireType(_parse_entry, lambda entry, parsed: document_parts([_entry_item(entry)]))


# Documents of version 3.


def _parse_history(record: Record) -> ParsedRecord:
    blocks = [block for entry in list_or_empty(record["list"]) for block in _entry_blocks(entry)]
    return ParsedRecord("message", "user", bounded(blocks))


def _usage_items(record: Record) -> list[DocumentItem]:
    """Return the tokens of the whole session, in a message of their own. Their input includes cached tokens."""
    counts = value_at(record, "snapshot", "session", "tokenUsage")
    cached = count_at(counts, "cachedInputTokens")
    usage = token_usage(
        counts,
        input=subtract_counts(count_at(counts, "inputTokens"), cached),
        output=count_at(counts, "outputTokens"),
        cache_read=cached,
    )
    if usage is None:
        return []
    blocks = [raw_block("control", counts, "tokenUsage")]
    return [DocumentItem("usage", counts, [Part(role="assistant", blocks=blocks, usage=usage)])]


_HISTORY = document_type(
    "history", _parse_history, lambda record: map(_entry_item, record["list"]), is_over=False
)
_STATE = document_type(
    "state", lambda record: control_record(record, "projection-state"), _usage_items, is_over=False
)
_META = WireType(lambda record: control_record(record, "meta"))


def recognizes_list(values: list[Any]) -> bool:
    """Return True for a list of entries."""
    return bool(values) and all(map(_is_entry, values))


# Messages of version 2.


def _parse_message(message: Record) -> ParsedRecord:
    role = message["role"]
    return ParsedRecord("message", role, translate(role, message, _MESSAGES[role]))


def _translate_text(message: Record) -> list[Block]:
    content = message.get("content")
    blocks = [] if content in (None, "") else parse_content(content, parse_block)
    return with_extra_in_first(blocks, without(message, "content", "message_id", "role"))


def _translate_answer(message: Record) -> list[Block]:
    reasoning, content = message.get("reasoning_content"), message.get("content")
    thinking = [] if reasoning in (None, "") else [{"type": "thinking", "thinking": reasoning}]
    texts = [] if content in (None, "") else parse_content(content, parse_block)
    calls = map(translate_tool_call, list_or_empty(message.get("tool_calls")))
    rest = without(message, "content", "message_id", "model", "reasoning_content", "role", "tool_calls")
    return with_extra_in_first(bounded([*thinking, *texts, *calls]), rest)


def _translate_result(message: Record) -> Block:
    content = message["content"]
    typed = {
        "type": "tool_result",
        "tool_use_id": message["tool_call_id"],
        "content": content if isinstance(content, str) else parse_content(content, parse_block),
    }
    return translated(message, typed, ("content", "message_id", "role", "tool_call_id"), "tool")


_MESSAGES: Mapping[str, Callable[[Any], Block | list[Block]]] = {
    "assistant": _translate_answer,
    "system": _translate_text,
    "tool": _translate_result,
    "user": _translate_text,
}


def _message_parts(message: Record, parsed: ParsedRecord) -> list[Part]:
    speaker: Speaker = "user" if parsed.role == "tool" else parsed.role
    metadata = {"model": text_at(message, "model")} if parsed.role == "assistant" else {}
    is_injected = message.get("injected") is True
    origin: Any = "synthetic" if is_injected else "prompt"
    return [Part(role=speaker, blocks=parsed.blocks, origin=origin, metadata=metadata)]


_MESSAGE = WireType(_parse_message, _message_parts)
_UNKNOWN = WireType(lambda record: unknown_record(record))


# Records.


def recognize(record: Record) -> WireType | None:
    if isinstance(record.get("type"), str):
        return _ENTRY if _is_entry(record) else None
    if "role" not in record and body_keys(record) <= {"stats"} and _FOREIGN_KEYS.isdisjoint(record):
        if "projection_state_version" in record:
            return _STATE if isinstance(record.get("snapshot"), dict) else None
        if "title_source" in record:
            is_meta = (
                isinstance(record.get("environment"), dict) and text_at(record, "session_id") is not None
            )
            return _META if is_meta else None
    return _MESSAGE if is_vibe_message(record) else None


_FOREIGN_KEYS = frozenset(
    {"agents", "display", "event", "message", "schema_version", "segments", "steps", "table"}
)
"""Keys that identify documents of other formats."""


def wire_type(record: Record) -> WireType:
    return _HISTORY if "list" in record else recognize(record) or _UNKNOWN


def header(record: Record) -> RecordHeader:
    if "title_source" in record:
        return RecordHeader(
            timestamp=to_milliseconds(record.get("start_time")),
            last_timestamp=to_milliseconds(record.get("end_time")),
            session_id=text_at(record, "session_id"),
            title=text_at(record, "title"),
            parent=text_at(record, "parent_session_id"),
            folder=text_at(record, "environment", "working_directory"),
            model=text_at(record, "model") or text_at(record, "config", "model_name"),
        )
    if "list" in record:
        entries = list_or_empty(record["list"]) if isinstance(record["list"], list) else []
        return RecordHeader(session_id=text_at(entries[0], "sessionId") if entries else None)
    if "message_id" in record:
        return RecordHeader(uuid=text_at(record, "message_id"))
    time = to_milliseconds(record.get("createdAt"))
    return RecordHeader(timestamp=time, session_id=text_at(record, "sessionId"))


def identify(record: Record) -> Identity:
    if "title_source" not in record:
        return Identity()
    found = header(record)
    return Identity(session=found.session_id, project=found.folder, body="")


PROVIDER = Provider(
    source="mistral_vibe",
    recognize=recognize,
    recognizes_list=recognizes_list,
    marks=Marks(
        typed_keys={"generationStatus"},
        untyped_keys={"message_id", "projection_state_version", "title_source"},
        body_keys={"stats"},
    ),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
