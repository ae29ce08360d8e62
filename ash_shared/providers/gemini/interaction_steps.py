"""What the Interactions API of Gemini adds to the log of events: answers at rest, and the events of a stream.

A step of an answer is one thing that is said, thought, called or answered; its place in the answer names it in all
events. An event of a step that goes on says what the piece is, and no more: of which call a result is, only the event
that begins it tells. The last event has no steps, as a rule.
"""

from collections.abc import Callable, Mapping

import msgspec

from ash_shared.model.blocks import Block, pick
from ash_shared.providers._kit.contract import Part, Record, RecordReading
from ash_shared.providers._kit.json_fields import list_or_empty, message_error, text_at, value_at
from ash_shared.providers._kit.steps import (
    Closed,
    Counted,
    Fragment,
    Interrupts,
    ResponseEnds,
    ResponseStarts,
    Says,
    Step,
    Whole,
)
from ash_shared.providers.gemini.interactions import (
    asked_of,
    error_of,
    is_event,
    is_interaction,
    read_step,
    side_of,
    steps_of,
    usage_of_interaction,
)

_Reader = Callable[[Record], list[Step]]
_Pieces = Callable[[Record, str], list[Step]]

# Pieces, each with the place of its step.


def _text(delta: Record, place: str) -> list[Step]:
    return [Fragment("text", text_at(delta, "text") or "", place, reopens=True)]


def _thought(delta: Record, place: str) -> list[Step]:
    return [Fragment("thinking", text_at(delta, "content", "text") or "", place)]


def _signature(delta: Record, place: str) -> list[Step]:
    return [Fragment("thinking", "", place, more=pick(delta, "signature"))]


def _arguments(delta: Record, place: str) -> list[Step]:
    return [Fragment("input", text_at(delta, "arguments") or "", place)]


def _call(delta: Record, place: str) -> list[Step]:
    """Arguments that come in one piece."""
    given = delta.get("arguments")
    text = given if given.__class__ is str else _encode(given).decode() if given else ""
    return [Fragment("input", text, place, text_at(delta, "id"), text_at(delta, "name"))]


def _result(delta: Record, place: str) -> list[Step]:
    return [Whole(_answer(read_step(delta)), slot=place)]


def _media(delta: Record, place: str) -> list[Step]:
    """A picture or a recording, whole; text may come before it and after it."""
    return [Closed(place), Whole(_answer(read_step(delta)))]


def _silent(delta: Record, place: str) -> list[Step]:
    return []


_encode = msgspec.json.Encoder().encode
_TOOLS = (
    "code_execution",
    "file_search",
    "function",
    "google_maps",
    "google_search",
    "mcp_server_tool",
    "processing",
    "retrieval",
    "tool_search",
    "url_context",
)

_DELTAS: Mapping[str, _Pieces] = {
    **dict.fromkeys((f"{tool}_call" for tool in _TOOLS), _call),
    **dict.fromkeys((f"{tool}_result" for tool in _TOOLS), _result),
    **dict.fromkeys(("audio", "document", "image", "video"), _media),
    "arguments_delta": _arguments,
    "text": _text,
    "text_annotation": _silent,
    "text_annotation_delta": _silent,
    "thought_signature": _signature,
    "thought_summary": _thought,
}


def _delta(event: Record) -> list[Step]:
    delta = event["delta"]
    return _DELTAS[delta["type"]](delta, _place(event))


def _place(event: Record) -> str:
    return str(event["index"])


def _step_begins(event: Record) -> list[Step]:
    """A call is named here, and what it is answered with; what is said may begin here, too."""
    step = event["step"] if "step" in event else event["content"]
    wire, place = step["type"], _place(event)
    if wire.endswith("_call"):
        use = read_step(step)[0]
        given, more = use["input"], pick(use, "executor")
        return [Fragment("input", "", place, use.get("id"), use["name"], given=given, more=more)]
    if wire.endswith("_result"):
        result = _result(step, place) if step.get("result") else []
        return [Fragment("output", "", place, text_at(step, "call_id")), *result]
    return _said_at_once(step, place)


def _said_at_once(step: Record, place: str) -> list[Step]:
    """What a step holds when it begins: as a rule, nothing."""
    begun = {"text": [step], "model_output": list_or_empty(step.get("content"))}.get(step["type"], [])
    pieces = [piece for item in begun for piece in _DELTAS[item["type"]](item, place)]
    thought = [
        Fragment("thinking", text_at(part, "text") or "", place)
        for part in list_or_empty(step.get("summary"))
    ]
    return [*pieces, *thought, *(_signature(step, place) if step.get("signature") else [])]


def _step_ends(event: Record) -> list[Step]:
    return [Closed(_place(event))]


# Answers.


def _answer(blocks: list[Block]) -> Part:
    return Part(role="assistant", blocks=blocks)


def _is_heard(block: Block) -> bool:
    return block["type"] != "thinking" or bool(block["thinking"] or block.get("signature"))


def _told(interaction: Record) -> list[Step]:
    """The steps of an answer. What the user put in has no place among them, and may have been told before."""
    told: list[Step] = []
    place = 0
    for step in steps_of(interaction):
        blocks = [block for block in read_step(step) if _is_heard(block)]
        if value_at(step, "type") == "user_input":
            told.append(Whole(Part(role="user", blocks=blocks, echo=True)))
        else:
            told.append(Whole(Part(role=side_of(step), blocks=blocks), slot=str(place)))
            place += 1
    return told


def _counted(interaction: Record) -> Counted:
    return Counted(usage_of_interaction(interaction), text_at(interaction, "id") or "")


def _completes(interaction: Record) -> list[Step]:
    return [ResponseEnds(is_final=True), _counted(interaction)]


def _waits(interaction: Record) -> list[Step]:
    return [ResponseEnds(), _counted(interaction)]


def _breaks_off(interaction: Record) -> list[Step]:
    failure = error_of(interaction) or {}
    return [
        ResponseEnds(text_at(interaction, "status"), is_final=True, is_partial=True),
        Says("error", failure),
        _counted(interaction),
    ]


def _fails(interaction: Record) -> list[Step]:
    return [_counted(interaction), Interrupts("error", error_of(interaction))]


def _is_cancelled(interaction: Record) -> list[Step]:
    return [_counted(interaction), Interrupts("user_cancel")]


_ENDS: Mapping[str | None, _Reader] = {
    "budget_exceeded": _breaks_off,
    "cancelled": _is_cancelled,
    "completed": _completes,
    "failed": _fails,
    "incomplete": _breaks_off,
    "requires_action": _waits,
}
"""By status; of one that has another, the end is not told."""


def _interaction(record: Record) -> list[Step]:
    ends = _ENDS.get(text_at(record, "status"))
    asked = [Whole(Part(role=role, blocks=blocks, echo=role == "user")) for role, blocks in asked_of(record)]
    said = _told(record) if ends is not None else []
    return [
        *asked,
        ResponseStarts(text_at(record, "id"), resumes=True),
        *said,
        *(ends(record) if ends is not None else []),
    ]


def _begins(event: Record) -> list[Step]:
    return [ResponseStarts(text_at(event, "interaction", "id"), resumes=True)]


def _ends(event: Record) -> list[Step]:
    """Of an answer that failed, steps are not told anew: it may be over already."""
    interaction = event["interaction"]
    ends = _ENDS.get(text_at(interaction, "status"))
    if ends is _fails:
        return _fails(interaction)
    starts = ResponseStarts(text_at(interaction, "id"), is_explicit=False)
    return [starts, *_told(interaction), *(ends(interaction) if ends is not None else [])]


def _failed(event: Record) -> list[Step]:
    told = event.get("error")
    return [
        Interrupts(
            "error", message_error(text_at(told, "code") or "error", text_at(told, "message"), told or None)
        )
    ]


_EVENTS: Mapping[str, _Reader] = {
    **dict.fromkeys(("interaction.complete", "interaction.completed"), _ends),
    **dict.fromkeys(("interaction.created", "interaction.start"), _begins),
    **dict.fromkeys(("content.start", "step.start"), _step_begins),
    **dict.fromkeys(("content.delta", "step.delta"), _delta),
    **dict.fromkeys(("content.stop", "step.stop"), _step_ends),
    "error": _failed,
    "interaction.status_update": lambda event: [],
}
"""Events of this API, and of its first version."""


def _event(event: Record) -> list[Step]:
    """An event, or a piece of one, that no table knows is shown as it is."""
    wire, delta = event["event_type"], event.get("delta")
    is_known = wire in _EVENTS and (delta is None or value_at(delta, "type") in _DELTAS)
    return _EVENTS[wire](event) if is_known else [Says("raw", {"source": "gemini", "raw": event})]


def interaction_steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """The steps of an interaction, or of an event of its stream; None for any other record."""
    if is_event(record):
        return _event(record)
    return _interaction(record) if is_interaction(record) else None
