"""The WebSocket topics of a session: standard messages of new events, and of each completed turn.

They are derived from the stored messages, like all standard messages. If the stored messages of a span lack part of its
content (an answer that exists only as stream chunks, or posted events), all standard messages of the span are derived
from its events instead: this keeps them in order and without duplicates.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from pydantic import Field

from ash_server.db.event_ranges import Span, SpannedEvent
from ash_server.db.messages import StoredMessage
from ash_shared.conversation.paging import transform_page
from ash_shared.eventlog import Event
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.blocks import Block, is_valid, raw_block, text_block
from ash_shared.model.event_types import CATALOGUE
from ash_shared.model.events import blocks_of, failure_of, text_of_json
from ash_shared.model.message import Role, StandardMessage


class TopicMessages(AshModel):
    """Standard messages of a span of the session."""

    messages: list[StandardMessage]
    next_after: Omittable[int] = Field(default=ABSENT, alias="nextAfter")
    """Present if the span is too long for one frame: the sequence of the last stored message included. List the
    standard messages of the session after it for the rest."""
    next_event_after: Omittable[int] = Field(default=ABSENT, alias="nextEventAfter")
    """Present if the span is too long for one frame and its rest is, at least in part, not in stored messages: the
    sequence of the last event included. List the events of the session after it for the rest."""


EMPTY_TOPIC = '{"messages":[]}'


def to_topic(span: Span) -> str:
    """Return the topic data as JSON. CPU-bound: call it in a thread."""
    messages = transform_page(_texts_with_source(span.lines), head=_texts_with_source(span.head)).messages
    events = [_DecodedEvent(each, msgspec.json.decode(each.content)) for each in span.events]
    next_after = span.next_after
    if not _covers(messages, events):
        messages, next_after = [_to_message(group) for group in _group_by_message(events)], None
    cursors = {"next_after": next_after, "next_event_after": span.next_event_after}
    present = {name: cursor for name, cursor in cursors.items() if cursor is not None}
    return TopicMessages(messages=messages, **present).model_dump_json()


class _DecodedEvent(NamedTuple):
    stored: SpannedEvent
    event: Event


def _texts_with_source(stored: Iterable[StoredMessage]) -> list[tuple[str, str | None]]:
    return [(each.content, None if each.source == "unknown" else each.source) for each in stored]


def _covers(messages: Sequence[StandardMessage], events: Iterable[_DecodedEvent]) -> bool:
    """True if the messages contain the content of all events."""
    message_ids = {message.metadata.message_id for message in messages} - {None}
    result_ids = {
        block.tool_use_id for message in messages for block in message.content if block.type == "tool_result"
    }
    return all(
        each.stored.is_in_message
        or each.event.get("responseId") in message_ids
        or (each.event["type"] == "tool_result" and each.event["payload"]["toolCallId"] in result_ids)
        for each in events
    )


def _group_by_message(events: Iterable[_DecodedEvent]) -> Iterator[list[_DecodedEvent]]:
    for _, group in groupby(events, lambda each: _message_key(each.event)):
        yield list(group)


def _message_key(event: Event) -> tuple[Role | None, Any]:
    """Return the key that the consecutive events of one message share: by response; each user event has its own."""
    is_user_event = CATALOGUE[event["type"]].message_role == "user"
    return _role(event), event["id"] if is_user_event else event.get("responseId")


def _role(event: Event) -> Role | None:
    role = CATALOGUE[event["type"]].message_role
    return "user" if role == "tool" else role


def _to_message(group: Sequence[_DecodedEvent]) -> StandardMessage:
    first = group[0].event
    message_id = {"messageId": first["responseId"]} if "responseId" in first else {}
    return StandardMessage.model_validate(
        {
            "id": first.get("recordId") or first["id"],
            "role": _role(first),
            "timestamp": first["timestamp"],
            "content": [block for each in group for block in _to_blocks(each.event)],
            "metadata": {"source": "ash", **message_id},
            "_original": [each.event for each in group],
        }
    )


def _to_blocks(event: Event) -> list[Block]:
    read_payload = _BLOCKS.get(event["type"])
    payload = event["payload"]
    blocks = read_payload(payload) if read_payload else _text_blocks(event["type"], payload)
    return blocks if all(map(is_valid, blocks)) else [raw_block("malformed", event, event["type"])]


def _text_blocks(event_type: str, payload: Event) -> list[Block]:
    return [text_block(text_of_json(payload[str(CATALOGUE[event_type].text)]))]


def _speech_blocks(payload: Event) -> list[Block]:
    content, text = payload.get("content") or [], payload["transcription"]
    return [*([text_block(text)] if text or not content else []), *content]


def _thinking_blocks(payload: Event) -> list[Block]:
    signature = {"signature": payload["signature"]} if payload.get("signature") else {}
    return [{"type": "thinking", "thinking": payload["text"], **signature}]


def _tool_use_blocks(payload: Event) -> list[Block]:
    return [
        {
            "type": "tool_use",
            "id": payload["toolCallId"],
            "name": payload["toolName"],
            "input": payload["args"],
        }
    ]


def _tool_result_blocks(payload: Event) -> list[Block]:
    is_error = {"is_error": True} if failure_of(payload) is not None else {}
    return [
        {
            "type": "tool_result",
            "tool_use_id": payload["toolCallId"],
            "content": payload["result"],
            **is_error,
        }
    ]


_BLOCKS = {
    "user_message": blocks_of,
    "user_audio": _speech_blocks,
    "assistant_done": blocks_of,
    "thinking_done": _thinking_blocks,
    "tool_call": _tool_use_blocks,
    "tool_result": _tool_result_blocks,
}
"""By type; a text block for any other type."""
