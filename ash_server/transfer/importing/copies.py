"""Mark sessions that begin with messages of another session: copies, and forks that copy a chain of messages.

Of two sessions with the same beginning, the one that names fewer origins is the original, else the one that began
first, else the one that was stored first. After each import, the session and all sessions with a name in common are
compared again, so that the last of several concurrent imports compares complete sessions.
"""

from contextlib import aclosing
from datetime import datetime
from typing import NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

from ash_server.errors import SessionChanged
from ash_server.store import Store
from ash_server.store.transcripts import Copy, Relative
from ash_server.transfer.importing.common_records import ComparedRecord, longest_copy, record_marks
from ash_shared.model.message import declared_source
from ash_shared.parsing.parsed_text import identify

MAX_CACHED_RECORDS = 250_000
"""Records of sessions with relatives that are kept in memory, at about 400 bytes each."""


async def mark_copies(store: Store, session_id: UUID) -> None:
    """Find the copies among the session and its relatives, the sessions with a common name, and mark them."""
    compared: list[tuple[UUID, int]] | None = None
    relatives = await store.transcripts.list_relatives(session_id)
    while len(relatives) > 1 and _sizes(relatives) != compared:
        compared = _sizes(relatives)
        try:
            for relative, copy in zip(relatives, await _find_copies(store, relatives), strict=True):
                if copy != _stored_mark(relative) and not _is_inherited(relative):
                    await store.transcripts.set_copy(relative.session_id, copy)
        except SessionChanged:  # deleted or replaced
            compared = None
        relatives = await store.transcripts.list_relatives(session_id)


def _stored_mark(relative: Relative) -> Copy | None:
    return None if relative.copy_of is None else Copy(relative.copy_of, relative.copied_messages or 0)


def _is_inherited(relative: Relative) -> bool:
    """True if the transcript itself states which messages are not its own."""
    return relative.copy_of is None and relative.copied_messages is not None


def _sizes(relatives: list[Relative]) -> list[tuple[UUID, int]]:
    return [(each.session_id, each.message_count) for each in relatives]


class _Records(NamedTuple):
    """The records of a session that are compared, up to its last message at some time."""

    created_at: datetime
    message_count: int
    records: list[ComparedRecord]
    marks: set[bytes]


_caches: WeakKeyDictionary[Store, dict[UUID, _Records]] = WeakKeyDictionary()
"""The records of the last sessions: an import of many forks compares each with all others."""


async def _find_copies(store: Store, relatives: list[Relative]) -> list[Copy | None]:
    """Compare each session with those before it."""
    earlier: dict[UUID, set[bytes]] = {}
    copies: list[Copy | None] = []
    for relative in relatives:
        read = await _read_records(store, relative)
        copy = longest_copy(read.records, earlier)
        copies.append(None if copy is None else Copy(*copy))
        earlier[relative.session_id] = read.marks
    return copies


async def _read_records(store: Store, relative: Relative) -> _Records:
    """Return the records of a session; those that were read before are taken from the cache."""
    cache = _caches.setdefault(store, {})
    known = cache.pop(relative.session_id, None)
    if known is None or known.created_at != relative.created_at:
        known = _Records(relative.created_at, 0, [], set())
    records, marks, last = known.records, known.marks, known.message_count
    if relative.message_count > last:
        source = declared_source(relative.source)
        async with aclosing(store.messages.stream_messages(relative.session_id, after=last)) as messages:
            async for message in messages:
                last = message.sequence
                each = record_marks(identify(message.content, source), message.content)
                if each is not None:
                    records.append(ComparedRecord(each, last, message.kind == "message"))
                    marks |= {*each}
    if sum(len(each.records) for each in cache.values()) > MAX_CACHED_RECORDS:
        cache.clear()
    cache[relative.session_id] = read = _Records(relative.created_at, last, records, marks)
    return read
