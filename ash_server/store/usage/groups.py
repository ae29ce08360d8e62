"""Sums of usage for reports: by period, session, project and other dimensions.

Groups differ in everything that prices depend on, so the cost of each is computed once.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from psycopg import AsyncConnection

Period: TypeAlias = Literal["quarter", "hour", "day", "week", "month"]
GroupKey: TypeAlias = Literal["session", "project", "machine", "agent", "key", "agent_id", "cause"]


class UsageFilter(NamedTuple):
    """What to sum, and how to group it. None: everything."""

    by: Collection[GroupKey] = ()
    """Fields of the groups; the others are None."""
    period: Period | None = None
    """Groups by time have the `start` of their period, weeks from Monday."""
    timezone: str = "UTC"
    """The IANA name of the time zone of the periods."""
    price_changes: Sequence[datetime] = ()
    """Times when prices change, in ascending order; no group contains usage from before and after one of them."""
    since: datetime | None = None
    """Usage in the quarter of an hour with this time, and later. Usage at an unknown time is left out."""
    until: datetime | None = None
    """Usage in quarters of an hour that begin before this time."""
    sessions: Collection[UUID] | None = None
    sources: Collection[str] | None = None
    models: Collection[str] | None = None
    """Their names in the records; an empty name for answers without a model."""
    projects: Collection[str] | None = None
    """Folders with the folders below them, by path or only by name."""
    machines: Collection[str] | None = None
    agents: Collection[str] | None = None
    """The programs that wrote the sessions."""
    keys: Collection[UUID] | None = None
    with_repeated: bool = False
    """Also count lines of a subagent in another transcript if the subagent's session is stored with its usage."""


class UsageGroup(NamedTuple):
    """A sum of usage; `ash_server.prices` computes its cost."""

    start: datetime | None
    """The start of the period; None without periods, or if the time is unknown."""
    quarter: datetime | None
    """The start of its first quarter of an hour; None if the time is unknown."""
    source: str
    model: str | None
    service_tier: str | None
    speed: str | None
    region: str | None
    is_request: bool
    band: int
    session_id: UUID | None
    project: str | None
    machine: str | None
    agent: str | None
    """The program that wrote the session; its format if that names none."""
    key_id: UUID | None
    agent_id: str | None
    """The subagent of lines in another transcript."""
    cause: str | None
    answers: int
    input_tokens: int
    """Without tokens read from or written to a cache."""
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    output_tokens: int
    """Including reasoning."""
    reasoning_tokens: int
    web_searches: int
    reported_cost: int
    """The sum of the reported costs, in nano-dollars."""
    reported_answers: int
    """How many answers have a reported cost."""


async def read_groups(conn: AsyncConnection, usage: UsageFilter) -> list[UsageGroup]:
    """Return the groups that have answers, in no particular order. Shared messages of copies count once."""
    raise NotImplementedError


async def count_sessions_without_facts(conn: AsyncConnection) -> int:
    """Return the number of sessions of earlier versions, which `ash reindex` derives again."""
    raise NotImplementedError
