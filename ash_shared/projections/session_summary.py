"""A log of events in a few lines: what a list of sessions shows of it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import MISSING, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from ash_shared.message import StandardTokenUsage
from ash_shared.projections._log import Event, Events, standing, wire_events

_LONGEST = 200


class SessionSummary(BaseModel):
    """A session at a glance.

    What was retracted is not counted, but what it cost is. Subagents' calls and results count; what they said does
    not.
    """

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    session_id: str | MISSING = MISSING
    title: str | MISSING = MISSING
    """How the first prompt begins, in one line."""
    last_text: str | MISSING = MISSING
    """How the last thing that was said begins, by the user or the assistant, in one line."""
    last_role: str | MISSING = MISSING
    """Who said it: user or assistant."""
    first_at: int | MISSING = MISSING
    """In milliseconds since 1970."""
    last_at: int | MISSING = MISSING
    turns: int = 0
    user_messages: int = 0
    """What the person said, aloud or in writing."""
    assistant_messages: int = 0
    tool_calls: dict[str, int] = {}
    """How often each tool was called, the most used first."""
    tool_errors: dict[str, int] = {}
    """How often each tool failed."""
    errors: dict[str, int] = {}
    """Errors that are not a tool's, by code."""
    unrecognised: int = 0
    """Records that no table knows."""
    compactions: int = 0
    """How often the history was summarised."""
    subagents: int = 0
    agents: list[str] = []
    """Other agents and sessions that took part, in the order in which they first appear."""
    awaited_agents: int = 0
    """How many messages to other agents have no callback yet."""
    usage: StandardTokenUsage | MISSING = MISSING
    cost_usd: float | MISSING = MISSING
    is_open: bool = False
    """Whether a turn has begun and not ended."""
    open_calls: list[str] = []
    """Tools that the open turn waits for."""
    is_interrupted: bool = False
    """Whether the last turn was stopped before its end."""


def to_session_summary(events: Events) -> SessionSummary:
    """The summary of a log, also of one that is still being written."""
    log = wire_events(events)
    stands = standing(log)
    main = [event for event in stands if event["payload"].get("parentToolCallId") is None]
    return SessionSummary.model_validate(
        {**_envelope(log), **_said(main), **_counts(main), **_tools(stands), **_agents(stands), **_state(log)}
        | _spent(log)
    )


def _of(events: Iterable[Event], *types: str) -> list[Event]:
    return [event for event in events if event["type"] in types]


def _envelope(log: list[Event]) -> dict[str, Any]:
    if not log:
        return {}
    times = [event["timestamp"] for event in log]
    return {"sessionId": log[0]["sessionId"], "firstAt": min(times), "lastAt": max(times)}


def _prompts(main: list[Event]) -> list[Event]:
    return [
        event
        for event in _of(main, "user_message", "user_audio")
        if not event["payload"].get("synthetic")
    ]


def _text(event: Event) -> str:
    payload = event["payload"]
    words = " ".join((payload["transcription"] if event["type"] == "user_audio" else payload["text"]).split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
