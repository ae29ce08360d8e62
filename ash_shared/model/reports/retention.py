"""Retention: how long sessions are kept after their last change."""

from datetime import datetime
from typing import Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable

RetentionKeep: TypeAlias = Literal["starred", "tagged"]
RETENTION_KEEPS: tuple[RetentionKeep, ...] = get_args(RetentionKeep)
HeldReason: TypeAlias = Literal["share", "clock"]

MAX_LISTED_EXPIRED = 100
"""Sessions in the answer of a run, and in the policy."""


class RetentionPolicy(AshModel):
    """The policy of a tenant, and the result of the server's last run."""

    age: Omittable[str] = ABSENT
    """Sessions without a change for this long are deleted, such as `2y`; absent: none is deleted."""
    keep: list[RetentionKeep]
    """Sessions that are kept besides starred, noted and shared ones."""
    set_at: Omittable[datetime] = Field(default=ABSENT, alias="setAt")
    checked_at: Omittable[datetime] = Field(default=ABSENT, alias="checkedAt")
    """The time of the last run; absent before the first one."""
    scheduled: int
    """The number of sessions that are scheduled for deletion."""
    next_due_at: Omittable[datetime] = Field(default=ABSENT, alias="nextDueAt")
    """When the next scheduled session is deleted."""
    sessions: list[UUID]
    """The next scheduled sessions, at most 100."""
    waiting: int
    """The number of old sessions that the last run has not scheduled."""
    held: Omittable[HeldReason] = ABSENT
    """Why servers schedule and delete nothing until a run is confirmed: `share`, because more than a tenth of the
    sessions would be scheduled at once, or `clock`, because the clock of the database jumped by more than a day."""


class RetentionRun(AshModel):
    """The result of a run of the policy, or of a dry run."""

    is_dry_run: bool = Field(alias="isDryRun")
    scheduled: int
    """The number of sessions that this run schedules for deletion."""
    unscheduled: int
    """The number of scheduled sessions that are kept, because they were changed, labelled or shared."""
    deleted: int
    """The number of sessions that this run deletes."""
    total: int
    """The number of sessions of the tenant before the run."""
    next_due_at: Omittable[datetime] = Field(default=ABSENT, alias="nextDueAt")
    """When the next scheduled session is deleted."""
    sessions: list[UUID]
    """At most 100 of the sessions that this run schedules or deletes, oldest change first."""
