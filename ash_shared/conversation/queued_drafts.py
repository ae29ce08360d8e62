"""Queued prompts as messages: each is a copy of the message that later sends it."""

from dataclasses import dataclass

from ash_shared.conversation.drafts import Draft
from ash_shared.records.steps import Part
from ash_shared.relations.prompt_queue import MAX_REMOVED_TEXTS, Phase, PromptQueue, begins_turn, is_abandoned

MAX_QUEUED = 50
"""Queued prompts that are remembered; older ones are never matched with the message that sends them."""


@dataclass(slots=True, eq=False)
class QueuedDraft:
    """A queued prompt."""

    text: str
    draft: Draft
    turn: int
    phase: Phase = "waiting"


class QueuedDrafts:
    """The prompt queue of a session. Methods that return drafts return the changed ones."""

    def __init__(self, queue: PromptQueue) -> None:
        self._queue = queue
        self.entries: list[QueuedDraft] = []
        self._delivered: dict[str, Draft] = {}
        """Messages of prompts delivered without a line, by text."""

    def add(self, draft: Draft) -> None:
        self.entries.append(QueuedDraft(draft.text(), draft, draft.turn))
        del self.entries[:-MAX_QUEUED]

    def taken(self) -> list[Draft]:
        """Return prompts that began a turn although no line sent them."""
        return [entry.draft for entry in self.entries if entry.phase == "taken"]

    def send(self, part: Part, message: Draft) -> list[Draft]:
        """Mark the queued prompt that this user message sends.

        If the message is not queued but begins a turn, prompts queued before are abandoned.
        """
        if part.parent_call is not None or not (self.entries or self._queue.removed_texts):
            return []
        text = message.text()
        if not text:
            return []
        entry = self._queue.send(self.entries, text, part.origin)
        if entry is not None:
            return [self.mark_sent(entry.draft, message)]
        if self._queue.is_repeated(text, part.origin):
            message.sent_as = self._delivered.pop(text, None)
        is_end = begins_turn(text, part.origin)
        return self._abandon(list(filter(is_abandoned, self.entries)) if is_end else [])

    def mark_delivered(self, draft: Draft, message: Draft) -> Draft:
        """Mark a prompt that is delivered without a line; a later line may repeat it."""
        self._delivered[draft.text()] = message
        if len(self._delivered) > MAX_REMOVED_TEXTS:
            del self._delivered[next(iter(self._delivered))]
        return self.mark_sent(draft, message)

    def mark_sent(self, draft: Draft, message: Draft) -> Draft:
        self.entries = [entry for entry in self.entries if entry.draft is not draft]
        draft.sent_as = message
        return draft

    def abandon_all(self) -> list[Draft]:
        """Forget all prompts, because nothing will send them anymore."""
        return self._abandon(self.entries)

    def _abandon(self, entries: list[QueuedDraft]) -> list[Draft]:
        """Forget prompts that nothing will send anymore; retract removed ones."""
        removed = [entry for entry in entries if entry.phase == "removed"]
        retracted = [self.retract(entry) for entry in removed if not entry.draft.metadata.get("synthetic")]
        self.entries = [entry for entry in self.entries if entry not in entries]
        return retracted

    def retract(self, entry: QueuedDraft) -> Draft:
        self.entries = [other for other in self.entries if other is not entry]
        entry.draft.metadata["retracted"] = True
        return entry.draft
