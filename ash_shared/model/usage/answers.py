"""Usage and cost of the answers of a session, one value per answer."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Cause: TypeAlias = Literal["person", "schedule", "program"]
"""The cause of a turn."""

MAX_COUNT = 2**53 - 1
"""The largest count; a larger one counts as 0."""


class AnswerUsage(Struct, frozen=True, omit_defaults=True):
    """The usage of an answer, or the difference between a stated total and the answers that it covers.

    A value replaces earlier values with the same key. The counts of a difference may be negative.
    """

    key: str
    """16 hexadecimal digits, unique in the session."""
    time: int | None = None
    """Milliseconds since 1970; None if unknown or before 2000."""
    model: str | None = None
    """Absent for texts that a client wrote (`<synthetic>`)."""
    service_tier: str | None = None
    """The vendor's name in lower case; None for `standard`. The same holds for `speed` and `region`."""
    speed: str | None = None
    region: str | None = None
    agent_id: str | None = None
    """The subagent, for an answer in its lines in another session's transcript."""
    cause: Cause | None = None
    """The cause of its turn; None if unknown."""
    folder: str | None = None
    """The working folder of the agent."""
    branch: str | None = None
    """The Git branch of the folder."""
    is_request: bool = True
    """False for a total of several requests: thresholds of prices apply to single requests only."""
    input_tokens: int = 0
    """Without tokens read from or written to a cache."""
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    """Tokens written to a cache for five minutes, or for an unknown time."""
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    """Including reasoning."""
    reasoning_tokens: int = 0
    web_searches: int = 0
    reported_cost: int | None = None
    """In nano-dollars, as the record states it."""
    turn: int = 0
    """The number of its turn in the session."""
    settles_turn: bool = False
    """True if the reported cost includes the answers of the turn that have none: theirs becomes 0."""


def last_values(values: Iterable[AnswerUsage]) -> list[AnswerUsage]:
    """Return the last value of each key, with the costs that the total of a turn settles."""
    last: dict[str, AnswerUsage] = {}
    for value in values:
        if value.settles_turn:
            last.update(_settled(last.values(), value.turn))
        last[value.key] = value
    return list(last.values())


def _settled(values: Iterable[AnswerUsage], turn: int) -> dict[str, AnswerUsage]:
    open_values = (value for value in values if value.turn == turn and value.reported_cost is None)
    return {value.key: replace(value, reported_cost=0) for value in open_values}
