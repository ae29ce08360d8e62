"""Cold sessions: old sessions with their texts in archives."""

from datetime import datetime

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable


class ColdPolicy(AshModel):
    """The policy of a tenant, and its archives."""

    age: Omittable[str] = ABSENT
    """Sessions without a change for this long are archived, such as `180d`; absent: none is."""
    set_at: Omittable[datetime] = Field(default=ABSENT, alias="setAt")
    checked_at: Omittable[datetime] = Field(default=ABSENT, alias="checkedAt")
    """The time of the last run; absent before the first one."""
    sessions: int
    """The number of cold sessions."""
    text_bytes: int = Field(alias="textBytes")
    """The size of their texts."""
    archive_bytes: int = Field(alias="archiveBytes")
    """The size of their archives."""


class ColdRun(AshModel):
    """The result of a run of the policy, or of a dry run."""

    is_dry_run: bool = Field(alias="isDryRun")
    archived: int
    """The number of sessions that this run archives."""
    restored: int
    """The number of cold sessions that this run restores, because they were changed."""
    total: int
    """The number of cold sessions after the run."""
