"""smolagents: the steps in the memory of an agent, as `agent.memory.get_full_steps()` returns them.

Source: `smolagents.memory`, and runs of version 1.26.0. A step contains the messages of its request, which repeat all
earlier steps: they are kept outside the conversation.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    are_valid,
    bounded,
    pick,
    raw_block,
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
    WireType,
    unknown_record,
)
from ash_shared.records.documents import DocumentItem, document_type
from ash_shared.records.fingerprints import DOCUMENT_KEYS, body_keys
from ash_shared.records.json_fields import (
    count_at,
    is_number,
    items_at,
    list_or_empty,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)

# Prompts and plans.


def _parse_task(step: Record) -> ParsedRecord:
    block = translated(step, text_block(step["task"]), ("task",), "TaskStep")
    return ParsedRecord("message", "user", [block])


def _parse_plan(step: Record) -> ParsedRecord:
    block = translated(step, text_block(step["plan"], "plan"), ("plan", *_ENVELOPE), "PlanningStep")
    return ParsedRecord("message", "assistant", [_head(step, "plan"), block])


def _plan_parts(step: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="assistant", blocks=parsed.blocks[1:], usage=_usage(step))]


# Actions.


def _parse_action(step: Record) -> ParsedRecord:
    blocks = [block for part in _action_parts(step) for block in part.blocks]
    return ParsedRecord("message", "assistant", bounded([_head(step), *blocks]))


def _head(step: Record, *names: str) -> Block:
    """Return the values of a step outside the conversation, such as the messages of its request."""
    return raw_block("control", without(step, *names), "step")


def _action_parts(step: Record, parsed: ParsedRecord | None = None) -> list[Part]:
    calls = _calls(step)
    answer = [*_texts(step), *calls]
    results = _results(step, calls)
    error = _error(step)
    parts = [Part(role="assistant", blocks=answer, usage=_usage(step))]
    if results:
        parts.append(Part(role="user", blocks=results))
    elif error is not None:
        parts.append(Part(role="system", blocks=[text_block(error["message"], "error")], error=error))
    final = text_at(step, "action_output")
    if step.get("is_final_answer") is True and final is not None:
        parts.append(Part(role="assistant", blocks=[text_block(final, "result")]))
    return parts


def _texts(step: Record) -> list[Block]:
    """Return the text of the model."""
    output = step.get("model_output")
    if output is None:
        output = value_at(step, "model_output_message", "content")
    if isinstance(output, str):
        return [text_block(output)] if output else []
    return [_text_of_part(part) for part in list_or_empty(output)]


def _text_of_part(part: Any) -> Block:
    text = text_at(part, "text")
    return raw_block("unknown_type", part) if text is None else text_block(text)


def _calls(step: Record) -> list[Block]:
    """Return the calls of a step, or the calls in the answer of the model if the step lists none."""
    calls = items_at(step, "tool_calls") or items_at(step, "model_output_message", "tool_calls")
    return [block for call in calls for block in translate("tool_call", call, _translate_call)]


def _translate_call(call: Record) -> Block:
    function = call["function"]
    typed = {"type": "tool_use", **pick(call, "id"), "name": function["name"], "input": function["arguments"]}
    return translated(call, typed, ("function", "id"), "tool_call")


def _results(step: Record, calls: list[Block]) -> list[Block]:
    """Return the result of the last call. A step has one text for the results of all its calls."""
    used = [call for call in calls if call["type"] == "tool_use"]
    observations, error = text_at(step, "observations"), _error(step)
    if not used or (observations is None and error is None):
        return []
    texts = [text for text in (observations, error and error["message"]) if text]
    result = {"type": "tool_result", **({"tool_use_id": used[-1]["id"]} if "id" in used[-1] else {})}
    return [{**result, "content": "\n".join(texts), "is_error": error is not None}]


def _error(step: Record) -> Block | None:
    error = step.get("error")
    if not isinstance(error, dict):
        return None
    return message_error(text_at(error, "type") or "error", text_at(error, "message"), error)


def _usage(step: Record) -> Block | None:
    usage = step.get("token_usage")
    return token_usage(usage, input=count_at(usage, "input_tokens"), output=count_at(usage, "output_tokens"))


_ENVELOPE = ("model_input_messages", "model_output_message", "timing", "token_usage")
_TASK = WireType(_parse_task)
_PLAN = WireType(_parse_plan, _plan_parts)
_ACTION = WireType(_parse_action, _action_parts)
_UNKNOWN = WireType(unknown_record)

# Memories: all steps as a list, which is written again after each run.


def _parse_memory(record: Record) -> ParsedRecord:
    blocks = [block for step in record["list"] for block in _parse_step(step).blocks]
    return ParsedRecord("message", "user", bounded(blocks))


def _parse_step(step: Record) -> ParsedRecord:
    parsed = wire_type(step).parse(step)
    return (
        parsed
        if are_valid(parsed.blocks)
        else ParsedRecord("record", "system", [raw_block("malformed", step, "step")])
    )


def _items(record: Record) -> list[DocumentItem]:
    return [DocumentItem(str(number), step, _step_parts(step)) for number, step in enumerate(record["list"])]


def _step_parts(step: Record) -> list[Part]:
    parsed = _parse_step(step)
    parts = wire_type(step).parts(step, parsed) or [Part(role="system", blocks=parsed.blocks)]
    return [replace(part, header=header(step), original=step) for part in parts]


_MEMORY = document_type("memory", _parse_memory, _items)
_LIST = frozenset({"list"})


# Records.

_STEPS: Mapping[str, tuple[WireType, frozenset[str]]] = {
    "step_number": (
        _ACTION,
        frozenset({"model_output", "observations", "step_number", "timing", "tool_calls"}),
    ),
    "plan": (_PLAN, frozenset({"model_output_message", "plan", "timing"})),
    "task": (_TASK, frozenset({"task", "task_images"})),
}
"""The kinds of steps, and the keys that identify each."""


def wire_type(step: Record) -> WireType:
    if step.keys() == _LIST:
        return _MEMORY
    return next((row for key, (row, _) in _STEPS.items() if key in step), _UNKNOWN)


def recognizes_list(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(each, dict) and recognize(each) is not None for each in values)


def recognize(step: Record) -> WireType | None:
    body = {"error"} if "step_number" in step else set()
    if not body_keys(step) <= body or not _FOREIGN_KEYS.isdisjoint(step):
        return None
    key = next((key for key in _STEPS if key in step), None)
    row, keys = _STEPS[key] if key is not None else (_UNKNOWN, frozenset[str]())
    is_own = row is not _UNKNOWN and step.keys() >= keys and (row is not _TASK or step.keys() == keys)
    return row if is_own and (row is _TASK or isinstance(step["timing"], dict)) else None


_FOREIGN_KEYS = DOCUMENT_KEYS | {"content", "event_kind", "kind", "role", "type"}


def parse_block(block: Any) -> Block:
    return raw_block("unknown_type", block)


def header(step: Record) -> RecordHeader:
    if step.keys() != _LIST:
        return RecordHeader(timestamp=to_milliseconds(value_at(step, "timing", "start_time")))
    times = [to_milliseconds(time) for time in _start_times(step)]
    return RecordHeader(timestamp=next(iter(times), None), last_timestamp=next(reversed(times), None))


def _start_times(memory: Record) -> list[int | float]:
    times = (value_at(step, "timing", "start_time") for step in items_at(memory, "list"))
    return [time for time in times if is_number(time)]


def identify(step: Record) -> Identity:
    """Return when the first step of a memory began, which is the same in later versions."""
    first = next(iter(_start_times(step)), None)
    return Identity() if first is None else Identity(record=f"memory/{first}")


PROVIDER = Provider(
    source="smolagents",
    recognize=recognize,
    marks=Marks(untyped_keys=_STEPS, body_keys={"error"}),
    wire_type=wire_type,
    parse_block=parse_block,
    recognizes_list=recognizes_list,
    header=header,
    identify=identify,
)
