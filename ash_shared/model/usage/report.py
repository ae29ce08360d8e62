"""Reports of usage and cost: rows by one or two dimensions, and their totals."""

from datetime import datetime
from typing import Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable

Dimension: TypeAlias = Literal[
    "hour",
    "day",
    "week",
    "month",
    "block",
    "session",
    "project",
    "model",
    "source",
    "machine",
    "agent",
    "key",
]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
MAX_DIMENSIONS = 2

CostMode: TypeAlias = Literal["auto", "reported", "computed"]

DifferenceReason: TypeAlias = Literal["resumed_runs", "unpriced", "calls_outside"]
"""Why an agent states a higher cost than the answers have: it includes earlier runs that the session was copied from,
answers without a price, or requests to models that no answer has."""

UNKNOWN = "unknown"
"""The value of a dimension that no record states, such as the day of answers without a time."""


class UsageCounts(AshModel):
    """Tokens and costs of answers. Counts of tokens have the meaning that they have in a standard message."""

    answers: int = 0
    """Number of answers, and of totals that a transcript states instead of single answers."""
    input_tokens: int = 0
    """Input tokens, without tokens read from or written to a cache."""
    output_tokens: int = 0
    """Output tokens, including reasoning."""
    total_tokens: int = 0
    """input_tokens + output_tokens, without cache tokens."""
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    """Tokens written to a cache, for 5 minutes or for an hour."""
    cache_creation_1h_input_tokens: int = 0
    """The part of cache_creation_input_tokens that is kept for an hour."""
    reasoning_tokens: int = 0
    """The part of output_tokens that is reasoning, if the vendor reports it."""
    web_searches: int = 0
    cost_usd: Omittable[float] = Field(default=ABSENT, alias="costUsd")
    """The cost in US dollars, by the requested mode. Absent if no answer has a cost."""
    computed_cost_usd: Omittable[float] = Field(default=ABSENT, alias="computedCostUsd")
    """The cost at API prices, computed from tokens. Absent if no answer has a price."""
    reported_cost_usd: Omittable[float] = Field(default=ABSENT, alias="reportedCostUsd")
    """The sum of costs in the records. Absent if no record states a cost."""
    reported_answers: int = Field(default=0, alias="reportedAnswers")
    """Number of answers with a cost in their records."""
    unpriced_answers: int = Field(default=0, alias="unpricedAnswers")
    """Number of answers without a cost: their model has no price, and their records state no cost."""


class UsageSession(AshModel):
    """The session of a row."""

    id: UUID
    title: Omittable[str] = ABSENT
    source: Omittable[str] = ABSENT
    parent_id: Omittable[UUID] = Field(default=ABSENT, alias="parentId")
    """The session that started it or that it was forked from, if stored."""
    last_at: Omittable[datetime] = Field(default=ABSENT, alias="lastAt")
    """The latest time of a message."""


class UsageBlock(AshModel):
    """Five hours that begin with the hour of the first request after the last block, as subscriptions count them."""

    start: datetime
    end: datetime
    is_active: bool = Field(default=False, alias="isActive")
    """True if it has not ended at the time of the report."""


class UsageBurn(AshModel):
    """How fast the active block is used, and its figures at its end if that continues."""

    minutes: float
    """Minutes since the quarter of an hour of the first answer."""
    tokens_per_minute: float = Field(alias="tokensPerMinute")
    """Tokens of all kinds, including cache tokens."""
    cost_usd_per_minute: Omittable[float] = Field(default=ABSENT, alias="costUsdPerMinute")
    projected_tokens: int = Field(alias="projectedTokens")
    projected_cost_usd: Omittable[float] = Field(default=ABSENT, alias="projectedCostUsd")


class UsageRow(UsageCounts):
    """The figures of one value of each requested dimension; other dimensions are absent."""

    hour: Omittable[str] = ABSENT
    """The local hour with its offset from UTC: `2026-11-28T14+01:00`. As all dimensions, `unknown` if not known."""
    day: Omittable[str] = ABSENT
    """`2026-11-28`, in the time zone of the report."""
    week: Omittable[str] = ABSENT
    """The ISO week: `2026-W48`."""
    month: Omittable[str] = ABSENT
    """`2026-11`."""
    block: Omittable[str] = ABSENT
    """The local start of the five hours with its offset from UTC: `2026-11-28T09+01:00`."""
    session: Omittable[UsageSession] = ABSENT
    project: Omittable[str] = ABSENT
    """The root of the repository, else the folder."""
    model: Omittable[str] = ABSENT
    source: Omittable[str] = ABSENT
    """The format of the session."""
    machine: Omittable[str] = ABSENT
    """The host that stored the session."""
    agent: Omittable[str] = ABSENT
    """The program that wrote the session."""
    key: Omittable[str] = ABSENT
    """The id of the key that stored the session."""
    window: Omittable[UsageBlock] = ABSENT
    """With the dimension `block`: its times."""
    burn: Omittable[UsageBurn] = ABSENT
    """In rows of the active block."""
    with_subagents: Omittable[UsageCounts] = Field(default=ABSENT, alias="withSubagents")
    """With the dimension `session` alone: the total of the session and its subagents, at any depth. Absent for sessions
    without subagents."""
    difference_usd: Omittable[float] = Field(default=ABSENT, alias="differenceUsd")
    """With the dimension `session`: the reported cost less the computed cost, if both cover all answers."""
    stated_cost_usd: Omittable[float] = Field(default=ABSENT, alias="statedCostUsd")
    """With the dimension `session` alone: the cost that the agent states for its whole session and its subagents. No
    other figure includes it."""
    stated_difference_usd: Omittable[float] = Field(default=ABSENT, alias="statedDifferenceUsd")
    """The stated cost less the cost of all answers of the session and its subagents, whatever the filters."""
    difference_reason: Omittable[DifferenceReason] = Field(default=ABSENT, alias="differenceReason")
    """Why the stated cost is more than a cent above the other one, if known."""


class UnpricedModel(UsageCounts):
    """Usage without a computed cost, by model."""

    model: str
    source: str
    reason: Omittable[str] = ABSENT
    """Why, as a word such as `unknown_model`."""
    explanation: Omittable[str] = ABSENT
    """The reason in English."""


class EstimatedModel(UnpricedModel):
    """Usage with a computed cost that is an estimate."""


class UsageReport(AshModel):
    """Usage and cost at API prices; a subscription costs what its plan says."""

    rows: list[UsageRow]
    """Times in ascending order; other values by cost, highest first."""
    totals: UsageCounts
    by: list[Dimension]
    timezone: str
    """The IANA name of the time zone of days, weeks and months."""
    cost: CostMode = "auto"
    """`auto`: the reported cost of answers that have one, the computed cost of others."""
    prices: str
    """The revision of the prices."""
    unpriced: list[UnpricedModel] = Field(default=[])
    """Models without a price, most tokens first. Their tokens are in the rows, their cost is not."""
    estimated: list[EstimatedModel] = Field(default=[])
    """Models with an estimated cost: their records do not state everything that the price depends on."""
    omitted_rows: Omittable[int] = Field(default=ABSENT, alias="omittedRows")
    """Number of rows that were left out, the oldest or cheapest ones. The totals include them."""
    sessions_without_facts: int = Field(default=0, alias="sessionsWithoutFacts")
    """Sessions that an earlier version stored; their usage is missing until `ash reindex`."""


class AnswerCost(AshModel):
    """The usage and cost of an answer, or of a turn if its record states only a total."""

    message_sequence: int = Field(alias="messageSequence")
    """The message that stated the answer first."""
    turn: int
    """The number of its turn in the session."""
    model: Omittable[str] = ABSENT
    input_tokens: int
    """Input tokens, without tokens read from or written to a cache."""
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int
    cost_usd: Omittable[float] = Field(default=ABSENT, alias="costUsd")
    """The cost in its record, or else the cost at API prices. Absent if its model has no price."""
    is_reported: bool = Field(default=False, alias="isReported")
    """True if the cost is in its record."""


class SessionAnswers(AshModel):
    """The answers of a range of messages, in their order."""

    answers: list[AnswerCost]
    next_after: Omittable[int] = Field(default=ABSENT, alias="nextAfter")
    """The cursor of the next page; absent on the last one."""
