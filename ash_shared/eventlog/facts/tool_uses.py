"""The facts of tool calls as values for a store.

A call is stated when its event is derived, and its outcome when the event of its result is: the arguments are not in
the state of the normaliser. So changes that a result reports replace the numbers of lines, which the arguments state.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from ash_shared.eventlog.dedupe.digests import text_digest
from ash_shared.model.blocks import Block
from ash_shared.parsing.changes import (
    CHANGING_KINDS,
    CallFacts,
    FileChange,
    Outcome,
    facts_of_call,
    kind_of_call,
    outcome_of,
)
from ash_shared.parsing.tool_names import normal_name
from ash_shared.records.json_fields import first_text

MAX_PATH = 600
"""Characters of a path; a longer one is unknown, since it is in an index."""
MAX_FILES = 100
"""Files of a call; further ones are left out."""

FileAction = Literal["read", "edit", "write", "delete", "move"]


class UsedFile(NamedTuple):
    """A file that a call concerns."""

    action: FileAction
    path: str
    """Absolute if the folder is known; empty if unknown."""
    added: int | None = None
    """The number of added lines; None if unknown."""
    removed: int | None = None


class ToolUse(Struct, frozen=True, omit_defaults=True):
    """A tool call. A later value with the same key replaces it, except for its outcome."""

    key: str
    """The digest of the id of the call."""
    tool: str
    time: int | None = None
    """Milliseconds since 1970; None if unknown."""
    turn: int = 0
    """The number of the turn in the session."""
    mcp_server: str = ""
    skill: str = ""
    """The skill that the call loads."""
    is_shell: bool = False
    """True for a command of a shell, which may change files."""
    files: tuple[UsedFile, ...] = ()


class ToolOutcome(Struct, frozen=True, omit_defaults=True):
    """The result of a tool call."""

    key: str
    outcome: Outcome
    files: tuple[UsedFile, ...] = ()
    """The changes that the result reports; empty if the arguments of the call are all that is known."""


def use_of(payload: Block, *, time: int | None, turn: int, folder: str, server: str = "") -> ToolUse | None:
    """Return the use of a tool by the payload of its event; None for a call that did not run."""
    tool, arguments = payload.get("toolName"), payload.get("args")
    if payload.get("partial") or not isinstance(tool, str) or not tool.strip():
        return None
    facts = facts_of_call(tool, arguments)
    return ToolUse(
        key_of(payload),
        tool,
        time,
        turn,
        server or _server_in(tool),
        _skill_of(tool, arguments),
        facts.command is not None,
        _files_of(facts, folder),
    )


def result_of(payload: Block, tool: str, folder: str) -> ToolOutcome:
    """Return the outcome and the changes that the payload of a result states."""
    stated = outcome_of(payload)
    structured = payload.get("structured")
    if stated != "ok" or structured is None or kind_of_call(tool, None) not in CHANGING_KINDS:
        return ToolOutcome(key_of(payload), stated)
    return ToolOutcome(key_of(payload), stated, _files_of(facts_of_call(tool, None, structured), folder))


def key_of(payload: Block) -> str:
    return text_digest(str(payload.get("toolCallId")))


def _files_of(facts: CallFacts, folder: str) -> tuple[UsedFile, ...]:
    if not (facts.changes or facts.reads):
        return ()
    changed = [file for change in facts.changes for file in _changed_files(change, folder)]
    read = [UsedFile("read", absolute_path(path, folder)) for path in facts.reads]
    return (*changed, *read)[:MAX_FILES]


def _changed_files(change: FileChange, folder: str) -> tuple[UsedFile, ...]:
    """Return the file of a change; of a move the former and the new one, which has the changed lines."""
    path, lines = absolute_path(change.path, folder), (_count(change.added), _count(change.removed))
    if change.new_path is None:
        return (UsedFile(change.action, path, *lines),)
    return UsedFile("move", path), UsedFile("move", absolute_path(change.new_path, folder), *lines)


def _count(lines: int | None) -> int | None:
    return None if lines is None else min(lines, _MAX_LINES)


_MAX_LINES = 2**31 - 1


def absolute_path(path: str, folder: str) -> str:
    """Return a path in the folder of the agent as an absolute one, and an absolute one as the record states it."""
    if not path.startswith(("/", "\\", "~")) and not _DRIVE.match(path) and folder:
        separator = "\\" if "\\" in folder and "/" not in folder else "/"
        path = folder.rstrip("/\\") + separator + _HERE.sub("", path)
    return path if len(path) <= MAX_PATH else ""


_DRIVE = re.compile(r"[A-Za-z]:[/\\]|[A-Za-z][A-Za-z0-9+.-]{1,20}://")
_HERE = re.compile(r"(?:\.[/\\]+)+")


def _server_in(tool: str) -> str:
    match = _MCP_TOOL.match(tool) if tool.startswith("mcp__") else None
    return match[1] if match else ""


_MCP_TOOL = re.compile(r"mcp__(.+?)__.", re.DOTALL)


def _skill_of(tool: str, arguments: Any) -> str:
    if tool.lower() not in _SKILL_TOOLS or not isinstance(arguments, Mapping):
        return ""
    return first_text(arguments, ("skill", "skill_name", "name", "command")) or ""


_SKILL_TOOLS = frozenset({"skill", "activate_skill", "use_skill", "load_skill"})


def asks_person(tool: str) -> bool:
    """True for a tool that waits for a person."""
    return normal_name(tool) in _ASKING


_ASKING = frozenset(
    {
        *("askuser", "askuserquestion", "askfollowupquestion", "question", "requestuserinput"),
        *("exitplanmode", "planexit", "requestpermissions"),
    }
)
"""Names of such tools, without case and punctuation."""
