"""The standard messages of a session that is being written, as updates that add up to them."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ash_shared.conversation.drafts import Draft, IdAllocator
from ash_shared.conversation.shadows import find_shadows
from ash_shared.conversation.standard_messages import Fold
from ash_shared.model.blocks import Block
from ash_shared.model.message import StandardMessage

Lines = Iterable[tuple[str | bytes, str | None]]
"""Texts with their sources."""


class Update(NamedTuple):
    """Additions of new lines to the messages of a session."""

    messages: list[StandardMessage]
    """New messages, and under the id of an earlier message the blocks and the usage that it did not have."""
    replaced: list[str]
    """Ids of earlier messages that changed otherwise, which `messages` has whole, or that turned out to be copies."""


@dataclass(slots=True)
class _Sent:
    """The parts of a message that earlier updates contain."""

    id: str
    id_name: str
    """The id is derived from this name. The API's id may follow the first line of a message."""
    blocks: list[Block] = field(default_factory=list)
    usage: Block | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: Block | None = None
    originals: int = 0
    """Number of records; 0 before the first update."""

    def is_start_of(self, draft: Draft, usage: Block | None) -> bool:
        """True if the message has only become longer."""
        same_usage = None in (usage, self.usage) or usage == self.usage
        return (
            self.id_name == draft.id_name() and same_usage and draft.blocks[: len(self.blocks)] == self.blocks
        )


class LiveMessages:
    """Folds the lines of a session, and returns the changes of its messages.

    The lines of a message may repeat and revise its usage, so usage is part of an update only when the message is
    complete. Copies of messages (`shadowOf`) are left out.
    """

    def __init__(self, *, head: Lines = (), before: Lines = (), is_turn_over: bool = False) -> None:
        """`before` has the last lines of the session so far; `head` its first lines, if they are not among them."""
        self._fold = Fold()
        self._ids = IdAllocator()
        self._sent: list[_Sent] = []
        self._waiting = set[int]()
        """Numbers of drafts that may be copies, or may get other usage."""
        self._sent_copies = set[int]()
        """Numbers of copies that wait for their original, which may come in the next turn."""
        self.size = 0
        """Characters of the lines."""
        for raw, source in head:
            self._fold.add_header(raw, source)
        self._add_lines(before)
        for draft in self._take_changed():
            self._record(draft, self._final_usage(draft, is_complete=is_turn_over))

    def add(self, lines: Lines, *, is_turn_over: bool = False) -> Update:
        """Add lines. `is_turn_over`: all messages so far are complete."""
        self._add_lines(lines)
        changed = self._take_changed()
        has_copies = self._sent_copies or any(draft.is_copy or draft.sent_as for draft in changed)
        shadows = find_shadows(self._fold.drafts) if has_copies else {}
        update = Update([], self._take_back(shadows))
        for draft in changed:
            is_complete = is_turn_over or draft.turn < self._fold.turn
            if id(draft) in shadows or (draft.is_copy and self._must_wait(draft, is_complete=is_complete)):
                continue
            self._add_to(update, draft, is_complete=is_complete)
            if draft.is_copy:
                self._sent_copies.add(draft.number)
        return update

    def _take_back(self, shadows: Mapping[int, Draft]) -> list[str]:
        """Return the ids of copies that were sent before their original."""
        sent = [self._fold.drafts[number] for number in sorted(self._sent_copies)]
        self._sent_copies = {
            draft.number for draft in sent if id(draft) not in shadows and draft.turn + 1 >= self._fold.turn
        }
        return [self._sent[draft.number].id for draft in sent if id(draft) in shadows]

    def _add_lines(self, lines: Lines) -> None:
        for raw, source in lines:
            self.size += len(raw)
            self._fold.add(raw, source)
        new = self._fold.drafts[len(self._sent) :]
        self._sent += [_Sent(self._ids.take(draft), draft.id_name()) for draft in new]

    def _take_changed(self) -> list[Draft]:
        numbers = sorted(self._waiting | self._fold.take_changes())
        self._waiting = set()
        return [self._fold.drafts[number] for number in numbers]

    def _must_wait(self, draft: Draft, *, is_complete: bool) -> bool:
        """Return True for a draft that is not complete, which the next update tries again."""
        if not is_complete:
            self._waiting.add(draft.number)
        return not is_complete

    def _final_usage(self, draft: Draft, *, is_complete: bool) -> Block | None:
        """Return the usage of a draft once it cannot change any more; until then the next update tries again."""
        may_change = draft.usage is not None and self._fold.may_change_usage(draft)
        return None if may_change and self._must_wait(draft, is_complete=is_complete) else draft.usage

    def _add_to(self, update: Update, draft: Draft, *, is_complete: bool) -> None:
        usage = self._final_usage(draft, is_complete=is_complete)
        sent = self._sent[draft.number]
        if not sent.is_start_of(draft, usage):
            update.replaced.append(sent.id)
            sent = self._start_over(draft)
        blocks, new_usage = draft.blocks[len(sent.blocks) :], usage if sent.usage is None else None
        has_new_metadata = (draft.metadata, draft.error) != (sent.metadata, sent.error)
        if not sent.originals or blocks or new_usage or has_new_metadata:
            part = copy(draft)
            part.blocks, part.usage = blocks, new_usage
            part.originals = draft.originals[sent.originals :]
            update.messages.append(self._fold.build(sent.id, part))
            self._record(draft, sent.usage or usage)

    def _start_over(self, draft: Draft) -> _Sent:
        sent, name = self._sent[draft.number], draft.id_name()
        id = sent.id if name == sent.id_name else self._ids.take(draft)
        self._sent[draft.number] = _Sent(id, name)
        return self._sent[draft.number]

    def _record(self, draft: Draft, usage: Block | None) -> None:
        header = (list(draft.blocks), usage, dict(draft.metadata), draft.error, len(draft.originals))
        sent = self._sent[draft.number]
        self._sent[draft.number] = _Sent(sent.id, sent.id_name, *header)
