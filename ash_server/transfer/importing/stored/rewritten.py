"""Lines and documents that a program has rewritten in place, compared with the stored ones.

Claude Code removes lines from its large files: those before the last compaction that no later line needs, and single
answers that were revoked. The other lines keep their text and their order, except for settings, which have no id and
move after the boundary. What was stored stays, and lines that are not stored follow after it.

A document is written as a whole. If it has the provider's id of the stored one, it is stored as another version of it.
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple, TypeAlias

from ash_server.store.message_pages import StoredMessage
from ash_server.transfer.importing.lines import START, FileLine
from ash_server.transfer.importing.parents import MAX_HEAD_LINES
from ash_shared.model.message import Message
from ash_shared.parsing.parsed_text import identify

_Digest: TypeAlias = bytes

_BOUNDARY = '"compact_boundary"'


def has_ids(lines: Iterable[FileLine], source: str | None) -> bool:
    """True if one of the first records has an id of the provider."""
    texts = (line.data or b"" for line in islice(lines, MAX_HEAD_LINES))
    return any(identify(text.decode(errors="replace"), source).record for text in texts)


class _Place(NamedTuple):
    """A stored record with an id of the provider."""

    sequence: int
    text: _Digest


class StoredRecords:
    """The stored records of a session, by the provider's ids or else by their texts."""

    def __init__(self, source: str | None) -> None:
        self._source = source
        self.last_sequence = 0
        self._by_id = defaultdict[str, list[_Place]](list)
        self._last_record: str | None = None
        self._texts = Counter[_Digest]()
        self._deleted: list[int] = []
        """The sequences of deleted messages."""

    def add(self, message: StoredMessage | Message) -> None:
        self.last_sequence = message.sequence
        if message.kind == "deleted":
            self._deleted.append(message.sequence)
            return
        text = message.content or ""
        id = identify(text, self._source).record
        if id is None:
            self._texts[_digest(text.encode())] += 1
        else:
            self._by_id[id].append(_Place(message.sequence, _digest(text.encode())))
            self._last_record = id

    def find_new(self, lines: Iterable[FileLine], *, is_same_path: bool) -> "RewrittenLines | None":
        """Return which lines of a file are new; None if the file is not a later form of the stored text.

        It is one if it has the last stored record, or, at the same path, a compaction after it, and if all records that
        both have are equal and in the same order. At another path, all new lines follow the stored ones: a copy with
        other lines between them is another session.
        """
        new = RewrittenLines()
        texts, last, has_last, has_boundary = self._texts.copy(), 0, False, False
        for line in lines:
            data = line.data or b""
            id = identify(data.decode(errors="replace"), self._source).record
            if id is None:
                digest = _digest(data)
                texts[digest] -= 1
                new.add(line, None if texts[digest] < 0 else 0)
            elif id not in self._by_id:
                has_boundary |= _BOUNDARY in data.decode(errors="replace")
                new.add(line, None)
            else:
                place = self._find(id, _digest(data), after=last)
                if place is None:
                    return None
                has_last |= id == self._last_record
                new.add(line, last := place)
        new.skip_deleted(self._deleted, has_boundary=has_boundary)
        if is_same_path:
            return new if has_last or has_boundary else None
        return new if has_last and not new.has_insertions() else None

    def _find(self, id: str, text: _Digest, *, after: int) -> int | None:
        """Return the sequence of the next record with this id; None if there is none or it has another text."""
        places = (place.sequence for place in self._by_id[id] if place.text == text)
        return next((sequence for sequence in places if sequence > after), None)


class RewrittenLines:
    """The lines of a file, each with the sequence of its stored record, 0 for another stored line, or None if new."""

    def __init__(self) -> None:
        self._sequences = dict[int, int | None]()

    def add(self, line: FileLine, sequence: int | None) -> None:
        self._sequences[line.place.number] = sequence

    def is_new(self, line: FileLine) -> bool:
        return self._sequences.get(line.place.number) is None

    def has_insertions(self) -> bool:
        """True if a new line stands before a stored record."""
        sequences = list(self._sequences.values())
        return None in sequences and any(sequences[sequences.index(None) :])

    def skip_deleted(self, deleted: list[int], *, has_boundary: bool) -> None:
        """Mark lines as stored if their message was deleted: those before the last stored record, which are not new,
        and as many after it as were deleted there, unless a compaction has removed them."""
        records = [(number, sequence) for number, sequence in self._sequences.items() if sequence]
        if not records or not deleted:
            return
        last_number, last_sequence = records[-1]
        at_end = 0 if has_boundary else sum(sequence > last_sequence for sequence in deleted)
        new = [number for number, sequence in self._sequences.items() if sequence is None]
        before = bisect(new, last_number)
        self._sequences.update(dict.fromkeys(new[: before + at_end], 0))


def name_by_text(line: FileLine) -> str:
    """Return a name that no line of the file had before it was rewritten."""
    return f"{line.name}:{_digest(line.data or b'').hex()}"


def is_later_version(line: FileLine, stored: str, source: str | None) -> bool:
    """True if a document has the id of the stored one and another text."""
    data = line.data or b""
    if line.place != START or data == stored.encode():
        return False
    id = identify(data.decode(errors="replace"), source).record
    return id is not None and identify(stored, source).record == id


def _digest(text: bytes) -> _Digest:
    return blake2b(text, digest_size=16).digest()
