"""Numbers of sessions by the values of filters."""

from pydantic import Field

from ash_shared.model.base import AshModel


class ValueCount(AshModel):
    value: str
    sessions: int
    """Number of sessions with this value."""


class SessionCounts(AshModel):
    """Sessions that match filters, counted by the values of further filters: those of the most sessions first.

    The counts of a filter that is set leave it out, so that they include its other values.
    """

    sessions: int
    """Number of sessions that match all filters."""
    is_limited: bool = Field(alias="isLimited")
    """True if more sessions match than are counted: only the latest are."""
    sources: list[ValueCount]
    """The agents that wrote the sessions, else their formats."""
    projects: list[ValueCount]
    branches: list[ValueCount]
    models: list[ValueCount]
    machines: list[ValueCount]
    persons: list[ValueCount]
