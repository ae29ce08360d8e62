"""The Interactions API of Gemini: responses as a list of steps, and their stream events.

Source: the steps, contents and events of `interactions` in the `google-genai` package, in snake case. Events
are fragments that state neither their response nor the kind of their step.
"""

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    is_native,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
)
from ash_shared.model.message import Role
from ash_shared.records.contract import ParsedRecord, Part, Record, Speaker, chunk_record
from ash_shared.records.gemini_parts import (
    UsageKeys,
    as_list,
    gemini_usage,
    media_block,
    value_in_either_case,
)
from ash_shared.records.json_fields import (
    decode_arguments,
    is_one_of,
    list_or_empty,
    media_class,
    message_error,
    text_at,
    value_at,
)


def is_interaction(record: Record) -> bool:
    return record.get("object") == "interaction"


def is_event(record: Record) -> bool:
    wire_type = text_at(record, "event_type") or ""
    is_error = wire_type == "error" and "error" in record
    return is_error or wire_type.startswith(("interaction.", "step.", "content."))


def parse_event(record: Record) -> ParsedRecord:
    return chunk_record(record, text_at(record, "event_type"))


def _translate_media(item: Block) -> Block:
    mime, kind = item.get("mime_type"), item["type"]
    source_key = "uri" if item.get("data") is None else "data"
    source = {"data": {"type": "base64"}, "uri": {"type": "url"}}[source_key]
    typed = media_block(mime, source | {"url" if source_key == "uri" else source_key: item[source_key]})
    if kind == "image":
        typed = {"type": "image", "source": typed["source"]}
    elif "mediaClass" not in typed:
        typed["mediaClass"] = media_class(f"{kind}/") if kind != "document" else kind
    return translated(item, typed, ("mime_type", source_key), kind)


def _translate_thought(item: Block) -> list[Block]:
    """Return one block per summary part, or one with only the signature."""
    signature = pick(item, "signature")
    summary = [part for part in list_or_empty(item.get("summary")) if part.get("type") == "text"]
    rest = [part for part in list_or_empty(item.get("summary")) if part.get("type") != "text"]
    texts = [part["text"] for part in summary]
    typed = [{"type": "thinking", "thinking": text, "is_summary": True} for text in texts]
    first, *other_blocks = typed or [{"type": "thinking", "thinking": ""}]
    consumed = ("signature", "summary")
    return [
        translated(item, first | signature, consumed, item["type"]),
        *({**block, "source_type": item["type"]} for block in other_blocks),
        *_parse_items(rest),
    ]


def _step_content(item: Block) -> list[Block]:
    """Return the blocks of a step of the user or the model; a step that has only begun may have no content."""
    return _parse_items(as_list(item.get("content")))


def _call_translation(executor: str | None) -> Callable[[Block], Block]:
    def translate_call(item: Block) -> Block:
        wire_type = item["type"]
        arguments = item.get("arguments", {})
        typed = {
            "type": "tool_use",
            **pick(item, "id"),
            "name": item["name"] if "name" in item else wire_type.removesuffix("_call"),
            "input": decode_arguments(arguments),
            **pick(item, "server_name"),
            **({"executor": executor} if executor else {}),
        }
        is_decoded = typed["input"] is not arguments
        consumed = ("id", "name", "server_name") + (() if is_decoded else ("arguments",))
        return translated(item, typed, consumed, wire_type)

    return translate_call


def _translate_tool_result(item: Block) -> Block:
    result = item.get("result")
    typed = {"type": "tool_result", **pick(item, "is_error"), **renamed(item, tool_use_id="call_id")}
    if result is None:  # the tool reports no result
        return translated(item, typed, ("call_id", "is_error"), item["type"])
    if isinstance(result, str):
        typed["content"] = result
    elif isinstance(result, list) and all(map(is_item, result)):
        typed["content"] = _parse_items(result)
    else:
        typed |= {"content": result, "structured": result}
    return translated(item, typed, ("call_id", "is_error", "result"), item["type"])


SERVER_TOOLS = (
    "code_execution",
    "file_search",
    "google_maps",
    "google_search",
    "processing",
    "retrieval",
    "tool_search",
    "url_context",
)

_ITEM_TRANSLATIONS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    **dict.fromkeys(("audio", "document", "image", "video"), _translate_media),
    **{f"{tool}_call": _call_translation("server") for tool in SERVER_TOOLS},
    **{f"{tool}_result": _translate_tool_result for tool in SERVER_TOOLS},
    "function_call": _call_translation(None),
    "function_result": _translate_tool_result,
    "mcp_server_tool_call": _call_translation("mcp"),
    "mcp_server_tool_result": _translate_tool_result,
    "model_output": _step_content,
    "thought": _translate_thought,
    "user_input": _step_content,
}
"""Translations of interaction steps and their contents, by `type`."""


def is_item(item: Any) -> bool:
    return isinstance(item, dict) and (is_native(item) or is_one_of(item.get("type"), _ITEM_TRANSLATIONS))


def _parse_items(items: list[Any]) -> list[Block]:
    return bounded([block for item in items for block in parse_step(item)])


def parse_step(item: Any) -> list[Block]:
    if isinstance(item, str):
        return [text_block(item)]
    if is_native(item):
        return [item]
    wire_type = item.get("type") if isinstance(item, dict) else None
    if not isinstance(wire_type, str):
        return [raw_block("unknown_type", item)]
    if wire_type not in _ITEM_TRANSLATIONS:
        return [raw_block("malformed" if wire_type == "text" else "unknown_type", item, wire_type)]
    return translate(wire_type, item, _ITEM_TRANSLATIONS[wire_type])


def _speaker_blocks(record: Record) -> list[tuple[Speaker, list[Block]]]:
    """Return the blocks of an interaction with their speakers: the system, then the input, then every step."""
    return input_blocks(record) + [(step_speaker(step), parse_step(step)) for step in response_steps(record)]


def input_blocks(record: Record) -> list[tuple[Speaker, list[Block]]]:
    """Return the blocks of the system instruction and the input with their speakers."""
    system = value_in_either_case(record, "systemInstruction", "system_instruction")
    input = record.get("input")
    system_blocks: list[tuple[Speaker, list[Block]]] = (
        [] if system is None else [("system", parse_step(system))]
    )
    return system_blocks + [_parse_input_item(item) for item in as_list(input)]


def response_steps(record: Record) -> list[Any]:
    return list_or_empty(record.get("steps")) or list_or_empty(record.get("outputs"))


def step_speaker(step: Any) -> Speaker:
    return "user" if is_one_of(value_at(step, "type"), ("function_result", "user_input")) else "assistant"


def _parse_input_item(item: Any) -> tuple[Speaker, list[Block]]:
    """Parse a step of the input, or an earlier chat turn with a role and a content."""
    if not isinstance(item, dict) or "role" not in item or "type" in item:
        is_model_step = is_one_of(value_at(item, "type"), ("model_output", "thought", "function_call"))
        return ("assistant" if is_model_step else "user"), parse_step(item)
    return ("assistant" if item["role"] == "model" else "user"), _step_content(item)


def parse_interaction(record: Record) -> ParsedRecord:
    """Parse an interaction, with its input if included, or a request, which has only input."""
    blocks = [block for _, speaker_blocks in _speaker_blocks(record) for block in speaker_blocks]
    role: Role = "assistant" if is_interaction(record) or response_steps(record) else "user"
    return ParsedRecord("message", role, bounded(blocks))


_USAGE_KEYS = UsageKeys(
    prompt="total_input_tokens",
    tool="total_tool_use_tokens",
    cached="total_cached_tokens",
    answer="total_output_tokens",
    thoughts="total_thought_tokens",
)
_SUCCESS_STATUSES = frozenset(
    {None, "completed", "in_progress", "queued", "requires_action", "requires_continuation"}
)


def request_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return one part for each sequence of inputs with the same speaker."""
    return [Part(role=role, blocks=blocks) for role, blocks in _group_by_speaker(_speaker_blocks(record))]


def interaction_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return one part per sequence of steps with the same speaker. The last part of the model gets usage and error."""
    id, status = text_at(record, "id"), text_at(record, "status")
    runs = _group_by_speaker(_speaker_blocks(record))
    earlier = [Part(role=role, blocks=blocks) for role, blocks in runs]
    last = earlier.pop() if earlier and earlier[-1].role == "assistant" else Part(role="assistant")
    answer = Part(
        role="assistant",
        blocks=last.blocks,
        key=id,
        usage=interaction_usage(record),
        message_id=id,
        metadata={"model": text_at(record, "model"), "stop_reason": status},
        error=interaction_error(record),
    )
    return [*earlier, answer]


def _group_by_speaker(speaker_blocks: list[tuple[Speaker, list[Block]]]) -> list[tuple[Speaker, list[Block]]]:
    return [
        (role, [block for _, blocks in run for block in blocks])
        for role, run in groupby(speaker_blocks, key=lambda pair: pair[0])
    ]


def interaction_usage(record: Record) -> Block | None:
    return gemini_usage(record.get("usage"), _USAGE_KEYS, text_at(record, "service_tier"))


def interaction_error(record: Record) -> Block | None:
    """Return the error of an interaction, or an error derived from its status if that is not successful."""
    error, status = record.get("error"), text_at(record, "status")
    code = text_at(error, "code") or (status if status not in _SUCCESS_STATUSES else None)
    return None if code is None else message_error(code, text_at(error, "message"), error or None)


def event_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return a part for the error of an event, if any. Other events have only steps."""
    return [Part(role=None, error=event_error(record))] if isinstance(record.get("error"), dict) else []


def event_error(event: Record) -> Block:
    """Return the error of an event, which may have no details."""
    error = event.get("error")
    return message_error(text_at(error, "code") or "error", text_at(error, "message"), error or None)
