"""Records of a transcript that a program has stored one by one, compared with the lines of its file.

The program writes each record again, so texts differ from the lines. The provider's id of a record identifies it; a
record without one is identified by its JSON value, and occurs as often as it is stored.
"""

import json
from collections import Counter
from typing import Literal, TypeAlias

from ash_server.store.message_pages import StoredMessage
from ash_shared.model.message import RECORD_ID_PREFIX, Message, record_message_id
from ash_shared.parsing.parsed_text import identify

_Stored: TypeAlias = Literal["existing", "deleted"]


class MirroredRecords:
    """The stored records of a session."""

    def __init__(self, source: str | None) -> None:
        self._source = source
        self.last_sequence = 0
        self._ids = dict[str, _Stored]()
        self._values = Counter[str]()
        self._named = set[str]()

    def add(self, message: StoredMessage | Message) -> None:
        self.last_sequence = message.sequence
        text = message.content or ""
        if message.id.startswith(RECORD_ID_PREFIX):
            self._ids[message.id.removeprefix(RECORD_ID_PREFIX)] = "existing"
        if message.kind == "deleted":
            self._ids[message.id.removeprefix(RECORD_ID_PREFIX)] = "deleted"
        elif id := identify(text, self._source).record:
            self._ids[id] = "existing"
        else:
            self._values[_value(text)] += 1

    def has_id(self, line: bytes) -> bool:
        """True if a line has the id of a stored record."""
        return identify(_decode(line), self._source).record in self._ids

    def take(self, line: bytes) -> _Stored | None:
        """Return the outcome of a line; None if it is not stored. Equal lines without an id need a record each."""
        text = _decode(line)
        if id := identify(text, self._source).record:
            return self._ids.get(id)
        value = _value(text)
        self._values[value] -= 1
        return "existing" if self._values[value] >= 0 else None

    def name_new(self, text: str) -> str | None:
        """Return the message id of a new line: the program would store its record with the same one.

        None if the record has no id, or an earlier line has it too.
        """
        id = record_message_id(identify(text, self._source).record)
        if id is None or id in self._named:
            return None
        self._named.add(id)
        return id


def _decode(line: bytes) -> str:
    return line.decode(errors="replace")


def _value(text: str) -> str:
    """Return the JSON value of a text in one spelling; the text itself if it is none."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text
