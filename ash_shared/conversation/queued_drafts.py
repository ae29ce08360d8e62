"""The messages of prompts that wait in the queue of the client: each is a copy of the message that sends it."""

from dataclasses import dataclass

from ash_shared.conversation.drafts import Draft
from ash_shared.model.blocks import joined_text
from ash_shared.providers._kit.prompt_queue import Phase, PromptQueue, begins_turn, is_abandoned
from ash_shared.providers._kit.steps import Part

MAX_QUEUED = 50
"""Prompts of the queue that may still be sent."""


@dataclass(slots=True, eq=False)
class _Entry:
    """A prompt in the queue."""

    text: str
    draft: Draft
    turn: int
    phase: Phase = "waiting"


class QueuedDrafts:
    """The queue of a session. Its methods return the drafts that changed."""

    def __init__(self) -> None:
        self._queue = PromptQueue()
        self._entries: list[_Entry] = []

    def add(self, draft: Draft) -> None:
        self._entries.append(_Entry(draft.text(), draft, draft.turn))
        del self._entries[:-MAX_QUEUED]

    def record_deliveries(self) -> None:
        self._queue.records_deliveries = True

    def take(self, part: Part) -> None:
        self._queue.take(self._entries, joined_text(part.blocks))

    def remove(self, part: Part) -> list[Draft]:
        """Return the prompt that is delivered by its removal."""
        entry = self._queue.remove(self._entries, joined_text(part.blocks))
        return [] if entry is None else [entry.draft]

    def taken(self) -> list[Draft]:
        """Return the prompts that began a turn without a line of their own."""
        return [entry.draft for entry in self._entries if entry.phase == "taken"]

    def withdraw(self, part: Part) -> list[Draft]:
        """Retract the prompt that the person took back."""
        entry = self._queue.withdraw(self._entries, joined_text(part.blocks))
        return [] if entry is None else [self._retract(entry)]

    def send(self, part: Part, message: Draft) -> list[Draft]:
        """Mark the prompt that a message of the user sends. If it begins a turn without one, the queue is at an end."""
        text = message.text() if self._entries and part.parent_call is None else ""
        if not text:
            return []
        entry = self._queue.send(self._entries, text, part.origin)
        if entry is not None:
            return [self.mark_sent(entry.draft, message)]
        is_end = begins_turn(text, part.origin)
        return self._settle(list(filter(is_abandoned, self._entries)) if is_end else [])

    def mark_sent(self, draft: Draft, message: Draft) -> Draft:
        self._entries = [entry for entry in self._entries if entry.draft is not draft]
        draft.sent_as = message
        return draft

    def settle(self) -> list[Draft]:
        """Forget all prompts: nothing will send them any more."""
        return self._settle(self._entries)

    def _settle(self, entries: list[_Entry]) -> list[Draft]:
        """Forget prompts that nothing will send any more; retract those that were removed."""
        removed = [entry for entry in entries if entry.phase == "removed"]
        retracted = [self._retract(entry) for entry in removed if not entry.draft.metadata.get("synthetic")]
        self._entries = [entry for entry in self._entries if entry not in entries]
        return retracted

    def _retract(self, entry: _Entry) -> Draft:
        self._entries = [other for other in self._entries if other is not entry]
        entry.draft.metadata["retracted"] = True
        return entry.draft
