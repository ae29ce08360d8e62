"""The changes of files in a session, by file and by turn."""

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from ash_shared.model.base import ABSENT, AshModel, Omittable

CallOutcome: TypeAlias = Literal["ok", "failed", "denied", "pending"]
"""Whether a call succeeded; `pending` if the log has no result."""
FileStatus: TypeAlias = Literal["added", "changed", "deleted", "moved"]


class _Model(AshModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _Call(_Model):
    turn: int
    """The number of the turn in the session, from 1; 0 before the first one."""
    sequence: int
    """The sequence of the event of the call."""
    message_sequence: Omittable[int] = ABSENT
    """The stored message with the call."""
    tool_call_id: str
    tool: str
    at: Omittable[datetime] = ABSENT
    """The time of the call."""
    outcome: CallOutcome
    is_retracted: Omittable[Literal[True]] = ABSENT
    """True if the conversation was continued from a point before the call."""
    is_of_subagent: Omittable[Literal[True]] = ABSENT
    """True for a call of a subagent in this transcript."""


class FileEdit(_Call):
    """How a call changed a file. Only calls with the outcome `ok` that are not retracted count."""

    action: Literal["edit", "write", "delete", "move"]
    added: Omittable[int] = ABSENT
    """The number of added lines; absent if it is unknown."""
    removed: Omittable[int] = ABSENT
    """The number of removed lines; absent if it is unknown, as for an overwritten file."""
    new_path: Omittable[str] = ABSENT
    diff: Omittable[str] = ABSENT
    """The hunks, without headers of the file. A hunk without known line numbers begins with `@@ @@`."""


class FileDiff(_Model):
    """A file, its lines and its difference."""

    path: str
    """As the record states it."""
    new_path: Omittable[str] = ABSENT
    """The path after the last move."""
    status: FileStatus
    """`added` only if the record shows that the file was new."""
    added: int = 0
    """The added lines of the counted edits."""
    removed: int = 0
    """The removed lines of the counted edits."""
    is_lower_bound: Omittable[Literal[True]] = ABSENT
    """True if an edit has unknown lines."""
    is_composed: bool = True
    """False if the edits do not fit each other, because the file was also changed elsewhere or the record lacks their
    places; `diff` then has several parts in order."""
    diff: Omittable[str] = ABSENT
    """The difference between the file before the first and after the last counted edit, as a patch of git."""


class ChangedFile(FileDiff):
    """A file that a session changed."""

    edits: list[FileEdit]
    """In the order of the log."""


class ShellCommand(_Call):
    """A shell command that may have changed files; their paths are not known."""

    command: str


class ChangedTurn(_Model):
    """A turn with counted edits."""

    turn: int
    prompt: Omittable[str] = ABSENT
    """The beginning of its first prompt, in one line."""
    at: Omittable[datetime] = ABSENT
    sequence: Omittable[int] = ABSENT
    """The event of the prompt."""
    added: int = 0
    removed: int = 0
    is_lower_bound: Omittable[Literal[True]] = ABSENT
    files: list[FileDiff]


class SessionChanges(_Model):
    """The files that a session changed, from what its tools reported."""

    session_id: str
    files: list[ChangedFile]
    """By the first edit."""
    turns: list[ChangedTurn]
    commands: list[ShellCommand]
    files_changed: int = 0
    """The number of files with counted edits."""
    added: int = 0
    removed: int = 0
    is_lower_bound: Omittable[Literal[True]] = ABSENT
    """True if an edit has unknown lines."""
    not_counted: int = 0
    """Edits that failed, were denied or retracted, or have no result."""
