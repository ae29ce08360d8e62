"""The prompts that wait in the queue of a client while a turn runs, and what later records say about them.

Standard messages and the event log follow the same rules, each with entries of its own.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, TypeVar

from msgspec import Struct

from ash_shared.providers._kit.steps import Origin
from ash_shared.reading.system_text import prompt_text, typed_text

Phase = Literal["waiting", "taken", "removed"]
"""taken: it left the queue to begin a turn, and the next prompt sends it. removed: it left the queue during a turn, and
was withdrawn unless its delivery follows."""


class QueuedPrompt(Protocol):
    """A prompt in the queue."""

    text: str
    turn: int
    """Number of turns when it came."""
    phase: Phase


Entry = TypeVar("Entry", bound=QueuedPrompt)


class PromptQueue(Struct, omit_defaults=True):
    """The facts about the queue of a session besides its entries, which the caller passes in their order."""

    delivered: int = 0
    """Prompts that were delivered during a turn, but not yet removed."""
    records_deliveries: bool = False
    """True if the session records the delivery of prompts during a turn."""

    def take(self, entries: Iterable[Entry], text: str) -> None:
        """Mark the prompt that begins a turn: the waiting one with this text, or without a text the first one."""
        if (entry := _waiting(entries, text)) is not None:
            entry.phase = "taken"

    def withdraw(self, entries: Iterable[Entry], text: str) -> Entry | None:
        """Return the prompt that the person took back."""
        return _waiting(entries, text)

    def remove(self, entries: Sequence[Entry], text: str) -> Entry | None:
        """Return the prompt that is delivered by its removal. In a session that records deliveries there is none.

        Without a text, the first one is removed that is not a command: commands wait for the end of the turn.
        """
        if self.delivered and not (text and _waiting(entries, text)):
            self.delivered -= 1
            return None
        entry = _waiting(entries, text) if text else _waiting_text(entries) or _waiting(entries, "")
        if entry is not None and self.records_deliveries:
            entry.phase = "removed"
            return None
        return entry

    def send(self, entries: Sequence[Entry], text: str, origin: Origin) -> Entry | None:
        """Return the prompt that a message of the user sends: the one with this text, or with what the person typed of
        it, or else, for a message that begins a turn, the first one that was taken."""
        entry = next((entry for entry in entries if entry.text == text), None)
        if entry is None and entries:
            typed = typed_text(text)
            entry = next((entry for entry in entries if entry.text == typed), None)
        if entry is None and begins_turn(text, origin):
            entry = next((entry for entry in entries if entry.phase == "taken"), None)
        if entry is not None and origin == "mid_turn" and entry.phase == "waiting":
            self.delivered += 1
        return entry


def is_abandoned(entry: QueuedPrompt) -> bool:
    """True if nothing will send a prompt of the queue, because another one began a turn. A resumed session copies its
    earlier prompts after the first entry of its queue."""
    return entry.turn > 0


def begins_turn(text: str, origin: Origin) -> bool:
    """True if a message of the user begins a turn; commands that only control the client do not."""
    return origin == "prompt" and bool(prompt_text(text))


def _waiting(entries: Iterable[Entry], text: str) -> Entry | None:
    """Return the first waiting prompt, or the first one with this text."""
    return next((entry for entry in entries if entry.phase == "waiting" and text in ("", entry.text)), None)


def _waiting_text(entries: Iterable[Entry]) -> Entry | None:
    return _waiting([entry for entry in entries if not entry.text.startswith("/")], "")
