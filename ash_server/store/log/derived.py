"""What the normaliser derives from some messages beside their events."""

from ash_server.store.log.tool_calls import NewFacts
from ash_server.store.usage.answers import AnswerUsages
from ash_shared.eventlog import Normalizer


class Derived:
    """The usage of answers and the facts of some messages."""

    def __init__(self) -> None:
        self.answers = AnswerUsages()
        self.facts = NewFacts()

    def copy(self) -> "Derived":
        copied = Derived()
        copied.answers, copied.facts = self.answers.copy(), self.facts.copy()
        return copied

    def add(self, normalizer: Normalizer, message_sequence: int | None) -> None:
        """Add what the last message, or posted event without a sequence, states."""
        self.answers.add(normalizer.answers, message_sequence)
        self.facts.add(normalizer.facts, message_sequence)
