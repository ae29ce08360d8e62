"""Pages of the texts of a session."""

import msgspec

ALL_KINDS = "message,record,chunk"
PAGE_SIZE = 1000


class TextOnPage(msgspec.Struct):
    id: str
    sequence: int
    content: str


class TextPage(msgspec.Struct, rename="camel"):
    """A page of messages with their texts only."""

    messages: list[TextOnPage]
    next_after: int | None = None
    prev_before: int | None = None
