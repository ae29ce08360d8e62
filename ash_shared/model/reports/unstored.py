"""Transcripts on the server's machine that an agent deletes before they are stored."""

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable


class UnstoredOfAgent(AshModel):
    """The transcripts of an agent that are not stored."""

    agent: str
    name: str
    expiring: int
    """Number of transcripts that the agent deletes within `days`."""
    kept_days: Omittable[int] = Field(default=ABSENT, alias="keptDays")
    """For how long the agent keeps transcripts. Absent if it keeps them all."""
    lost: int
    """Number of sessions with a transcript that was deleted before it was stored, as far as their prompts are known."""
    new_prompts: int = Field(alias="newPrompts")
    """Number of these sessions with prompts that are not stored either."""


class UnstoredTranscripts(AshModel):
    """The agents with transcripts or prompts that are not stored."""

    days: int
    agents: list[UnstoredOfAgent]
    """Empty unless the server belongs to the user of its machine, and until the first check has ended."""
