"""Count the items that the viewer shows for a session, by the switch of its filter menu that hides them.

An item is what `viewer/render/event-log.js` makes of one or more events: the parts of a cited text, or a call with its
results, are one item. A test compares the two.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.standard_pages import get_event_pages
from ash_server.store.log.events import StoredEvent, check_cursor, get_events
from ash_server.store.maintenance.deletion import REASON
from ash_shared.model.base import AshModel
from ash_shared.model.event_types import CATALOGUE, CHUNKS, PROMPTS

_PAGE, _PAGE_BYTES = 1000, 4 * 1024 * 1024


class ItemCounts(AshModel):
    """The items of a session by the filter that hides them; other items are always shown."""

    thinking: int = 0
    """Thoughts."""
    tools: int = 0
    """Tool calls, and messages to other agents."""
    results: int = 0
    """Results of tool calls."""
    answers: int = 0
    """Texts of the assistant other than the last one before the next prompt."""
    system: int = 0
    """Notices, and messages that a tool wrote in the name of the user."""
    raw: int = 0
    """Records and events that were not recognised."""


async def count_items(connect: Connect, session_id: UUID) -> ItemCounts:
    """Return the number of items that each filter of the viewer hides. Raises SessionNotFound."""
    async with connect() as conn:
        await check_cursor(conn, session_id, 0)
    superseded, counter = await _read_superseded(connect, session_id), _Counter()
    async with aclosing(get_event_pages(connect, session_id, limit=_PAGE, max_bytes=_PAGE_BYTES)) as pages:
        async for page in pages:
            counter = await asyncio.to_thread(_count_page, counter, page, superseded)
    return counter.counts()


async def _read_superseded(connect: Connect, session_id: UUID) -> dict[str, int]:
    """Return the ids of superseded events, with the sequence of the last retraction."""
    superseded, after = dict[str, int](), 0
    while True:
        async with connect() as conn:
            page = await get_events(conn, session_id, after=after, limit=_PAGE, types=["retraction"])
        if not page:
            return superseded
        for stored in page:
            superseded |= dict.fromkeys(_decode(stored.content).superseded_ids(), stored.sequence)
        after = page[-1].sequence


class _Payload(msgspec.Struct):
    """The fields that decide what an event is shown as."""

    toolCallId: Any = None  # noqa: N815
    messageId: Any = None  # noqa: N815
    parentToolCallId: Any = None  # noqa: N815
    sidechain: Any = None
    synthetic: Any = None
    text: Any = None
    visibleText: Any = None  # noqa: N815
    content: msgspec.Raw = msgspec.Raw(b"[]")
    phase: Any = None
    citations: Any = None
    reason: Any = None
    eventIds: Any = None  # noqa: N815


class _Event(msgspec.Struct):
    type: str
    id: Any = None
    turnId: Any = None  # noqa: N815
    responseId: Any = None  # noqa: N815
    payload: _Payload = msgspec.field(default_factory=_Payload)

    def flow(self) -> tuple[Any, ...]:
        """Return the key of its conversation: a turn, or a subagent in it."""
        return (self.turnId, self.payload.parentToolCallId, bool(self.payload.sidechain))

    def is_cited(self) -> bool:
        return bool(self.payload.citations)

    def is_of_deletion(self) -> bool:
        """True for a retraction of a deleted message, which is not shown."""
        return self.type == "retraction" and self.payload.reason == REASON

    def superseded_ids(self) -> Sequence[str]:
        """Return the events that later events supersede; neither they nor their retraction are shown."""
        ids, is_superseding = self.payload.eventIds, self.payload.reason == "superseded"
        if self.type != "retraction" or not is_superseding or not isinstance(ids, list):
            return ()
        return [id for id in ids if isinstance(id, str)]


class _Run(NamedTuple):
    """The texts of the assistant between two messages of the user."""

    texts: int = 0
    declared: int = 0
    """Texts that are declared to be final."""

    def intermediate(self) -> int:
        return self.texts - (self.declared or min(self.texts, 1))


class _Call:
    """The latest call with an id."""

    has_call = False
    has_result = False


_OPEN_TEXTS = ("assistant_chunk", "thinking_chunk")

_decode = msgspec.json.Decoder(_Event).decode


def _count_page(
    counter: "_Counter", page: Sequence[StoredEvent], superseded: Mapping[str, int]
) -> "_Counter":
    for stored in page:
        event = _decode(stored.content)
        is_superseded = stored.sequence < superseded.get(event.id, 0)
        if event.type == "reset":
            counter = _Counter()
        elif not (is_superseded or event.superseded_ids() or event.is_of_deletion()):
            counter.add(event)
    return counter


class _Counter:
    def __init__(self) -> None:
        self._thinking = self._results = self._system = self._raw = self._intermediate = self._calls = 0
        self._runs: dict[tuple[Any, ...], _Run] = {}
        self._open: set[tuple[Any, ...]] = set()
        """Streams of texts without a complete event."""
        self._calls_by_id: dict[Any, _Call] = {}
        self._agent_messages: set[Any] = set()
        self._previous: dict[Any, _Event] = {}
        """The last event by the call of its subagent."""

    def add(self, event: _Event) -> None:
        kind = event.type
        if kind in _OPEN_TEXTS:
            stream = (kind, event.responseId, *event.flow())
            if stream in self._open:
                return
            self._open.add(stream)
        if kind in PROMPTS:
            self._add_prompt(event)
        elif kind in ("assistant_done", "assistant_chunk"):
            self._add_text(event)
        elif kind.startswith("tool_"):
            self._add_to_call(event)
        elif kind in ("agent_message", "agent_callback"):
            self._agent_messages.add(event.payload.messageId)
        self._thinking += kind in ("thinking_done", "thinking_chunk")
        self._system += kind == "system_message"
        self._raw += kind == "raw" or kind not in CATALOGUE
        if kind not in CHUNKS:
            self._previous[event.payload.parentToolCallId] = event

    def counts(self) -> ItemCounts:
        open_runs = sum(run.intermediate() for run in self._runs.values())
        return ItemCounts(
            thinking=self._thinking,
            tools=self._calls + len(self._agent_messages),
            results=self._results,
            answers=self._intermediate + open_runs,
            system=self._system,
            raw=self._raw,
        )

    def _add_prompt(self, event: _Event) -> None:
        run = self._runs.pop(event.flow(), _Run())
        self._intermediate += run.intermediate()
        is_hidden = bool(event.payload.synthetic) or _is_hidden(event.payload)
        self._system += is_hidden and not _is_shell_output(event.payload.text)

    def _add_text(self, event: _Event) -> None:
        if self._continues(event):
            return
        texts, declared = self._runs.get(event.flow(), _Run())
        self._runs[event.flow()] = _Run(texts + 1, declared + (event.payload.phase == "final_answer"))

    def _continues(self, event: _Event) -> bool:
        """True for a part of the cited text before it."""
        before = self._previous.get(event.payload.parentToolCallId)
        if before is None or before.type != "assistant_done" or event.responseId is None:
            return False
        is_cited = before.is_cited() or event.is_cited()
        return is_cited and (before.responseId, before.flow()) == (event.responseId, event.flow())

    def _add_to_call(self, event: _Event) -> None:
        call = self._calls_by_id.get(event.payload.toolCallId)
        starts = event.type in ("tool_call", "tool_input_chunk")
        if call is None or (starts and (call.has_call or call.has_result)):
            call = self._calls_by_id[event.payload.toolCallId] = _Call()
            self._calls += 1
        call.has_call |= event.type == "tool_call"
        call.has_result |= event.type == "tool_result"
        self._results += event.type == "tool_result"


def _is_shell_output(text: Any) -> bool:
    """True for the output of a command that a person ran with `!`, which is shown below its prompt."""
    if not isinstance(text, str) or not text.lstrip().startswith("<bash-stdout>"):
        return False
    return text.rstrip().endswith(("</bash-stdout>", "</bash-stderr>"))


def _is_hidden(payload: _Payload) -> bool:
    """True if a tool wrote all of the text of a user's message, and nothing else is in it."""
    text = payload.text
    shown = text if payload.visibleText is None else payload.visibleText
    if not isinstance(text, str) or not isinstance(shown, str) or shown.strip() or not text:
        return False
    return all(block.get("type") == "text" for block in msgspec.json.decode(payload.content) or ())
