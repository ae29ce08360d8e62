"""Convert a conversation to ATIF, the Agent Trajectory Interchange Format of evaluation tools.

A standard message becomes a step; the results of its calls become its observation, whenever they came. Duplicates and
retracted messages are left out. Each subagent becomes a trajectory in `subagent_trajectories`. Values without a
field in ATIF are in `extra.ash` (`records.atif_notes`), so that Ash reads the same blocks from the document.

Documents are valid for Harbor's models (`harbor.models.trajectories`): version 1.7, or 1.8 if they contain audio.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, pick, without
from ash_shared.model.message import StandardMessage
from ash_shared.projections._atif_steps import (
    AGENT,
    Media,
    add_result,
    divide,
    empty_step,
    has_audio,
    metrics_of,
    step_of,
    step_of_result,
)
from ash_shared.projections.otel_genai import tool_definitions
from ash_shared.records.json_fields import text_at, value_at

VERSION, VERSION_WITH_AUDIO = "ATIF-v1.7", "ATIF-v1.8"

MAX_CALLS = 500_000
"""Calls of a session that may have later results."""
MAX_STARTING_CALLS = 10_000
"""Calls that started one subagent; a result of a later one has no reference to it."""
MAX_LATE_RESULTS = 500_000
"""Steps of a session with results that are far from them."""
_NEAR = 100
"""Messages after which a step is complete, unless it is known to have a later result."""

_AGENT_NAMES = {"claude": "claude-code", "cursor": "cursor-cli", "gemini_cli": "gemini-cli"}
"""Harbor's names of agents, by source, where they differ."""
_UNKNOWN = "unknown"
"""The version of an agent that its messages do not state; ATIF requires one."""


class AtifExport(NamedTuple):
    """A trajectory, and the files that it refers to."""

    document: dict[str, Any]
    files: Mapping[str, bytes]
    """By path relative to the document; empty without `media_folder`."""


class SubagentMessages(NamedTuple):
    """The session of a subagent."""

    id: str
    messages: Sequence[StandardMessage]
    copied: Collection[str] = ()
    """The ids of messages that are copied from another session, which counts their usage."""


def to_atif(
    messages: Iterable[StandardMessage],
    *,
    session_id: str | None = None,
    records: Iterable[Any] = (),
    subagents: Iterable[SubagentMessages] = (),
    copied: Collection[str] = (),
    media_folder: str | None = None,
) -> AtifExport:
    """Return the conversation as a trajectory.

    Images and recordings are `data:` URLs, or with a `media_folder` files in this folder next to the document. Tool
    definitions come from the last of the decoded `records` that has any. Messages of subagents in a transcript of the
    main agent are left out if `subagents` contains their session. The messages with the ids in `copied` are marked as
    copies from another session, and have no usage.
    """
    own, known = list(messages), {each.id: each for each in subagents}
    session = _survey(own, copied)
    stored = {id: _survey(each.messages, each.copied, is_subagent=True) for id, each in known.items()}
    document = AtifDocument(session, stored, session_id=session_id, records=records)
    media = Media(media_folder)

    by_agent: dict[str | None, list[StandardMessage]] = {}
    for message in own:
        by_agent.setdefault(session.agent_of(message), []).append(message)

    def trajectory(agent: str | None, messages: Iterable[StandardMessage], copied: Collection[str]) -> Block:
        fold = TrajectoryFold(media)
        for message in messages:
            fold.add(message, is_copy=message.id in copied)
        steps = document.linked(fold.end())
        metrics = fold.totals.metrics(len(steps))
        return {
            **document.start(agent),
            "steps": steps,
            **({} if metrics is None else {"final_metrics": metrics}),
        }

    main = trajectory(None, by_agent.get(None, []), copied)
    embedded = [
        trajectory(agent, known[agent].messages, known[agent].copied)
        if agent in known
        else trajectory(agent, by_agent[agent], ())
        for agent in document.agents
    ]
    metrics = document.total_metrics(main.get("final_metrics"), len(main["steps"]))
    return AtifExport(
        {
            **main,
            **({"subagent_trajectories": embedded} if embedded else {}),
            **({} if metrics is None else {"final_metrics": metrics}),
        },
        media.files,
    )


def _survey(
    messages: Sequence[StandardMessage], copied: Collection[str], *, is_subagent: bool = False
) -> "SessionSurvey":
    survey: SessionSurvey | None = SessionSurvey(is_subagent=is_subagent)
    while survey is not None:
        last = survey
        for message in messages:
            survey.add(message, is_copy=message.id in copied)
        survey = survey.repeated()
    return last


class TrajectoryTotals:
    """The sums of the metrics of steps."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._costs = array("d")
        """Summed together, because `sum` rounds less than single additions in newer versions of Python."""

    def add(self, metrics: Block) -> None:
        for total, name in _COUNTS.items():
            if name in metrics:
                self._counts[total] = self._counts.get(total, 0) + metrics[name]
        if "cost_usd" in metrics:
            self._costs.append(metrics["cost_usd"])

    @property
    def cost(self) -> float | None:
        return sum(self._costs) if self._costs else None

    def metrics(self, steps: int) -> Block | None:
        known = {total: self._counts[total] for total in _COUNTS if total in self._counts}
        cost = {} if self.cost is None else {"total_cost_usd": self.cost}
        return {**known, **cost, "total_steps": steps} if known or cost else None


_COUNTS = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
}


class TrajectorySurvey:
    """Collects the facts of a trajectory that a document contains before the steps."""

    def __init__(self) -> None:
        self.size = 0
        self.has_audio = False
        self.totals = TrajectoryTotals()
        self.calls: set[bytes] = set()
        """Digests of the calls that started the agent."""
        self._source: str | None = None
        self._version: str | None = None
        self._model: str | None = None
        self._answers = self._answers_with_model = 0

    def add(self, message: StandardMessage, blocks: Iterable[Block], size: int, *, is_counted: bool) -> None:
        """`is_counted`: the message has a step with its usage."""
        metadata = message.metadata
        self.size += size
        if metadata.parent_tool_use_id is not None and len(self.calls) < MAX_STARTING_CALLS:
            self.calls.add(_digest(metadata.parent_tool_use_id))
        self._source = metadata.source if self._source is None else self._source
        self._version = self._version or metadata.cli_version
        self.has_audio = self.has_audio or has_audio(blocks, Media())
        if message.role == "assistant":
            self._model = metadata.model if self._answers == 0 else self._model
            self._answers += 1
            self._answers_with_model += bool(metadata.model)
            if is_counted and (metrics := metrics_of(message)) is not None:
                self.totals.add(metrics)

    def agent(self, requests: Sequence[Any]) -> Block:
        """Return the agent; of a trajectory that was imported, the agent it states."""
        agents = (value_at(record, "agent") for record in requests)
        stated: Block = next((agent for agent in agents if _is_agent(agent)), {})
        source = _UNKNOWN if self._source is None else self._source
        # A step without a model inherits this one.
        model = self._model if self._answers == self._answers_with_model else None
        tools = [
            {"type": "function", "function": without(tool, "type")} for tool in tool_definitions(requests)
        ]
        return {
            "name": _AGENT_NAMES.get(source, source),
            "version": self._version or _UNKNOWN,
            **({} if model is None else {"model_name": model}),
            **({"tool_definitions": tools} if tools else {}),
            **pick(stated, "name", "version", "model_name", "tool_definitions"),
        }


def _is_agent(value: Any) -> bool:
    return text_at(value, "name") is not None and text_at(value, "version") is not None


class SessionSurvey:
    """The first reading of a session: its trajectories, and where results are far from their calls.

    `is_subagent`: all messages are in one trajectory. `agents_by_call`: see `repeated`.
    """

    def __init__(self, *, is_subagent: bool = False, agents_by_call: Mapping[str, str] | None = None) -> None:
        self.last_results = OrderedDict[int, int]()
        """The number of the message with the last result of a step, by the number of the message of the step."""
        self._is_subagent = is_subagent
        self._agents_by_call = agents_by_call or {}
        self._known_agents: dict[str, str] = {}
        """Subagents by the call that started them."""
        self._has_main = False
        self._whole = TrajectorySurvey()
        """All messages, unless there are some of the main agent."""
        self._parts: dict[str | None, TrajectorySurvey] = {}
        self._calls = OrderedDict[bytes, int]()
        """The numbers of the messages with calls, by digests of their ids."""
        self._messages = 0

    def add(self, message: StandardMessage, size: int = 0, *, is_copy: bool = False) -> None:
        self._messages += 1
        if not is_standing(message):
            return
        agent = _agent_of(message)
        self._has_main = self._has_main or agent is None
        self._add_agent(message)
        step, results = divide(message)
        for name, survey in self._surveys_of(agent):
            is_copied = _is_copied(message, is_copy=is_copy and name is None)
            is_counted = step is not None and not is_copied
            survey.add(message, [*(step or ()), *results], size, is_counted=is_counted)
            self._add_calls(name, message, step or ())
            self._add_results(name, results)

    @property
    def trajectories(self) -> Mapping[str | None, TrajectorySurvey]:
        """Return the trajectories by agent; None for the main agent, or for the subagent in its own session."""
        return {None: self._whole} if self._is_whole else {None: TrajectorySurvey(), **self._parts}

    @property
    def subagents(self) -> int:
        return max(len(self._parts), len(self._known_agents))

    def agent_of(self, message: StandardMessage) -> str | None:
        """Return the key of the trajectory of a message."""
        return None if self._is_whole else self._name_of(_agent_of(message))

    def repeated(self) -> "SessionSurvey | None":
        """Return the survey for another reading; None unless a subagent has messages with only its call, and others
        with its id."""
        is_complete = (
            self._is_whole or self._agents_by_call or self._parts.keys().isdisjoint(self._known_agents)
        )
        return None if is_complete else SessionSurvey(agents_by_call=self._known_agents)

    @property
    def _is_whole(self) -> bool:
        return self._is_subagent or not self._has_main

    def _name_of(self, agent: str | None) -> str | None:
        return None if agent is None else self._agents_by_call.get(agent, agent)

    def _surveys_of(self, agent: str | None) -> Iterator[tuple[str | None, TrajectorySurvey]]:
        if self._is_whole:
            yield None, self._whole
        if not self._is_subagent:
            name = self._name_of(agent)
            yield name, self._parts.setdefault(name, TrajectorySurvey())

    def _add_agent(self, message: StandardMessage) -> None:
        """Add the call and the id of a subagent; some of its messages have only one of them."""
        call, agent = message.metadata.parent_tool_use_id, message.metadata.agent_id
        if call is not None and agent is not None and call != agent:
            self._known_agents[call] = agent

    def _add_calls(self, name: str | None, message: StandardMessage, blocks: Iterable[Block]) -> None:
        for block in blocks:
            if message.role == "assistant" and block["type"] == "tool_use":
                self._calls[_digest(name, block.get("id"))] = self._messages
        while len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)

    def _add_results(self, name: str | None, results: Iterable[Block]) -> None:
        for result in results:
            step = self._calls.get(_digest(name, result.get("tool_use_id")), self._messages)
            if self._messages - step > _NEAR:
                self.last_results[step] = self._messages
        while len(self.last_results) > MAX_LATE_RESULTS:
            self.last_results.popitem(last=False)


def is_standing(message: StandardMessage) -> bool:
    """False for duplicates and retracted messages."""
    return message.metadata.shadow_of is None and not message.metadata.retracted


def _agent_of(message: StandardMessage) -> str | None:
    """Return the subagent that wrote a message, or else the call that started it; None for the calls of a script, which
    the agent itself ran."""
    metadata = message.metadata
    return metadata.agent_id or (None if metadata.ran_by_tool_use_id else metadata.parent_tool_use_id)


def _is_copied(message: StandardMessage, *, is_copy: bool) -> bool:
    return is_copy or message.metadata.inherited is True


def _digest(*names: str | None) -> bytes:
    text = "\n".join(map(repr, names))
    return blake2b(text.encode(), digest_size=8).digest()


class AtifDocument:
    """The parts of a document that are known after its sessions have been read once.

    `stored`: the sessions of subagents, by the ids of their trajectories.
    """

    def __init__(
        self,
        main: SessionSurvey,
        stored: Mapping[str, SessionSurvey],
        *,
        session_id: str | None = None,
        records: Iterable[Any] = (),
    ) -> None:
        self._main, *_ = main.trajectories.values()
        inline = {agent: each for agent, each in main.trajectories.items() if agent is not None}
        self.agents = inline | {agent: each.trajectories[None] for agent, each in stored.items()}
        """The subagents, in the order of their trajectories."""
        self._session_id, self._requests = session_id, list(records)
        self._agents_by_call = {call: agent for agent, each in self.agents.items() for call in each.calls}
        has_any_audio = any(each.has_audio for each in (self._main, *self.agents.values()))
        self._version = VERSION_WITH_AUDIO if has_any_audio else VERSION

    def start(self, agent: str | None = None) -> Block:
        """Return the fields of a trajectory before its steps."""
        if agent is None:
            id = self._session_id
            ids = {} if id is None else {"session_id": id, "trajectory_id": id}
            return {"schema_version": self._version, **ids, "agent": self._main.agent(self._requests)}
        return {
            "schema_version": self._version,
            "trajectory_id": agent,
            "agent": self.agents[agent].agent([]),
        }

    def linked(self, steps: list[Block]) -> list[Block]:
        """Add to the results of calls that started subagents the references to their trajectories."""
        for step in steps:
            for result in value_at(step, "observation", "results") or ():
                started, call = result.pop(AGENT, None), result.get("source_call_id")
                agent = self._agents_by_call.get(_digest(call), started)
                if agent in self.agents:
                    result["subagent_trajectory_ref"] = [{"trajectory_id": agent}]
        return steps

    def total_metrics(self, metrics: Block | None, steps: int) -> Block | None:
        """Add the costs of the subagents to the metrics of the main agent: by the definition of ATIF, its total cost
        includes them."""
        costs = [cost for each in self.agents.values() if (cost := each.totals.cost)]
        if not costs:
            return metrics
        own = {"total_steps": steps} if metrics is None else metrics
        return {**own, "total_cost_usd": own.get("total_cost_usd", 0) + sum(costs)}


@dataclass(slots=True)
class _WaitingStep:
    step: Block
    message: int
    """The number of its message in the session."""
    start: int
    """The size of the messages before."""
    calls: list[str] = field(default_factory=list)


class TrajectoryFold:
    """Folds the messages of an agent, in order, into the steps of its trajectory.

    `last_results`: of the survey of the session; None lets all steps wait for results. `max_size`: the size of messages
    after which a step does not wait; a later result is then a step of its own.
    """

    def __init__(
        self,
        media: Media | None = None,
        *,
        last_results: Mapping[int, int] | None = None,
        max_size: float = inf,
    ) -> None:
        self.totals = TrajectoryTotals()
        self.steps = 0
        """Number of steps that were taken."""
        self._media, self._last_results, self._max_size = media or Media(), last_results, max_size
        self._waiting = deque[_WaitingStep]()
        self._by_call: dict[str, _WaitingStep] = {}
        self._ready: list[Block] = []
        self._added = self._message = self._size = 0

    def add(self, message: StandardMessage, number: int = 0, size: int = 0, *, is_copy: bool = False) -> None:
        """Add a message; `number`: its number in the session."""
        if not is_standing(message):
            return
        self._message = number
        blocks, results = divide(message)
        if blocks is not None:
            self._add_step(message, blocks, is_copy=_is_copied(message, is_copy=is_copy))
        for result in results:
            self._add_result(message, result)
        self._size += size
        while self._waiting and not self._waits(self._waiting[0]):
            self._finish()

    def take(self) -> list[Block]:
        """Return and forget the steps that later messages do not change."""
        taken = [{"step_id": number, **step} for number, step in enumerate(self._ready, self.steps + 1)]
        self.steps += len(taken)
        self._ready.clear()
        return taken

    def end(self) -> list[Block]:
        """Return the other steps at the end of the session."""
        while self._waiting:
            self._finish()
        if not self._added:
            self._ready.append(empty_step())
        return self.take()

    def _add_step(self, message: StandardMessage, blocks: list[Block], *, is_copy: bool) -> None:
        step = step_of(message, blocks, self._media, self._added + 1, is_copy=is_copy)
        waiting = self._add(step)
        waiting.calls += [call["tool_call_id"] for call in step.get("tool_calls", ())]
        self._by_call |= dict.fromkeys(waiting.calls, waiting)
        if "metrics" in step:
            self.totals.add(step["metrics"])

    def _add_result(self, message: StandardMessage, result: Block) -> None:
        call = result.get("tool_use_id")
        waiting = self._by_call.get(call) if isinstance(call, str) else None
        if waiting is None:
            self._add(step_of_result(message, result, self._media))
        else:
            add_result(waiting.step, message, result, self._media)

    def _add(self, step: Block) -> _WaitingStep:
        waiting = _WaitingStep(step, self._message, self._size)
        self._waiting.append(waiting)
        self._added += 1
        return waiting

    def _waits(self, waiting: _WaitingStep) -> bool:
        if self._size - waiting.start > self._max_size:
            return False
        is_near = self._last_results is None or self._message - waiting.message <= _NEAR
        return is_near or self._message < (self._last_results or {}).get(waiting.message, 0)

    def _finish(self) -> None:
        finished = self._waiting.popleft()
        self._ready.append(finished.step)
        for call in finished.calls:
            if self._by_call.get(call) is finished:
                del self._by_call[call]
