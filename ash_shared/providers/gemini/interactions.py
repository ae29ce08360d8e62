"""The Interactions API of Gemini: answers that are a list of steps, and the events that they are streamed as.

Source: the steps, contents and events of `interactions` in the `google-genai` package, in snake case. Events are
fragments: they name neither the answer nor the kind of the step that they go on with.
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
from ash_shared.providers._kit.contract import Part, Record, RecordReading, Speaker, chunk_reading
from ash_shared.providers._kit.gemini_parts import (
    UsageKeys,
    as_list,
    gemini_usage,
    media_block,
    value_in_either_case,
)
from ash_shared.providers._kit.json_fields import (
    decode_arguments,
    is_one_of,
    list_or_empty,
    media_class,
    message_error,
    text_at,
    value_at,
)


def is_interaction(record: Record) -> bool:
    """Whether this is a whole interaction."""
    return record.get("object") == "interaction"


def is_event(record: Record) -> bool:
    """Whether this is an event of a stream."""
    wire = text_at(record, "event_type") or ""
    return wire.startswith(("interaction.", "step.", "content.")) or (wire == "error" and "error" in record)


def read_event(record: Record) -> RecordReading:
    """An event, whole."""
    return chunk_reading(record, text_at(record, "event_type"))


def _media(item: Block) -> Block:
    """An image, a recording, a film or a document of an interaction."""
    mime, kind = item.get("mime_type"), item["type"]
    place = "uri" if item.get("data") is None else "data"
    source = {"data": {"type": "base64"}, "uri": {"type": "url"}}[place]
    typed = media_block(mime, source | {"url" if place == "uri" else place: item[place]})
    if kind == "image":
        typed = {"type": "image", "source": typed["source"]}
    elif "mediaClass" not in typed:
        typed["mediaClass"] = media_class(f"{kind}/") if kind != "document" else kind
    return translated(item, typed, ("mime_type", place), kind)


def _thought(item: Block) -> list[Block]:
    """A block for each part of the summary; where there is none, one with the signature alone."""
    signed = pick(item, "signature")
    summary = [part for part in list_or_empty(item.get("summary")) if part.get("type") == "text"]
    rest = [part for part in list_or_empty(item.get("summary")) if part.get("type") != "text"]
    texts = [part["text"] for part in summary]
    typed = [{"type": "thinking", "thinking": text, "is_summary": True} for text in texts]
    first, *others = typed or [{"type": "thinking", "thinking": ""}]
    consumed = ("signature", "summary")
    return [
        translated(item, first | signed, consumed, item["type"]),
        *({**block, "source_type": item["type"]} for block in others),
        *_read_items(rest),
    ]


def _step_content(item: Block) -> list[Block]:
    """A step of the user or of the model; an empty one is begun, and not yet said."""
    return _read_items(as_list(item.get("content")))


def _tool_call(executor: str | None) -> Callable[[Block], Block]:
    def translate_call(item: Block) -> Block:
        wire = item["type"]
        given = item.get("arguments", {})
        typed = {
            "type": "tool_use",
            **pick(item, "id"),
            "name": item["name"] if "name" in item else wire.removesuffix("_call"),
            "input": decode_arguments(given),
            **pick(item, "server_name"),
            **({"executor": executor} if executor else {}),
        }
        decoded = typed["input"] is not given
        consumed = ("id", "name", "server_name") + (() if decoded else ("arguments",))
        return translated(item, typed, consumed, wire)

    return translate_call


def _tool_result(item: Block) -> Block:
    result = item.get("result")
    typed = {"type": "tool_result", **pick(item, "is_error"), **renamed(item, tool_use_id="call_id")}
    if result is None:  # of a tool that tells nothing
        return translated(item, typed, ("call_id", "is_error"), item["type"])
    if result.__class__ is str:
        typed["content"] = result
    elif result.__class__ is list and all(map(is_item, result)):
        typed["content"] = _read_items(result)
    else:
        typed |= {"content": result, "structured": result}
    return translated(item, typed, ("call_id", "is_error", "result"), item["type"])


_SERVER_TOOLS = (
    "code_execution",
    "file_search",
    "google_maps",
    "google_search",
    "processing",
    "retrieval",
    "tool_search",
    "url_context",
)

_ITEMS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    **dict.fromkeys(("audio", "document", "image", "video"), _media),
    **{f"{tool}_call": _tool_call("server") for tool in _SERVER_TOOLS},
    **{f"{tool}_result": _tool_result for tool in _SERVER_TOOLS},
    "function_call": _tool_call(None),
    "function_result": _tool_result,
    "mcp_server_tool_call": _tool_call("mcp"),
    "mcp_server_tool_result": _tool_result,
    "model_output": _step_content,
    "thought": _thought,
    "user_input": _step_content,
}
"""Steps of an interaction and what stands in them, by `type`."""


def is_item(item: Any) -> bool:
    """Whether this is a step, or something that stands in one."""
    return item.__class__ is dict and (is_native(item) or is_one_of(item.get("type"), _ITEMS))


def _read_items(items: list[Any]) -> list[Block]:
    return bounded([block for item in items for block in read_step(item)])


def read_step(item: Any) -> list[Block]:
    """The blocks of a step, or of something that stands in one."""
    if item.__class__ is str:
        return [text_block(item)]
    if is_native(item):
        return [item]
    wire = item.get("type") if item.__class__ is dict else None
    if wire.__class__ is not str:
        return [raw_block("unknown_type", item)]
    if wire not in _ITEMS:
        return [raw_block("malformed" if wire == "text" else "unknown_type", item, wire)]
    return translate(wire, item, _ITEMS[wire])


_USER_STEPS = frozenset({"function_result", "user_input"})


def _said(record: Record) -> list[tuple[Speaker, list[Block]]]:
    """Who said what in an interaction: the system, then what was put in, then every step."""
    return asked_of(record) + [(side_of(step), read_step(step)) for step in steps_of(record)]


def asked_of(record: Record) -> list[tuple[Speaker, list[Block]]]:
    """What was put in, and by whom."""
    system, given = (
        value_in_either_case(record, "systemInstruction", "system_instruction"),
        record.get("input"),
    )
    said: list[tuple[Speaker, list[Block]]] = [] if system is None else [("system", read_step(system))]
    return said + [_asked(item) for item in as_list(given)]


def steps_of(record: Record) -> list[Any]:
    """The steps of the answer."""
    return list_or_empty(record.get("steps")) or list_or_empty(record.get("outputs"))


def side_of(step: Any) -> Speaker:
    """In whose name a step stands."""
    return "user" if is_one_of(value_at(step, "type"), _USER_STEPS) else "assistant"


def _asked(item: Any) -> tuple[Speaker, list[Block]]:
    """A step of the input; or a turn of a chat before, with a role and a content."""
    if item.__class__ is not dict or "role" not in item or "type" in item:
        is_answer = is_one_of(value_at(item, "type"), ("model_output", "thought", "function_call"))
        return ("assistant" if is_answer else "user"), read_step(item)
    return ("assistant" if item["role"] == "model" else "user"), _step_content(item)


def read_interaction(record: Record) -> RecordReading:
    """An interaction with what was put in, where it is told; or a request for one, which has nothing else."""
    blocks = [block for _, said in _said(record) for block in said]
    role: Role = "assistant" if is_interaction(record) or steps_of(record) else "user"
    return RecordReading("message", role, bounded(blocks))


_COUNTS = UsageKeys(
    prompt="total_input_tokens",
    tool="total_tool_use_tokens",
    cached="total_cached_tokens",
    answer="total_output_tokens",
    thoughts="total_thought_tokens",
)
_GOOD_STATES = frozenset(
    {None, "completed", "in_progress", "queued", "requires_action", "requires_continuation"}
)


def request_parts(record: Record, reading: RecordReading) -> list[Part]:
    """A part for each run of what one side put in."""
    return [Part(role=role, blocks=blocks) for role, blocks in _runs(_said(record))]


def interaction_parts(record: Record, reading: RecordReading) -> list[Part]:
    """A part for each run of steps of one side; what is told of the whole goes to the last of the model's."""
    id, status = text_at(record, "id"), text_at(record, "status")
    runs = _runs(_said(record))
    before = [Part(role=role, blocks=blocks) for role, blocks in runs]
    last = before.pop() if before and before[-1].role == "assistant" else Part(role="assistant")
    answer = Part(
        role="assistant",
        blocks=last.blocks,
        key=id,
        usage=usage_of_interaction(record),
        metadata={"messageId": id, "model": text_at(record, "model"), "stop_reason": status},
        error=error_of(record),
    )
    return [*before, answer]


def _runs(said: list[tuple[Speaker, list[Block]]]) -> list[tuple[Speaker, list[Block]]]:
    return [
        (role, [block for _, blocks in run for block in blocks])
        for role, run in groupby(said, key=lambda each: each[0])
    ]


def usage_of_interaction(record: Record) -> Block | None:
    """What it cost."""
    return gemini_usage(record.get("usage"), _COUNTS, text_at(record, "service_tier"))


def error_of(record: Record) -> Block | None:
    """What went wrong: the status tells it, where nothing else does."""
    told, status = record.get("error"), text_at(record, "status")
    code = text_at(told, "code") or (status if status not in _GOOD_STATES else None)
    return None if code is None else message_error(code, text_at(told, "message"), told or None)


def event_parts(record: Record, reading: RecordReading) -> list[Part]:
    """What the end of a stream says of the answer; the answer itself is in fragments."""
    told = record.get("error")
    if told.__class__ is not dict:
        return []
    return [
        Part(role=None, error=message_error(text_at(told, "code") or "error", text_at(told, "message"), told))
    ]
