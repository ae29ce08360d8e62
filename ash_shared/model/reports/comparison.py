"""Two sessions side by side, as the API returns them."""

from datetime import datetime
from typing import Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.session import Session

FactName: TypeAlias = Literal[
    "agent",
    "version",
    "models",
    "project",
    "folder",
    "branch",
    "commit",
    "machine",
    "person",
    "cause",
    "firstAt",
    "durationMs",
    "activeMs",
    "prompts",
    "turns",
    "toolCalls",
    "toolFailures",
    "errors",
    "filesChanged",
    "linesAdded",
    "linesRemoved",
    "messages",
    "inputTokens",
    "outputTokens",
    "cacheReadTokens",
    "cacheWriteTokens",
    "costUsd",
]
FACT_NAMES: tuple[FactName, ...] = get_args(FactName)
FactValue: TypeAlias = str | int | float | list[str]


class _Comparison(AshModel):
    model_config = ConfigDict(alias_generator=to_camel)


class ComparedFact(_Comparison):
    """A fact that at least one of the sessions has."""

    name: FactName
    a: Omittable[FactValue] = ABSENT
    """Absent if no record of the session states it."""
    b: Omittable[FactValue] = ABSENT
    is_equal: bool


class ToolCount(_Comparison):
    calls: int
    failures: int
    """Calls that failed or were denied."""


class ComparedTool(_Comparison):
    """A tool that at least one of the sessions called."""

    tool: str
    a: Omittable[ToolCount] = ABSENT
    b: Omittable[ToolCount] = ABSENT
    is_equal: bool


class ChangedLines(_Comparison):
    changes: int
    """Calls that changed the file."""
    added: Omittable[int] = ABSENT
    """Absent if no call states it."""
    removed: Omittable[int] = ABSENT


class ComparedFile(_Comparison):
    """A file that at least one of the sessions changed."""

    path: str
    """Relative to the project of the session, if it is in the project."""
    a: Omittable[ChangedLines] = ABSENT
    b: Omittable[ChangedLines] = ABSENT
    is_equal: bool
    """True if both changed it by the same numbers of calls and lines."""


class ComparedPrompt(_Comparison):
    sequence: int
    """The sequence of its event."""
    message_sequence: Omittable[int] = ABSENT
    """The sequence of its stored message."""
    at: Omittable[datetime] = ABSENT
    text: str
    """At most 2,000 characters."""


class PromptPair(_Comparison):
    """Equal prompts, or different ones at the same place."""

    a: Omittable[ComparedPrompt] = ABSENT
    b: Omittable[ComparedPrompt] = ABSENT
    is_equal: bool
    """True if the whole texts are equal."""
    is_copied: bool = False
    """True if the prompt is part of the common beginning."""


class CommonBeginning(_Comparison):
    """The messages at the beginning that one session copied from the other, or both from a third one."""

    messages: int
    original: UUID
    """The session that the messages come from."""


class SessionComparison(_Comparison):
    """Two sessions side by side."""

    a: Session
    """With its usage."""
    b: Session
    common: Omittable[CommonBeginning] = ABSENT
    """Absent unless a session is a copy or a fork of the other, or both are of the same one."""
    facts: list[ComparedFact]
    """Tokens and costs include subagents. The usage of copied messages counts only in the original."""
    tools: list[ComparedTool]
    """Most used first."""
    files: list[ComparedFile]
    """Files that both changed come first, then files that only `a` changed."""
    more_files: bool = False
    """True if a session changed more files than are compared."""
    prompts: list[PromptPair]
    """Aligned by their longest common subsequence."""
    more_prompts: bool = False
    """True if a session has more prompts than the 1,000 that are compared."""
