"""Counts of sessions by the values of filters."""

from pydantic import Field

from ash_shared.model.base import AshModel


class ValueCount(AshModel):
    value: str
    sessions: int
    """Number of sessions with this value."""


class SessionCounts(AshModel):
    """Counts of the sessions that match filters, by the values of each filter, the most frequent first.

    A filter does not narrow its own counts, so they include its other values.
    """

    sessions: int
    """Number of sessions that match all filters."""
    is_limited: bool = Field(alias="isLimited")
    """True if only the latest sessions are counted, because more match."""
    sources: list[ValueCount]
    """The agents that wrote the sessions, else their formats."""
    projects: list[ValueCount]
    branches: list[ValueCount]
    models: list[ValueCount]
    machines: list[ValueCount]
    persons: list[ValueCount]
