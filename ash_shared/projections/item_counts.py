"""Count the items that the viewer shows for a log, by the switch of its filter menu that hides them.

An item is what `viewer/render/event-log.js` makes of one or more events: the parts of a cited text, or a call with its
results, are one item. A test compares the two.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from ash_shared.model.base import AshModel
from ash_shared.model.event_types import CATALOGUE, CHUNKS, PROMPTS
from ash_shared.records.digests import evict_oldest, short_digest

T = TypeVar("T")

MAX_CALLS, MAX_ENDED_CALLS = 500, 20
"""Calls without a result, and with one, that later results are assigned to. A result of an earlier call counts as a
call of its own, as in a page of the viewer that begins after the call."""

_MAX_OPEN = 50
"""Conversations, streams, messages to agents and citing subagents that later events may continue."""

DELETED = "deleted"
"""The `reason` of the retractions of deleted messages."""


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
    """Records and events that were not recognized."""


class _Run(NamedTuple):
    """The texts of the assistant between two messages of the user."""

    texts: int = 0
    declared: int = 0
    """Texts that are declared to be final."""

    def intermediate(self) -> int:
        return self.texts - (self.declared or min(self.texts, 1))


class _Call(NamedTuple):
    """The latest call with an id."""

    has_call: bool
    has_result: bool


class _Cited(NamedTuple):
    """The last event of a conversation, if it is a text that a cited text may continue."""

    response: str
    flow: str
    is_cited: bool


class ItemState(msgspec.Struct, array_like=True):
    """Everything that later events may change. Ids are digests."""

    thinking: int = 0
    tools: int = 0
    results: int = 0
    system: int = 0
    raw: int = 0
    intermediate: int = 0
    runs: dict[str, _Run] = {}  # msgspec copies it
    calls: dict[str, _Call] = {}
    ended_calls: dict[str, _Call] = {}
    messages: dict[str, None] = {}
    """Messages to other agents."""
    thoughts: dict[str, None] = {}
    """Streamed thoughts without a complete event."""
    texts: dict[str, str] = {}
    """Streamed texts without a complete event, with their conversation."""
    cited: dict[str, _Cited] = {}
    """By the call of the subagent."""


class ItemFold:
    """Counts the items of a log, event by event. Its state has a limited size."""

    def __init__(self, state: ItemState | None = None) -> None:
        """`state` continues another fold, and changes with this one."""
        self._state = state or ItemState()

    @property
    def state(self) -> ItemState:
        return self._state

    def counts(self) -> ItemCounts:
        state = self._state
        runs = dict(state.runs)
        for flow in state.texts.values():
            runs[flow] = _with_text(runs.get(flow))
        return ItemCounts(
            thinking=state.thinking + len(state.thoughts),
            tools=state.tools,
            results=state.results,
            answers=state.intermediate + sum(run.intermediate() for run in runs.values()),
            system=state.system,
            raw=state.raw,
        )

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event in its wire form that no later event supersedes."""
        kind = event["type"]
        payload = event.get("payload") or {}
        handle = _HANDLERS.get(kind)
        if handle is not None:
            handle(self, event, payload)
        elif kind == "retraction" and (payload.get("reason") == DELETED or superseded_ids(event)):
            return
        elif kind == "raw" or kind not in CATALOGUE:
            self._state.raw += 1
        cited = self._state.cited
        if cited and kind not in CHUNKS and kind != "assistant_done":
            cited.pop(short_digest(payload.get("parentToolCallId")), None)

    def _reset(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        self._state = ItemState()

    def _add_prompt(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        state = self._state
        if state.runs or state.texts:
            self._end_run(_flow(event, payload))
        is_hidden = bool(payload.get("synthetic")) or _is_hidden(payload)
        state.system += is_hidden and not _is_shell_output(payload.get("text"))

    def _end_run(self, flow: str) -> None:
        state = self._state
        run = state.runs.pop(flow, _Run())
        for stream in [stream for stream, other in state.texts.items() if other == flow]:
            del state.texts[stream]
            run = _with_text(run)
        state.intermediate += run.intermediate()

    def _add_thought(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        self._state.thinking += 1
        if self._state.thoughts:
            self._state.thoughts.pop(_stream(event, payload), None)

    def _add_chunk_of_thought(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        thoughts = self._state.thoughts
        thoughts.setdefault(_stream(event, payload))
        if len(thoughts) > _MAX_OPEN:
            thoughts.pop(next(iter(thoughts)))
            self._state.thinking += 1

    def _add_text(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        state, flow = self._state, _flow(event, payload)
        if state.texts:
            state.texts.pop(_stream(event, payload), None)
        parent, before = short_digest(payload.get("parentToolCallId")), None
        if state.cited:
            before = state.cited.pop(parent, None)
        is_cited, response = bool(payload.get("citations")), event.get("responseId")
        name = "" if response is None else short_digest(response)
        if response is not None:
            _keep(state.cited, parent, _Cited(name, flow, is_cited))
        is_part = before is not None and (before.is_cited or is_cited)
        if before is not None and is_part and (before.response, before.flow) == (name, flow):
            return
        run = state.runs.pop(flow, _Run())
        is_declared = payload.get("phase") == "final_answer"
        state.runs[flow] = _Run(run.texts + 1, run.declared + is_declared)
        if len(state.runs) > _MAX_OPEN:
            self._end_run(next(iter(state.runs)))

    def _add_chunk_of_text(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        state, flow = self._state, _flow(event, payload)
        before = state.cited.get(short_digest(payload.get("parentToolCallId"))) if state.cited else None
        if before == _Cited(short_digest(event.get("responseId")), flow, is_cited=True):
            return
        state.texts.setdefault(_stream(event, payload), flow)
        if len(state.texts) > _MAX_OPEN:
            flow = state.texts.pop(next(iter(state.texts)))
            state.runs[flow] = _with_text(state.runs.pop(flow, None))

    def _add_to_call(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        state, kind, id = self._state, event["type"], short_digest(payload.get("toolCallId"))
        call = state.calls.pop(id, None) or state.ended_calls.pop(id, None)
        starts = kind in ("tool_call", "tool_input_chunk")
        if call is None or (starts and (call.has_call or call.has_result)):
            call = _Call(has_call=False, has_result=False)
            state.tools += 1
        is_call, is_result = kind == "tool_call", kind == "tool_result"
        state.results += is_result
        call = _Call(call.has_call or is_call, call.has_result or is_result)
        if call.has_result:
            _keep(state.ended_calls, id, call, MAX_ENDED_CALLS)
        else:
            _keep(state.calls, id, call, MAX_CALLS)

    def _add_agent_message(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        messages, id = self._state.messages, short_digest(payload.get("messageId"))
        self._state.tools += id not in messages
        messages.pop(id, None)
        _keep(messages, id, None, MAX_CALLS)

    def _add_notice(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        self._state.system += 1


_HANDLERS = {
    "reset": ItemFold._reset,
    "thinking_done": ItemFold._add_thought,
    "thinking_chunk": ItemFold._add_chunk_of_thought,
    "assistant_done": ItemFold._add_text,
    "assistant_chunk": ItemFold._add_chunk_of_text,
    "agent_message": ItemFold._add_agent_message,
    "agent_callback": ItemFold._add_agent_message,
    "system_message": ItemFold._add_notice,
    **dict.fromkeys(PROMPTS, ItemFold._add_prompt),
    **dict.fromkeys((name for name in CATALOGUE if name.startswith("tool_")), ItemFold._add_to_call),
}


def superseded_ids(event: Mapping[str, Any]) -> list[str]:
    """Return the events that later events supersede; neither they nor their retraction are shown."""
    payload = event.get("payload") or {}
    if event["type"] != "retraction" or payload.get("reason") != "superseded":
        return []
    ids = payload.get("eventIds")
    return [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []


def _keep(kept: dict[str, T], name: str, value: T, most: int = _MAX_OPEN) -> None:
    """Add a value, and remove the oldest one if there are too many."""
    kept[name] = value
    evict_oldest(kept, most)


def _with_text(run: _Run | None) -> _Run:
    return _Run(1) if run is None else run._replace(texts=run.texts + 1)


def _flow(event: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    """Return the key of the conversation of an event: a turn, or a subagent in it."""
    return _digest_of_ids(
        event.get("turnId"), payload.get("parentToolCallId"), bool(payload.get("sidechain"))
    )


def _stream(event: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    """Return the key of the streamed text that a chunk or a complete event belongs to."""
    return _digest_of_ids(event.get("turnId"), event.get("responseId"), payload.get("parentToolCallId"))


def _digest_of_ids(*ids: Any) -> str:
    """Return the digest of ids; consecutive events have the same."""
    return _cached_digest(ids) if _ID_TYPES.issuperset(map(type, ids)) else short_digest(ids)


_ID_TYPES = {str, bool, type(None)}

_cached_digest = lru_cache(maxsize=64)(short_digest)


def _is_shell_output(text: Any) -> bool:
    """True for the output of a command that a person ran with `!`, which is shown below its prompt."""
    if not isinstance(text, str) or not text.lstrip().startswith("<bash-stdout>"):
        return False
    return text.rstrip().endswith(("</bash-stdout>", "</bash-stderr>"))


def _is_hidden(payload: Mapping[str, Any]) -> bool:
    """True if a tool wrote all of the text of a user's message, and nothing else is in it."""
    text, visible = payload.get("text"), payload.get("visibleText")
    shown = text if visible is None else visible
    if not isinstance(text, str) or not isinstance(shown, str) or shown.strip() or not text:
        return False
    return all(block.get("type") == "text" for block in payload.get("content") or ())
