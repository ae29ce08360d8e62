"""The records at the beginning of a transcript that it inherited from another session.

Transcripts of Codex number them. In a transcript that Ash wrote to continue a session in another agent, the first
record names that session, and another one follows the last inherited message; in one for OpenCode, the first record
states the ordinal of the first own record instead.
"""

from typing import Any

from ash_shared.model.message import RecordHeader
from ash_shared.records.json_fields import count_at, text_at

_OWN = 1
"""The ordinal of the record after the messages that Ash wrote. These have none."""


def with_continuation(header: RecordHeader, mark: Any) -> RecordHeader:
    """Return the header of a record with a mark of Ash; unchanged without one."""
    origin = text_at(mark, "continues")
    if origin is None:
        return header
    if mark.get("end") is True:
        return header._replace(ordinal=_OWN)
    own = count_at(mark, "ownOrdinal")
    return header._replace(own_ordinal=_OWN if own is None else own, continues=origin)


def next_own_ordinal(own_ordinal: int | None, header: RecordHeader, *, is_first: bool) -> int | None:
    """Return the ordinal of the first own record if this record and perhaps the next ones are inherited, else None.

    `own_ordinal` is the result for the record before. The first record states where the inherited ones end; all records
    from there on are the session's own.
    """
    start = header.own_ordinal if is_first else own_ordinal
    is_own = start is None or (header.ordinal is not None and header.ordinal >= start)
    return None if is_own else start


class InheritedRecords:
    """The place of a reader that passes the inherited records of a session."""

    def __init__(self, own_ordinal: int | None = None, *, is_first: bool = True) -> None:
        """To continue in a session: the last result of `next_own_ordinal`, and whether no record has come yet."""
        self._own_ordinal = own_ordinal
        self._is_first = is_first

    def __bool__(self) -> bool:
        """True if the last record was inherited."""
        return self._own_ordinal is not None

    def follow(self, header: RecordHeader) -> bool:
        """Pass a record, and return True if it describes the session: for its own records, and the first one."""
        is_first, self._is_first = self._is_first, False
        self._own_ordinal = next_own_ordinal(self._own_ordinal, header, is_first=is_first)
        return is_first or not self
