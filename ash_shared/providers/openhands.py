"""Conversations of OpenHands (version 1): a folder with a file per event, and its state in `base_state.json`.

Source: `openhands.sdk.event`, and conversations that version 1.58.0 of the SDK wrote. Events with one `llm_response_id`
are one answer. Its usage is only in the state, which is rewritten.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    content_parser,
    is_native,
    joined_text,
    pick,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    control_record,
    unknown_record,
)
from ash_shared.records.documents import DocumentItem, document_type
from ash_shared.records.fingerprints import DOCUMENT_KEYS, body_keys
from ash_shared.records.json_fields import (
    count_at,
    input_at,
    is_integer,
    items_at,
    list_or_empty,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    url_source,
    value_at,
)
from ash_shared.records.steps import Step

_ENVELOPE = ("id", "timestamp", "source", "parent_id", "kind", "llm_response_id")

# Blocks.


def _translate_image(block: Block) -> list[Block]:
    rest = without(block, "type", "image_urls", "cache_prompt")
    images = [{"type": "image", "source": url_source(url)} for url in block["image_urls"]]
    return [with_extra(images[0], rest), *images[1:]]


_parse_typed = content_parser({})


def parse_block(block: Any) -> Block:
    return _content_blocks([block])[0]


def _content_blocks(content: Any) -> list[Block]:
    """Return the blocks of a list. Each states whether it may be cached, which says nothing about its content."""
    return [block for part in list_or_empty(content) for block in _part_blocks(part)]


def _part_blocks(part: Any) -> list[Block]:
    if isinstance(part, dict) and "image_urls" in part:
        return translate("image", part, _translate_image) if part["image_urls"] else []
    own = without(part, "cache_prompt") if isinstance(part, dict) else part
    return [own if is_native(own) else _parse_typed(own)]


def _thoughts(record: Record) -> list[Block]:
    """Return the thinking of an answer: the blocks of the vendor, or else its text."""
    in_message = items_at(record, "llm_message", "thinking_blocks")
    blocks = _content_blocks([*items_at(record, "thinking_blocks"), *in_message])
    text = text_at(record, "reasoning_content") or text_at(record, "llm_message", "reasoning_content")
    return blocks or ([] if text is None else [{"type": "thinking", "thinking": text}])


# Events.


def _parse_message(record: Record) -> ParsedRecord:
    message = record["llm_message"]
    role = message["role"]
    content = _content_blocks(message["content"])
    extended = _content_blocks(record.get("extended_content"))
    blocks = [
        *_thoughts(record),
        *content,
        *({**block, "source_type": "extended_content"} for block in extended),
    ]
    return ParsedRecord(
        "message", role if role in ("user", "assistant", "system", "tool") else "system", blocks
    )


def _parse_action(record: Record) -> ParsedRecord:
    blocks = [*_thoughts(record), *_content_blocks(record.get("thought"))]
    return ParsedRecord("message", "assistant", [*blocks, *translate("ActionEvent", record, _translate_call)])


def _translate_call(record: Record) -> Block:
    call = record.get("tool_call")
    arguments, consumed = input_at(call, "arguments") if isinstance(call, dict) else (record["action"], ())
    typed = {"type": "tool_use", **renamed(record, id="tool_call_id", name="tool_name"), "input": arguments}
    rest = {"tool_call": without(call, "id", "name", *consumed)} if isinstance(call, dict) else {}
    fields = without(record, "thought", "thinking_blocks", "reasoning_content", "tool_call", *_ENVELOPE)
    return translated({**fields, **rest}, typed, ("tool_call_id", "tool_name"), "ActionEvent")


def _parse_observation(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "tool", translate(record["kind"], record, _translate_observation))


def _translate_observation(record: Record) -> Block:
    """Translate what an action returned. An observation of another shape stays as it is."""
    observation = record["observation"]
    content = observation.get("content")
    blocks = _content_blocks(content) if isinstance(content, list) else None
    is_text = blocks is not None and all(block["type"] == "text" and "extra" not in block for block in blocks)
    code = observation.get("exit_code")
    typed = {
        "type": "tool_result",
        **renamed(record, tool_use_id="tool_call_id"),
        "content": joined_text(blocks or []) if is_text else blocks if blocks is not None else observation,
        **pick(observation, "is_error"),
        **({"exit_code": code} if is_integer(code) else {}),
        "structured": observation,
    }
    return translated(record, typed, (*_ENVELOPE, "tool_call_id", "observation"), record["kind"])


def _parse_failure(key: str) -> Any:
    """Return the parser of a failed or rejected action, with its text at the key."""

    def parse(record: Record) -> ParsedRecord:
        typed = {
            "type": "tool_result",
            **renamed(record, tool_use_id="tool_call_id"),
            "content": record[key],
            "is_error": True,
        }
        block = translated(record, typed, (*_ENVELOPE, "tool_call_id", key), record["kind"])
        return ParsedRecord("message", "tool", [block])

    return parse


def _parse_prompt(record: Record) -> ParsedRecord:
    blocks = _content_blocks([record["system_prompt"]])
    return ParsedRecord(
        "message", "system", [with_extra(blocks[0], without(record, "system_prompt", *_ENVELOPE))]
    )


def _parse_summary(record: Record) -> ParsedRecord:
    summary = record.get("summary")
    if not isinstance(summary, str) or not summary:
        return control_record(record, text_at(record, "kind"))
    block = translated(record, text_block(summary, "summary"), (*_ENVELOPE, "summary"), record["kind"])
    return ParsedRecord("message", "system", [block])


def _parse_error(record: Record) -> ParsedRecord:
    block = translated(record, text_block(record["detail"], "error"), (*_ENVELOPE, "detail"), record["kind"])
    return ParsedRecord("message", "system", [block])


def _event_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    if parsed.role != "assistant":
        role = "user" if parsed.role == "tool" else parsed.role
        is_typed = parsed.role != "user" or record.get("source") == "user"
        return [Part(role=role, blocks=parsed.blocks, origin="prompt" if is_typed else "synthetic")]
    answer = text_at(record, "llm_response_id")
    if answer is None:
        return [Part(role="assistant", blocks=parsed.blocks)]
    id = text_at(record, "id")
    return [
        Part(
            role="assistant",
            blocks=parsed.blocks,
            key=answer,
            relation="section",
            section=id,
            message_id=answer,
        )
    ]


def _error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="system", blocks=parsed.blocks, error=_error(record))]


def _error_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Leave the turn open: the state with the usage of its answers is the last document."""
    return [Part(role=None, error=_error(record))]


def _error(record: Record) -> Block:
    return message_error(text_at(record, "code") or "error", text_at(record, "detail"))


# The state.


def _usage_items(record: Record) -> Iterator[DocumentItem]:
    """Yield the usage of each answer, which belongs to the message of its events."""
    models = value_at(record, "stats", "usage_to_metrics")
    for metrics in models.values() if isinstance(models, dict) else ():
        for counts in items_at(metrics, "token_usages"):
            answer = text_at(counts, "response_id")
            if answer is not None:
                yield DocumentItem(answer, counts, [_usage_part(counts, answer)])


def _usage_part(counts: Record, answer: str) -> Part:
    """Return the usage of an answer. Its input includes tokens that were read from or written to a cache."""
    read, written = count_at(counts, "cache_read_tokens"), count_at(counts, "cache_write_tokens")
    usage = token_usage(
        counts,
        input=subtract_counts(count_at(counts, "prompt_tokens"), read, written),
        output=count_at(counts, "completion_tokens"),
        cache_read=read,
        cache_creation=written,
        reasoning=count_at(counts, "reasoning_tokens"),
    )
    metadata = {"model": text_at(counts, "model")}
    header = RecordHeader(uuid=answer)
    return Part(
        role="assistant",
        key=answer,
        relation="section",
        section="usage",
        usage=usage,
        metadata=metadata,
        header=header,
    )


_STATE = document_type(
    "base_state", lambda record: control_record(record, "base_state"), _usage_items, is_over=False
)


# Records.

TYPES: Mapping[str, WireType] = {
    "ActionEvent": WireType(_parse_action, _event_parts),
    "AgentErrorEvent": WireType(_parse_failure("error"), _event_parts),
    "Condensation": WireType(_parse_summary),
    "CondensationRequest": WireType(lambda record: control_record(record, "CondensationRequest")),
    "CondensationSummaryEvent": WireType(_parse_summary),
    "ConversationErrorEvent": WireType(_parse_error, _error_parts, _error_steps),
    "ConversationStateUpdateEvent": WireType(
        lambda record: control_record(record, "ConversationStateUpdateEvent")
    ),
    "LLMCompletionLogEvent": WireType(lambda record: control_record(record, "LLMCompletionLogEvent")),
    "MessageEvent": WireType(_parse_message, _event_parts),
    "ObservationEvent": WireType(_parse_observation, _event_parts),
    "PauseEvent": WireType(lambda record: control_record(record, "PauseEvent")),
    "SystemPromptEvent": WireType(_parse_prompt),
    "TokenEvent": WireType(lambda record: control_record(record, "TokenEvent")),
    "UserRejectObservation": WireType(_parse_failure("rejection_reason"), _event_parts),
}
"""The kinds of events."""
_UNKNOWN = WireType(lambda record: unknown_record(record, text_at(record, "kind")))
_SOURCES = frozenset({"agent", "environment", "hook", "user"})


def wire_type(record: Record) -> WireType:
    if "persistence_dir" in record:
        return _STATE
    return TYPES.get(text_at(record, "kind") or "", _UNKNOWN)


def recognize(record: Record) -> WireType | None:
    keys = body_keys(record)
    if "persistence_dir" in record:
        is_state = isinstance(record.get("agent"), dict) and "execution_status" in record
        return _STATE if is_state and keys <= {"stats"} and _FOREIGN_KEYS.isdisjoint(record) else None
    if keys and not (keys == {"error"} and isinstance(record["error"], str)):
        return None
    kind, source = record.get("kind"), record.get("source")
    is_event = isinstance(kind, str) and isinstance(source, str) and source in _SOURCES
    is_named = is_event and (kind in TYPES or kind.endswith("Event"))  # type: ignore[union-attr]
    is_own = is_named and isinstance(record.get("id"), str) and _FOREIGN_KEYS.isdisjoint(record)
    return wire_type(record) if is_own else None


_FOREIGN_KEYS = DOCUMENT_KEYS | {"role"}
"""Keys of records in other formats."""


def header(record: Record) -> RecordHeader:
    if "persistence_dir" in record:
        return RecordHeader(
            session_id=text_at(record, "id"),
            model=text_at(record, "agent", "llm", "model"),
            folder=text_at(record, "workspace", "working_dir"),
        )
    return RecordHeader(uuid=text_at(record, "id"), timestamp=to_milliseconds(record.get("timestamp")))


def identify(record: Record) -> Identity:
    return Identity() if "persistence_dir" in record else Identity(record=text_at(record, "id"))


PROVIDER = Provider(
    source="openhands",
    recognize=recognize,
    marks=Marks(untyped_keys={"kind", "persistence_dir"}, body_keys={"error", "stats"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
