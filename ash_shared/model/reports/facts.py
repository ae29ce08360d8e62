"""The facts of a session in detail, as the API returns them."""

from typing import Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.session import Session

PlanState = Literal["open", "active", "done", "cancelled"]


class _Facts(AshModel):
    model_config = ConfigDict(alias_generator=to_camel)


class ToolFacts(_Facts):
    """The calls of a tool."""

    tool: str
    mcp_server: Omittable[str] = ABSENT
    """The MCP server of the tool."""
    calls: int
    failures: int
    """Calls that failed or were denied."""
    denied: int
    """Calls that were denied."""


class NameCount(_Facts):
    """The number of calls to an MCP server, or of a skill."""

    name: str
    calls: int


class FileFacts(_Facts):
    """A file that calls read or changed. Only calls that succeeded are counted."""

    path: str
    """As the record states it; a relative one is joined to the folder of the session, if that is known."""
    reads: int
    changes: int
    """Calls that edited, wrote, deleted or moved it."""
    added: Omittable[int] = ABSENT
    """Added lines; absent if no call states them."""
    removed: Omittable[int] = ABSENT
    """Removed lines; absent if no call states them."""


class PlanItem(_Facts):
    """A step of a plan."""

    text: str
    state: PlanState


class Plan(_Facts):
    """The last plan, or list of tasks."""

    items: list[PlanItem]


class SessionFacts(_Facts):
    """The place and the counts of a session, its tools, files and last plan.

    Calls of copied messages are counted, as in the counts of the session.
    """

    session: Session
    tools: list[ToolFacts] = Field(default=[])
    """Most used first. Empty, like the following lists, for a session of an earlier version, until `ash reindex`."""
    mcp_servers: list[NameCount] = Field(default=[])
    skills: list[NameCount] = Field(default=[])
    files: list[FileFacts] = Field(default=[])
    """In the order of their first call, at most 1,000."""
    more_files: bool = False
    """True if there are more files."""
    plan: Omittable[Plan] = ABSENT
