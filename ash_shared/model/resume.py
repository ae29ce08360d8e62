"""The command that continues a session, as the API returns it."""

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable


class SessionResume(AshModel):
    """How the agent of a session continues it."""

    arguments: Omittable[list[str]] = ABSENT
    """The program and its arguments, to run in `folder` without a shell. Absent if the session cannot be continued."""
    folder: Omittable[str] = ABSENT
    """The absolute path of the folder where the session began, on `machine`. Absent if no record states it."""
    machine: Omittable[str] = ABSENT
    """The host name of the client that stored the session. Absent if unknown."""
    command: Omittable[str] = Field(default=ABSENT, examples=["cd /srv/site && claude --resume 3f0c…"])
    """The same as one line for a POSIX shell, quoted. Absent without a folder, and for a folder on Windows."""
    reason: Omittable[str] = ABSENT
    """Why there are no arguments."""
