"""The sender of a prompt: a person, or a program in the person's name."""

from collections.abc import Mapping, Sequence
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.records.contract import Record
from ash_shared.records.json_fields import first_text, text_at
from ash_shared.records.steps import MessageSender
from ash_shared.records.system_text import is_client_text

SENDER_KEYS = frozenset(
    {
        "hostInitiator",
        "origin",
        "promptSource",
        "scheduledTaskId",
        "textNotTyped",
        "turnOrigin",
        "wakeupSource",
    }
)
"""Keys that state the sender. Records without them are judged by their text."""

NOT_TYPED_FLAGS = (
    "handedOff",
    "isCompactSummary",
    "isMeta",
    "isVirtual",
    "isVisibleInTranscriptOnly",
    "queueSkipAttachments",
    "turnCompanion",
)
"""Flags of lines in the user's name that no person typed."""


def is_typed(line: Record, blocks: Sequence[Block]) -> bool:
    """Return True if a person typed a `user` line, or a queued prompt with the keys of its line.

    Claude Code 2.1.330 dates the last input of a person by the same conditions.
    """
    origin = line.get("origin")
    has_origin = isinstance(origin, dict)
    is_of_other = has_origin and text_at(origin, "kind") != "human"
    has_result = "toolUseResult" in line or any(block["type"] == "tool_result" for block in blocks)
    if is_of_other or has_result or _is_marked(line):
        return False
    return _has_text(blocks) if has_origin else not is_client_text(blocks)


def _is_marked(line: Record) -> bool:
    """Return True if a key beside the origin states that no person typed a line."""
    has_flag = any(line.get(flag) is True for flag in (*NOT_TYPED_FLAGS, "isSidechain", "textNotTyped"))
    has_timer = bool(line.get("wakeupSource") or line.get("scheduledTaskId"))
    has_host = line.get("hostInitiator") not in (None, "user")
    has_program = line.get("turnOrigin") not in (None, "human", "sdk", "unknown")
    return has_flag or has_timer or has_host or has_program


def _has_text(blocks: Sequence[Block]) -> bool:
    texts = (block["text"] for block in blocks if block["type"] == "text")
    return any(not text.startswith("<task-notification>") for text in texts)


def find_sender(line: Record, blocks: Sequence[Block]) -> MessageSender | None:
    """Return the sender that the keys of a line state; None if they state none.

    `promptSource` is not enough: the desktop app writes `sdk` for texts that a person types.
    """
    if SENDER_KEYS.isdisjoint(line):
        return None
    if not is_typed(line, blocks):
        program = _find_program(line)
        return None if program is None else MessageSender(program, _find_name(line), _find_message(line))
    if "human" in (text_at(line, "origin", "kind"), line.get("turnOrigin")):
        return MessageSender("person")
    is_script = "sdk" in (line.get("promptSource"), line.get("turnOrigin"))
    return MessageSender("script") if is_script else None


def _find_program(line: Record) -> str | None:
    """Return the kind of the program that sent a line; None if only its flags or its text say that no person did."""
    kind = text_at(line, "origin", "kind")
    if kind == "task-notification":
        return _NOTICES.get(text_at(line, "origin", "subkind"), "task")
    if kind is not None and kind != "human":
        return _KINDS.get(kind, kind)
    stated = (table.get(text_at(line, key)) for key, table in _TABLES.items())
    return next(filter(None, stated), None) or _find_host(line)


def _find_host(line: Record) -> str | None:
    if text_at(line, "scheduledTaskId"):
        return "schedule"
    if line.get("textNotTyped") is True or text_at(line, "hostInitiator") not in (None, "user"):
        return "host"
    return None


_NOTICES: Mapping[Any, str] = {
    "external-event": "external-event",
    "peer-send-message": "peer",
    "projects-relay": "projects-relay",
    "scheduled-trigger": "schedule",
    "session-inbox": "session-inbox",
}
"""The senders of task notifications, by `subkind`."""
_KINDS = {"observer-activity": "observer"}
_TABLES: Mapping[str, Mapping[Any, str]] = {
    "wakeupSource": {"loop_wakeup": "loop", "schedule_wakeup": "schedule"},
    "hostInitiator": {"scheduled-task": "schedule"},
    "turnOrigin": {
        "auto_continuation": "auto-continuation",
        "host_synthetic": "host",
        "peer": "peer",
        "scheduled": "schedule",
        "system": "system",
        "task_notification": "task",
    },
}
"""The senders by the values of other keys, most specific first."""


def _find_name(line: Record) -> str | None:
    origin = line.get("origin")
    return first_text(origin, ("name", "server", "from")) if isinstance(origin, dict) else None


def _find_message(line: Record) -> str | None:
    """Return the message of another agent or a plugin without the text around it."""
    return text_at(line, "origin", "body") or text_at(line, "pluginPrompt", "text")
