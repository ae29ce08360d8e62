"""The argument and the result of a writer of native sessions."""

from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID, uuid5

MARK = "ash"
"""The key of the mark in a native record, see `records.inherited`."""


class NewTranscript(NamedTuple):
    """A session to write."""

    id: UUID
    origin: UUID
    """The stored session that it continues."""
    folder: str
    """Where the agent will work."""
    time: int
    """Milliseconds since 1970. Records follow at intervals of a millisecond."""
    title: str | None = None

    def record_id(self, number: int) -> UUID:
        return uuid5(self.id, str(number))

    @property
    def start_mark(self) -> dict[str, object]:
        return {"continues": str(self.origin)}

    @property
    def end_mark(self) -> dict[str, object]:
        return {"continues": str(self.origin), "end": True}


class NativeSession(NamedTuple):
    """A session as its agent stores it."""

    path: tuple[str, ...]
    """Folders and file below the home of the agent; only a file name for a document to import."""
    id: str
    """The agent's id of the session."""
    text: str


def iso_time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
