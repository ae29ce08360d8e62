"""What the two topics of a session tell: standard messages of what is new, and of each turn that has ended.

They are made of the stored lines, as all standard messages are. Where those do not hold all that was said (the answer
came in pieces alone, or a writer posted events), they are made of the events, which do: so all of a span is in one
order and nothing is in it twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from pydantic import MISSING, BaseModel, ConfigDict, Field

from ash_server.db.event_ranges import Span, SpannedEvent
from ash_server.db.messages import StoredMessage
from ash_shared.conversation.standard_messages import transform_page
from ash_shared.model.blocks import Block, is_valid, raw_block, text_block
from ash_shared.model.events import blocks_of
from ash_shared.model.message import StandardMessage

Event = Mapping[str, Any]


class TopicMessages(BaseModel):
    """Standard messages of a stretch of the session."""

    model_config = ConfigDict(use_attribute_docstrings=True, serialize_by_alias=True, populate_by_name=True)

    messages: list[StandardMessage]
    next_after: int | MISSING = Field(default=MISSING, alias="nextAfter")
    """Where the stretch is too long for one frame: the sequence of the last stored message that is told of. The rest
    is behind it in the standard messages of the session."""
    next_event_after: int | MISSING = Field(default=MISSING, alias="nextEventAfter")
    """The same where no stored message holds the rest, or some of it: the sequence of the last event that is told of.
    The rest is behind it in the events of the session."""


NOTHING = '{"messages":[]}'


def to_topic(span: Span) -> str:
    """As JSON. It takes time: not for the event loop."""
    messages = transform_page(_texts(span.lines), head=_texts(span.head)).messages
    events = [_Said(each, msgspec.json.decode(each.content)) for each in span.events]
    next_after = span.next_after
    if not _holds_all(messages, events):
        messages, next_after = list(map(_message, _answers(events))), None
    cursors = {"next_after": next_after, "next_event_after": span.next_event_after}
    known = {name: cursor for name, cursor in cursors.items() if cursor is not None}
    return TopicMessages(messages=messages, **known).model_dump_json()


class _Said(NamedTuple):
    stored: SpannedEvent
    event: Event


def _texts(stored: Iterable[StoredMessage]) -> list[tuple[str, str | None]]:
    return [(each.content, None if each.source == "unknown" else each.source) for each in stored]


def _holds_all(messages: Sequence[StandardMessage], events: Iterable[_Said]) -> bool:
    answers = {message.metadata.message_id for message in messages} - {MISSING}
    results = {
        block.tool_use_id for message in messages for block in message.content if block.type == "tool_result"
    }
    return all(
        each.stored.is_of_line
        or each.event.get("responseId") in answers
        or (each.event["type"] == "tool_result" and each.event["payload"]["toolCallId"] in results)
        for each in events
    )


def _answers(events: Iterable[_Said]) -> Iterator[list[_Said]]:
    """The events of each message."""
    for _, together in groupby(
        events, lambda each: (_ROLES.get(each.event["type"], "assistant"), _response_of(each.event))
    ):
        yield list(together)


def _response_of(event: Event) -> Any:
    """What the user says is each time a message of its own."""
    return event["id"] if event["type"].startswith("user_") else event.get("responseId")


def _message(together: Sequence[_Said]) -> StandardMessage:
    first = together[0].event
    named = {"messageId": first["responseId"]} if "responseId" in first else {}
    return StandardMessage.model_validate(
        {
            "id": first.get("recordId") or first["id"],
            "role": _ROLES.get(first["type"], "assistant"),
            "timestamp": first["timestamp"],
            "content": [block for each in together for block in _blocks(each.event)],
            "metadata": {"source": "ash", **named},
            "_original": [each.event for each in together],
        }
    )


def _blocks(event: Event) -> list[Block]:
    blocks = _BLOCKS[event["type"]](event["payload"])
    return blocks if all(map(is_valid, blocks)) else [raw_block("malformed", event, event["type"])]


def _audio(payload: Event) -> list[Block]:
    return [text_block(payload["transcription"])]


def _thinking(payload: Event) -> list[Block]:
    signed = {"signature": payload["signature"]} if payload.get("signature") else {}
    return [{"type": "thinking", "thinking": payload["text"], **signed}]


def _call(payload: Event) -> list[Block]:
    return [
        {
            "type": "tool_use",
            "id": payload["toolCallId"],
            "name": payload["toolName"],
            "input": payload["args"],
        }
    ]


def _result(payload: Event) -> list[Block]:
    failed = {"is_error": True} if "error" in payload else {}
    return [
        {
            "type": "tool_result",
            "tool_use_id": payload["toolCallId"],
            "content": payload["result"],
            **failed,
        }
    ]


_BLOCKS = {
    "user_message": blocks_of,
    "user_audio": _audio,
    "assistant_done": blocks_of,
    "thinking_done": _thinking,
    "tool_call": _call,
    "tool_result": _result,
}
_ROLES = {"user_message": "user", "user_audio": "user", "tool_result": "user"}
