"""Projects as the API returns them."""

from datetime import datetime

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.usage.report import UsageCounts


class Project(AshModel):
    """The root of a repository, or another folder, with its sessions."""

    path: str
    """The value of `project` in its sessions, and of the filter."""
    name: str
    """The last part of the path."""
    folders: list[str]
    """The first working folders of its sessions, at most 100, by descending number of sessions."""
    session_count: int = Field(alias="sessionCount")
    message_count: int = Field(alias="messageCount")
    last_active_at: datetime = Field(alias="lastActiveAt")
    """The last activity of a session."""
    usage: Omittable[UsageCounts] = ABSENT
    """Tokens and costs; only in lists that ask for them."""


class ProjectPage(AshModel):
    """A page of projects, most recent activity first."""

    projects: list[Project]
    next_after: Omittable[str] = Field(default=ABSENT, alias="nextAfter")
    """Opaque cursor; absent on the last page."""
