"""What a record adds to the log of events: the pieces of a stream, and where an answer begins and ends.

Things that are being written are named by their place: the number of the item in the output, and below it that of its
part. Ids are no names for them: one vendor gives an item and an answer another id with each event. An item that is done
counts whatever its pieces were, and is told in the same way as in an answer at rest; what the end of an answer holds is
told where the stream left it out.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from ash_shared.model.blocks import Block, pick
from ash_shared.providers._kit.contract import Part, Record, RecordReading
from ash_shared.providers._kit.json_fields import (
    decode_arguments,
    is_one_of,
    list_or_empty,
    message_error,
    text_at,
    value_at,
)
from ash_shared.providers._kit.responses_items import item_role, item_type, read_item
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
from ash_shared.providers.openai_responses.messages import error_of, parts, usage_of
from ash_shared.providers.openai_responses.recognition import is_response


def _place(event: Record) -> str:
    """Of the item that an event is of."""
    return str(event["output_index"] if "output_index" in event else event["item_id"])


# Pieces.


class _Piece(NamedTuple):
    """What a pair of events, `.delta` and `.done`, tells piece by piece, and at last once more as a whole."""

    kind: Literal["text", "thinking", "input"]
    whole: str
    """The key of the whole text."""
    part: str | None = None
    """The key of the part's number, where an item has several."""
    more: Mapping[str, Any] = {}


_PIECES: Mapping[str, _Piece] = {
    "apply_patch_call_operation_diff": _Piece("input", "diff"),
    "code_interpreter_call_code": _Piece("input", "code"),
    "custom_tool_call_input": _Piece("input", "input"),
    "function_call_arguments": _Piece("input", "arguments"),
    "mcp_call_arguments": _Piece("input", "arguments"),
    "output_text": _Piece("text", "text", "content_index"),
    "reasoning_summary_text": _Piece("thinking", "text", "summary_index"),
    "reasoning_text": _Piece("thinking", "text", "content_index"),
    "refusal": _Piece("text", "refusal", "content_index", {"variant": "refusal"}),
}

_Reader = Callable[[Record], list[Step]]


def _slot(piece: _Piece, event: Record) -> str:
    place = _place(event)
    return place if piece.part is None else f"{place}/{piece.part}/{event[piece.part]}"


def _fragment(piece: _Piece, event: Record, text: str) -> Fragment:
    """Of a call, its id is here that of the item: the right one came before, when the item began."""
    call = text_at(event, "item_id") if piece.kind == "input" else None
    return Fragment(piece.kind, text, _slot(piece, event), call, more=piece.more)


def _delta(piece: _Piece) -> _Reader:
    return lambda event: [_fragment(piece, event, text_at(event, "delta") or "")]


def _done(piece: _Piece) -> _Reader:
    """The text that counts; it is told with its item."""

    def read(event: Record) -> list[Step]:
        closed = Closed(_slot(piece, event), text_at(event, piece.whole), waits=True)
        return [closed] if piece.kind == "input" else [_fragment(piece, event, ""), closed]

    return read


def _command_begins(event: Record) -> list[Step]:
    """Commands of one call are written below each other."""
    return [Fragment("input", "\n", _place(event))] if event.get("command_index") else []


def _command(event: Record) -> list[Step]:
    return [Fragment("input", text_at(event, "delta") or "", _place(event))]


def _output(event: Record) -> list[Step]:
    """What a command writes: its call was named when the item of the output began."""
    return [
        Fragment("output", text, _place(event), more={"stream": stream})
        for stream in ("stdout", "stderr")
        if (text := text_at(event, "delta", stream)) is not None
    ]


def _partial_image(event: Record) -> list[Step]:
    """Each is a whole picture, in base64."""
    number = pick(event, "partial_image_index").get("partial_image_index", 0)
    picture = text_at(event, "partial_image_b64") or ""
    return [Fragment("output", picture, call=event["item_id"], more={"partialImageIndex": number})]


def _audio(event: Record) -> list[Step]:
    return [Says("audio_chunk", {"data": event["delta"], "seq": event["sequence_number"]})]


# Items.


def _heard(blocks: list[Block]) -> list[Block]:
    """All but reasoning that nobody can read; that the person is asked for a permission, and the answer."""
    return [_asked(block) for block in blocks if block["type"] != "thinking" or block["thinking"]]


def _asked(block: Block) -> Block:
    """A permission is a call that waits for the person: the call that is asked for follows, if they agree."""
    wire = block.get("rawType") if block["type"] == "raw" else None
    return _PERMISSIONS[wire](block["raw"]) if is_one_of(wire, _PERMISSIONS) else block


def _permission(item: Record) -> Block:
    given = {**pick(item, "server_label", "name"), "arguments": decode_arguments(item.get("arguments"))}
    return {"type": "tool_use", **pick(item, "id"), "name": item["type"], "input": given}


def _permitted(item: Record) -> Block:
    told = pick(item, "approve", "reason")
    return {"type": "tool_result", "tool_use_id": item["approval_request_id"], "structured": told}


_PERMISSIONS: Mapping[Any, Callable[[Record], Block]] = {
    "mcp_approval_request": _permission,
    "mcp_approval_response": _permitted,
}


def _item(item: Any, place: str) -> list[Step]:
    """An item that is whole. What the user said before is no news in an answer."""
    if item_role(item) in ("user", "system"):
        return []
    cut = {"partial": True} if value_at(item, "status") == "incomplete" else {}
    return [Whole(Part(role="assistant", blocks=_heard(read_item(item))), slot=place, more=cut)]


_UNWRITTEN = {"arguments": "", "code": "", "input": "", "queries": []}
"""What a call need not have when it begins."""


def _item_begins(event: Record) -> list[Step]:
    """A call, or what one writes, whose pieces do not name it."""
    item, place = event["item"], _place(event)
    for block in read_item({**_UNWRITTEN, **item}):
        if block["type"] == "tool_use":
            given, more = block["input"], pick(block, "executor")
            return [Fragment("input", "", place, block.get("id"), block["name"], given=given, more=more)]
        if block["type"] == "tool_result":
            return [Fragment("output", "", place, block.get("tool_use_id"))]
    return []


def _item_ends(event: Record) -> list[Step]:
    return _item(event["item"], _place(event))


# Answers.


_CLIENT_CALLS = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "mcp_approval_request",
        "shell_call",
        "tool_search_call",
    }
)
"""Calls that wait for the client, unless the answer holds their output."""


def _waits(items: list[Any]) -> bool:
    """Whether the turn goes on with what the client answers."""
    answered = {value_at(item, "call_id") for item in items if item_role(item) == "tool"} - {None}
    return any(
        is_one_of(item_type(item), _CLIENT_CALLS)
        and value_at(item, "execution") != "server"
        and value_at(item, "call_id") not in answered
        for item in items
    )


def _counted(response: Record) -> Counted:
    return Counted(usage_of(response), text_at(response, "id") or "")


def _completes(response: Record) -> list[Step]:
    """An answer that does not repeat its items does not say which calls wait, either."""
    items = list_or_empty(response.get("output"))
    return [ResponseEnds(is_final=not _waits(items), unless_called=not items), _counted(response)]


def _breaks_off(response: Record) -> list[Step]:
    reason = text_at(response, "incomplete_details", "reason") or "incomplete"
    return [
        ResponseEnds(reason, is_final=True, is_partial=True),
        Says("error", message_error(reason, None, response.get("incomplete_details"))),
        _counted(response),
    ]


def _fails(response: Record) -> list[Step]:
    failure = error_of(response.get("error")) or message_error("failed", None)
    return [_counted(response), Interrupts("error", failure)]


def _is_cancelled(response: Record) -> list[Step]:
    return [_counted(response), Interrupts("user_cancel")]


_ENDS: Mapping[str, _Reader] = {
    "cancelled": _is_cancelled,
    "completed": _completes,
    "failed": _fails,
    "incomplete": _breaks_off,
}
"""By the status of an answer. What waits in the background, or is in progress, has none of these."""


def _starts(response: Record, *, is_explicit: bool) -> ResponseStarts:
    return ResponseStarts(text_at(response, "id"), is_explicit=is_explicit, resumes=True)


def _response(response: Record) -> list[Step]:
    """An answer at rest; of one that is in progress, the items that are done."""
    status = text_at(response, "status") or "completed"
    is_over = status in _ENDS
    items = [
        step
        for place, item in enumerate(list_or_empty(response.get("output")))
        if is_over or value_at(item, "status") == "completed"
        for step in _item(item, str(place))
    ]
    ends = _ENDS[status](response) if is_over else []
    return [_starts(response, is_explicit=True), *items, *ends]


def _compacted(record: Record) -> list[Step]:
    """A history that was made shorter: what stands for it now is sealed. It is a request beside the turns."""
    return [Says("summary", {"text": ""}), _counted(record)]


def _begins(event: Record) -> list[Step]:
    return [_starts(event["response"], is_explicit=True)]


def _goes_on(event: Record) -> list[Step]:
    return [_starts(event["response"], is_explicit=False)]


def _ends(status: str) -> _Reader:
    """The last event of an answer. Of one that failed, items are not told anew: it may be over already."""

    def read(event: Record) -> list[Step]:
        response = event["response"]
        if status == "failed":
            return _fails(response)
        items = enumerate(list_or_empty(response.get("output")))
        told = [step for place, item in items for step in _item(item, str(place))]
        return [_starts(response, is_explicit=False), *told, *_ENDS[status](response)]

    return read


def _error(record: Record) -> list[Step]:
    nested = record.get("error")
    return [Interrupts("error", error_of(nested if nested.__class__ is dict else record))]


_EVENTS: Mapping[str, _Reader] = {
    **{f"response.{name}.delta": _delta(piece) for name, piece in _PIECES.items()},
    **{f"response.{name}.done": _done(piece) for name, piece in _PIECES.items()},
    "error": _error,
    "response.audio.delta": _audio,
    "response.completed": _ends("completed"),
    "response.created": _begins,
    "response.failed": _ends("failed"),
    "response.image_generation_call.partial_image": _partial_image,
    "response.in_progress": _goes_on,
    "response.incomplete": _ends("incomplete"),
    "response.output_item.added": _item_begins,
    "response.output_item.done": _item_ends,
    "response.queued": _goes_on,
    "response.shell_call_command.added": _command_begins,
    "response.shell_call_command.delta": _command,
    "response.shell_call_output_content.delta": _output,
}
"""The events that say something; the others that are known tell of what these tell."""


def _event(wire: str, record: Record, reading: RecordReading) -> list[Step]:
    if wire in _EVENTS:
        return _EVENTS[wire](record)
    return [Whole(Part(role="system", blocks=reading.blocks))]


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """The steps of any record; of items and requests, those of their parts."""
    wire = record.get("type")
    if wire.__class__ is str and (wire == "error" or wire.startswith("response.")):
        return _event(wire, record, reading)
    if wire.__class__ is not str and is_response(record):
        return _response(record) if record["object"] == "response" else _compacted(record)
    if is_one_of(wire, _PERMISSIONS):
        return [Whole(Part(role="assistant", blocks=_heard(read_item(record))))]
    if reading.kind == "message":
        told = parts(record, reading)
        return [Whole(replace(part, blocks=_heard(part.blocks))) for part in told]
    return _error(record) if record.get("error") is not None and wire.__class__ is not str else None
