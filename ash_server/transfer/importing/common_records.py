"""Comparison of records: copies and forks begin with the records of their original. Needs no database."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from ash_shared.model.message import Identity


class RecordMarks(NamedTuple):
    """Digests that are equal for a record and its copies."""

    name: bytes
    """Digest of the id of the record, or of its content if it has no id."""
    content: bytes
    """Digest of its id and its content."""


def record_marks(identity: Identity, text: str) -> RecordMarks | None:
    """Return the marks of a record, or None for a header, which is not compared."""
    body = text if identity.body is None else identity.body
    name = f"id {identity.record}" if identity.record else body
    return RecordMarks(hash_text(name), hash_text(f"{name} {body}")) if name else None


class ComparedRecord(NamedTuple):
    """A record to compare."""

    marks: RecordMarks
    sequence: int
    is_message: bool


Id = TypeVar("Id")


def longest_copy(
    records: Sequence[ComparedRecord], others: Mapping[Id, Collection[bytes]]
) -> tuple[Id, int] | None:
    """Return the session that shares the most records at the beginning, and the sequence of the last shared record.

    The first session wins a tie. At least one message must be shared, because unrelated sessions may begin with equal
    headers. Up to the first message, the content must be equal too, because test sessions use ids such as `msg-001`;
    later messages may be edited.
    """
    copied: dict[Id, int] = {}
    begin_equal = dict(others)
    for own, sequence, is_message in records:
        mark = own.name if copied else own.content
        begin_equal = {id: marks for id, marks in begin_equal.items() if mark in marks}
        if not begin_equal:
            break
        copied |= {id: sequence for id in begin_equal if is_message or id in copied}
    original = max(copied, key=copied.__getitem__, default=None)
    return None if original is None else (original, copied[original])


def hash_text(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
