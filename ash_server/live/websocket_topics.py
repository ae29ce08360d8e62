"""The WebSocket topics of a session: standard messages of new events, and of each completed turn.

They are derived from the stored messages, like all standard messages, without copies (`shadowOf`). If the stored
messages of a span lack part of its content (an answer that exists only as stream chunks, or posted events), all
standard messages of the span are derived from its events instead: this keeps them in order and without duplicates.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from pydantic import Field

from ash_server.store.log.ranges import Span, SpannedEvent
from ash_server.store.message_pages import texts_with_source
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
    replaced: Omittable[list[str]] = ABSENT
    """Only in `stream_output`: ids of earlier messages to discard. They were revised, and `messages` has their new
    form, or they were copies and the original came later."""
    next_after: Omittable[int] = Field(default=ABSENT, alias="nextAfter")
    """The sequence of a stored message, if the span is too long for one frame. List the session's standard messages
    after it for the rest."""
    next_event_after: Omittable[int] = Field(default=ABSENT, alias="nextEventAfter")
    """Present if the span is too long for one frame and its rest is, at least in part, not in stored messages: the
    sequence of the last event included. List the events of the session after it for the rest."""


EMPTY_TOPIC = '{"messages":[]}'


def to_topic(span: Span) -> str:
    """Return the topic data of a turn as JSON. CPU-bound: call it in a thread."""
    head, before, lines = map(texts_with_source, (span.head, span.before, span.lines))
    page = transform_page(lines, head=head, before=before)
    events = decode_events(span)
    if not covers(page.messages, events):
        return render_topic(messages_of_events(events, {}), next_event_after=span.next_event_after)
    messages, next_after = page.messages, span.next_after
    if next_after is not None and page.starts and (last := page.starts[-1]) > 0:
        # The message that begins last may continue after the span.
        messages = [message for message, start in zip(messages, page.starts, strict=True) if start < last]
        next_after = span.lines[last - 1].sequence
    originals = [message for message in messages if message.metadata.shadow_of is None]
    return render_topic(originals, next_after=next_after, next_event_after=span.next_event_after)


def render_topic(messages: Sequence[StandardMessage], **fields: Any) -> str:
    """Return topic data as JSON, without the fields that are None or empty."""
    present = {name: value for name, value in fields.items() if value}
    return TopicMessages(messages=messages, **present).model_dump_json()


class DecodedEvent(NamedTuple):
    stored: SpannedEvent
    event: Event


def decode_events(span: Span) -> list[DecodedEvent]:
    return [DecodedEvent(each, msgspec.json.decode(each.content)) for each in span.events]


def covers(messages: Sequence[StandardMessage], events: Iterable[DecodedEvent]) -> bool:
    """True if the messages contain the content of all events."""
    message_ids = {message.metadata.message_id for message in messages if message.content} - {None}
    result_ids = {
        block.tool_use_id for message in messages for block in message.content if block.type == "tool_result"
    }
    return all(
        each.stored.is_in_message
        or each.event.get("responseId") in message_ids
        or (each.event["type"] == "tool_result" and each.event["payload"]["toolCallId"] in result_ids)
        for each in events
    )


def messages_of_events(
    events: Iterable[DecodedEvent], ids_by_response: dict[str, str]
) -> list[StandardMessage]:
    """Return the messages of events. `ids_by_response` has the ids of messages by response, and receives new ones."""
    groups: dict[Any, list[Event]] = {}
    for number, (key, group) in enumerate(groupby(events, lambda each: _message_key(each.event))):
        has_response = key[1] is not None
        groups.setdefault(key if has_response else number, []).extend(each.event for each in group)
    return [_to_message(group, ids_by_response) for group in groups.values()]


def _message_key(event: Event) -> tuple[Role | None, Any]:
    """Return the key shared by a message's consecutive events: the response, or the event's own id for user events."""
    is_user_event = CATALOGUE[event["type"]].message_role == "user"
    return _role(event), event["id"] if is_user_event else event.get("responseId")


def _role(event: Event) -> Role | None:
    role = CATALOGUE[event["type"]].message_role
    return "user" if role == "tool" else role


def _to_message(group: Sequence[Event], ids_by_response: dict[str, str]) -> StandardMessage:
    first = group[0]
    id, response = first.get("recordId") or first["id"], first.get("responseId")
    return StandardMessage.model_validate(
        {
            "id": ids_by_response.setdefault(response, id)
            if response and _role(first) == "assistant"
            else id,
            "role": _role(first),
            "timestamp": first["timestamp"],
            "content": [block for event in group for block in _to_blocks(event)],
            "metadata": {"source": "ash", **({} if response is None else {"messageId": response})},
            "_original": group,
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
