"""Mark sessions that begin with messages of another session: copies, and forks that copy a chain of messages.

Which of two sessions is the original does not depend on the order in which they are imported if the fork names its
origin; otherwise it is the one that was stored first. All sessions with a name in common are compared anew after each
import of one of them, so the last of several concurrent imports sees them complete.
"""

from contextlib import aclosing
from uuid import UUID

from ash_server.db.transcripts import Copy, Relative
from ash_server.store import Store
from ash_server.transfer.importing.names import record_mark
from ash_shared.reading.read import read_raw


async def mark_copies(store: Store, session_id: UUID) -> None:
    """Mark those of the session and the sessions with a name in common that are copies."""
    relatives = await store.transcripts.list_relatives(session_id)
    while len(relatives) > 1:
        copies = await _find_copies(store, relatives)
        for relative in relatives:
            copy = copies[relative.session_id]
            if copy != _stored_mark(relative):
                await store.transcripts.set_copy(relative.session_id, copy)
        compared = _sizes(relatives)
        relatives = await store.transcripts.list_relatives(session_id)
        if _sizes(relatives) == compared:
            break


def _stored_mark(relative: Relative) -> Copy | None:
    return None if relative.copy_of is None else Copy(relative.copy_of, relative.copied_messages or 0)


def _sizes(relatives: list[Relative]) -> list[tuple[UUID, int]]:
    return [(each.session_id, each.message_count) for each in relatives]


async def _find_copies(store: Store, relatives: list[Relative]) -> dict[UUID, Copy | None]:
    """Compare each session with those before it."""
    marks: dict[UUID, set[bytes]] = {}
    copies: dict[UUID, Copy | None] = {}
    for relative in relatives:
        comparison = _Comparison(marks)
        source = None if relative.source == "unknown" else relative.source
        async with aclosing(store.messages.stream_messages(relative.session_id)) as messages:
            async for message in messages:
                mark = record_mark(read_raw(message.content, source).identity(), message.content)
                if mark is not None:
                    comparison.add(mark, message.sequence, is_message=message.kind == "message")
        copies[relative.session_id] = comparison.longest()
        marks[relative.session_id] = comparison.marks
    return copies


class _Comparison:
    """Counts the messages at the beginning of a session that are in each of several others."""

    def __init__(self, others: dict[UUID, set[bytes]]) -> None:
        self.marks: set[bytes] = set()
        self._others = others
        self._begin_equal = dict.fromkeys(others)
        self._copied: dict[UUID, int] = {}
        """The sequence of the last copied record, of sessions with a message among the copied records."""

    def add(self, mark: bytes, sequence: int, *, is_message: bool) -> None:
        self.marks.add(mark)
        self._begin_equal = {id: None for id in self._begin_equal if mark in self._others[id]}
        for id in self._begin_equal:
            if is_message or id in self._copied:
                self._copied[id] = sequence

    def longest(self) -> Copy | None:
        """Return the most copied messages; of equal numbers, those of the first session."""
        if not self._copied:
            return None
        original = max(self._copied, key=self._copied.__getitem__)
        return Copy(original, self._copied[original])
