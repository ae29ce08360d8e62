"""What was said in a log of events, as it may be said again: to an API, or to another agent.

Left out are pieces of streams, thinking, marks of turns, what a tool wrote in the user's name, what the system said,
what was said on the way (`commentary`), what subagents said and did (their call's result says what came of it), and
calls that were never written to their end. A summary takes the place of all that came before it.

A call stands in the answer that made it, and its result, whenever it came, right behind that answer. A call that has
no result is left out, and so is a result that has no call before it: nothing is made up to fill the gap.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from typing import Any, TypeAlias

from ash_shared.model.blocks import Block, text_block
from ash_shared.model.events import blocks_of
from ash_shared.projections._retractions import Event, Events, is_main, standing, wire_events

MOST_CALLS = 128
"""In one answer: OpenAI's limit."""
_LONGEST_ID = 40
"""OpenAI's limit; Anthropic names none."""
_LONGEST_NAME = 64
"""OpenAI's limit; Anthropic allows twice as many."""
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(slots=True)
class Said:
    """What the user said, or what stands in the user's name."""

    blocks: list[Block]


@dataclass(slots=True)
class Call:
    """A call of a tool, with an id and a name that both APIs accept."""

    id: str
    name: str
    args: Any
    result: Mapping[str, Any] | None = None
    """The payload of its `tool_result`."""


@dataclass(slots=True)
class Answer:
    """What the assistant said and called before it saw any result."""

    turn: str | None
    response: str | None
    blocks: list[Block] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    is_seen: bool = False
    """Whether a result has come: what the assistant says from here on is another answer."""
    is_left: bool = False
    """Whether something else has begun."""
    is_over: bool = False
    """Whether its turn has ended: calls without a result will never have one."""


Item: TypeAlias = Said | Answer


def conversation(events: Events, *, open_calls: bool = False) -> list[Item]:
    """The conversation of a log, in order, without empty messages.

    `open_calls` keeps the calls without a result of the last answer, if nothing follows it and its turn has not ended:
    the caller is about to give the results.
    """
    fold = _Fold()
    for event in standing(wire_events(events)):
        take = _TAKES.get(event["type"])
        if take is not None and is_main(event):
            take(fold, event)
    return list(_finished(fold.items, open_calls=open_calls))


class _Fold:
    """The way through the events that stand."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._waiting: dict[str, tuple[Call, Answer]] = {}

    def say(self, *blocks: Block) -> None:
        said = [block for block in blocks if not _is_blank(block)]
        if said:
            self.items.append(Said(said))

    def answer(self, event: Event, *, calls: bool) -> Answer:
        """The one that the event is a part of."""
        turn, response = event.get("turnId"), event.get("responseId")
        last = self.items[-1] if self.items else None
        if isinstance(last, Answer) and _goes_on(last, turn, response, calls=calls):
            last.turn, last.response = last.turn or turn, last.response or response
            return last
        begun = Answer(turn, response)
        self.items.append(begun)
        return begun

    def call(self, id: str, call: Call, answer: Answer) -> None:
        answer.calls.append(call)
        self._waiting[id] = (call, answer)

    def resolve(self, payload: Mapping[str, Any]) -> None:
        call, answer = self._waiting.pop(payload["toolCallId"], (None, None))
        if call is not None and answer is not None:
            call.result, answer.is_seen = payload, True

    def leave(self, *, is_over: bool) -> None:
        last = self.items[-1] if self.items else None
        if isinstance(last, Answer):
            last.is_left, last.is_over = True, last.is_over or is_over


def _goes_on(answer: Answer, turn: str | None, response: str | None, *, calls: bool) -> bool:
    if answer.is_left or _differ(answer.turn, turn) or _differ(answer.response, response):
        return False
    if len(answer.calls) >= MOST_CALLS:
        return False
    return not answer.is_seen or (calls and response is not None and response == answer.response)


def _differ(known: str | None, other: str | None) -> bool:
    return known is not None and other is not None and known != other


def _is_blank(block: Block) -> bool:
    return block["type"] == "text" and not block["text"].strip()


def _take_user(fold: _Fold, event: Event) -> None:
    payload = event["payload"]
    if not payload.get("synthetic"):
        fold.say(*_blocks(payload))


def _blocks(payload: Mapping[str, Any]) -> list[Block]:
    return [block for block in blocks_of(payload) if block["type"] in _SPOKEN]


_SPOKEN = frozenset({"file", "image", "text"})


def _take_audio(fold: _Fold, event: Event) -> None:
    fold.say(text_block(event["payload"]["transcription"]))


def _take_callback(fold: _Fold, event: Event) -> None:
    payload = event["payload"]
    agent = payload.get("fromAgentId") or payload.get("fromSessionId") or "agent"
    fold.say(text_block(f"[Callback from {agent}]: {payload['result']}"))


def _take_summary(fold: _Fold, event: Event) -> None:
    """A compaction that does not tell its text leaves the history as it is: without it nothing would be left."""
    text = event["payload"]["text"]
    if text.strip():
        fold.items.clear()
        fold.say(text_block(f"[Summary of the conversation so far]\n\n{text}"))


def _take_answer(fold: _Fold, event: Event) -> None:
    payload = event["payload"]
    if payload.get("phase") != "commentary":
        blocks = [block for block in _blocks(payload) if not _is_blank(block)]
        if blocks:
            fold.answer(event, calls=False).blocks += blocks


def _take_call(fold: _Fold, event: Event) -> None:
    payload = event["payload"]
    if not payload.get("partial"):
        call = Call(payload["toolCallId"], payload["toolName"], payload["args"])
        fold.call(call.id, call, fold.answer(event, calls=True))


def _take_result(fold: _Fold, event: Event) -> None:
    fold.resolve(event["payload"])


def _take_start(fold: _Fold, event: Event) -> None:
    fold.leave(is_over=False)


def _take_end(fold: _Fold, event: Event) -> None:
    fold.leave(is_over=True)


_TAKES: Mapping[str, Callable[[_Fold, Event], None]] = {
    "agent_callback": _take_callback,
    "agent_switch": _take_start,
    "assistant_done": _take_answer,
    "interrupt": _take_end,
    "summary": _take_summary,
    "tool_call": _take_call,
    "tool_result": _take_result,
    "turn_end": _take_end,
    "turn_start": _take_start,
    "user_audio": _take_audio,
    "user_message": _take_user,
}


def _finished(items: list[Item], *, open_calls: bool) -> Iterator[Item]:
    ids = _Ids()
    for item in items:
        if isinstance(item, Answer):
            keeps_open = open_calls and item is items[-1] and not item.is_over
            item.calls = [
                Call(ids.take(call.id), _fit_name(call.name), call.args, call.result)
                for call in item.calls
                if call.result is not None or keeps_open
            ]
        if isinstance(item, Said) or item.blocks or item.calls:
            yield item


class _Ids:
    """Ids of calls, each given once: some formats count them anew in every turn."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._times: dict[str, int] = {}

    def take(self, id: str) -> str:
        for times in count(self._times.get(id, 0) + 1):
            fit = _fit_id(id if times == 1 else f"{id}#{times}")
            if fit not in self._taken:
                break
        self._times[id] = times
        self._taken.add(fit)
        return fit


def _fit_id(id: str) -> str:
    """The id itself if both APIs accept it, else one that is made of it and of nothing else."""
    return id if id and len(id) <= _LONGEST_ID and not _UNFIT.search(id) else _shortened(id, _LONGEST_ID)


def _fit_name(name: str) -> str:
    fit = _UNFIT.sub("_", name)
    return fit if 0 < len(fit) <= _LONGEST_NAME else _shortened(name, _LONGEST_NAME)


def _shortened(name: str, longest: int) -> str:
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{_UNFIT.sub('_', name)[: longest - 1 - len(digest)]}_{digest}"
