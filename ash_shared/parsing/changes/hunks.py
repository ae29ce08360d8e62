"""Values of changed files."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

MAX_LINE = 999_999_999
"""Numbers of lines above it are not believed."""

Action = Literal["edit", "write", "delete", "move"]


class Hunk(NamedTuple):
    """Changed lines with their context."""

    old_start: int | None
    """The number of its first line before the change, from 1; 0 if there is none. None if the record has no number."""
    new_start: int | None
    lines: tuple[str, ...]
    """Each begins with a space (context), `+` or `-`."""

    @property
    def added(self) -> int:
        return _count("+", self.lines)

    @property
    def removed(self) -> int:
        return _count("-", self.lines)


def _count(sign: str, lines: Iterable[str]) -> int:
    return [line[:1] for line in lines].count(sign)


class FileChange(NamedTuple):
    """How a call changed a file."""

    path: str
    """As the record states it; may be relative to the folder of the session."""
    action: Action
    hunks: tuple[Hunk, ...]
    new_path: str | None = None
    """The path after a move."""
    is_partial: bool = False
    """True if the record does not contain all changed lines, such as the former text of an overwritten file."""

    @property
    def added(self) -> int | None:
        """The number of added lines; None if it is unknown."""
        return None if self._is_unknown else sum(hunk.added for hunk in self.hunks)

    @property
    def removed(self) -> int | None:
        """The number of removed lines; None if it is unknown."""
        return None if self._is_unknown or self.is_partial else sum(hunk.removed for hunk in self.hunks)

    @property
    def _is_unknown(self) -> bool:
        return self.is_partial and not self.hunks


class CallFacts(NamedTuple):
    """The files that a call changed and read, and its command."""

    changes: tuple[FileChange, ...] = ()
    """In the order of the record."""
    reads: tuple[str, ...] = ()
    """The paths of files that the call reads."""
    command: str | None = None
    """The command of a call that runs a shell. The files that it changes are not known."""
