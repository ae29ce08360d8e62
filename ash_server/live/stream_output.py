"""The topic `stream_output`: what new lines and events add to the standard messages of a session."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from ash_server.live.websocket_topics import (
    EMPTY_TOPIC,
    covers,
    decode_events,
    messages_of_events,
    render_topic,
)
from ash_server.store.log.ranges import LineContext, LogPosition, Span
from ash_server.store.message_pages import texts_with_source
from ash_shared.conversation.live_messages import LiveMessages, Update

_MAX_STEPS = 64
_MAX_LIVE_CHARACTERS = 2 * 1024 * 1024
"""Lines beyond this size are released when their turn has ended, and in any case at four times this size."""


class SessionReader(Protocol):
    """Reads parts of a session by positions in its log."""

    async def get_range(self, session_id: UUID, start: LogPosition, end: LogPosition) -> Span: ...
    async def get_context(self, session_id: UUID, place: LogPosition) -> LineContext: ...


class _Step(NamedTuple):
    start: int
    """Sequence of the last event before the step."""
    end: int
    data: list[str]


class StreamOutput:
    """The data of the topic from a position on, computed once for all subscribers of the session."""

    def __init__(self, reader: SessionReader, session_id: UUID, place: LogPosition) -> None:
        self._reader = reader
        self._session_id = session_id
        self._place = place
        self._steps = deque[_Step](maxlen=_MAX_STEPS)
        self._live: LiveMessages | None = None
        self._ids_by_response: dict[str, str] = {}
        """Ids of the turn's messages that were derived from events."""
        self._lock = asyncio.Lock()

    def can_continue_after(self, event: int) -> bool:
        """True if the data after this event can still be read."""
        return event == self._place.event or any(event == step.start for step in self._steps)

    async def read(self, after: int, end: LogPosition, *, is_turn_over: bool) -> tuple[list[str], int]:
        """Return the data between two events, and the last event included: the end, or a later one."""
        async with self._lock:
            if self._place.event < end.event:
                await self._advance(end, is_turn_over=is_turn_over)
            data = list[str]()
            for step in self._steps:
                if step.start == after < end.event:
                    data += step.data
                    after = step.end
            return data, after

    async def _advance(self, end: LogPosition, *, is_turn_over: bool) -> None:
        start = self._place
        end = end._replace(line=max(start.line, end.line))
        live = self._live or await self._start_live()
        self._live = None  # an error below leaves it incomplete
        spans = [await self._reader.get_range(self._session_id, start, end)]
        while (line := spans[-1].next_after) is not None:
            rest = LogPosition(end.event, line)
            spans.append(await self._reader.get_range(self._session_id, rest, end))
        data = await asyncio.to_thread(self._render, live, spans, is_turn_over=is_turn_over)
        is_too_long = live.size > _MAX_LIVE_CHARACTERS * (1 if is_turn_over else 4)
        self._live = None if is_too_long else live
        self._steps.append(_Step(start.event, end.event, data))
        self._place = end

    async def _start_live(self) -> LiveMessages:
        context = await self._reader.get_context(self._session_id, self._place)
        return await asyncio.to_thread(
            LiveMessages,
            head=texts_with_source(context.head),
            before=texts_with_source(context.lines),
            is_turn_over=context.is_turn_over,
        )

    def _render(self, live: LiveMessages, spans: Sequence[Span], *, is_turn_over: bool) -> list[str]:
        *others, last = spans
        updates = [live.add(texts_with_source(span.lines)) for span in others]
        updates.append(live.add(texts_with_source(last.lines), is_turn_over=is_turn_over))
        events = decode_events(spans[0])
        if covers([message for update in updates for message in update.messages], events):
            data = [self._render_update(update) for update in updates]
        else:
            messages = messages_of_events(events, self._ids_by_response)
            data = [render_topic(messages, next_event_after=spans[0].next_event_after)]
        if is_turn_over:
            self._ids_by_response = {}
        return [each for each in data if each != EMPTY_TOPIC]

    def _render_update(self, update: Update) -> str:
        """Return an update. Its messages replace messages of the same responses that were derived from events."""
        responses = [message.metadata.message_id for message in update.messages]
        known = [self._ids_by_response.pop(each, None) for each in responses if each is not None]
        return render_topic(update.messages, replaced=[*update.replaced, *filter(None, known)])
