"""The conversation of a stored session as standard messages, a page at a time.

First the store is asked, then what it gave is put together: the one takes a connection, the other the time.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.db.messages import StoredMessage, list_lines
from ash_server.db.sessions import get_session
from ash_shared.message import StandardMessage
from ash_shared.standard import transform_page

_HEAD = 20
"""So many first lines tell which session it is, and which client wrote it."""


class Lines(NamedTuple):
    """Stored messages that are to be read together."""

    head: list[StoredMessage]
    """The first of the session, where they lie ahead of these."""
    lines: list[StoredMessage]
    more: bool
    """Whether anything is stored behind them."""


class Conversation(NamedTuple):
    """A page of it: whole turns, where they are not longer than that."""

    messages: list[StandardMessage]
    next_after: int | None
    """The sequence behind which the next page begins; None where nothing more is stored."""


async def get_lines(conn: AsyncConnection, session_id: UUID, *, after: int, limit: int) -> Lines:
    """Raises SessionNotFound."""
    last = (await get_session(conn, session_id)).message_count
    lines = await list_lines(conn, session_id, after=after, limit=limit)
    first = await list_lines(conn, session_id, limit=_HEAD) if lines and after else []
    head = [each for each in first if each.sequence <= after]
    return Lines(head, lines, bool(lines) and lines[-1].sequence < last)


def to_conversation(read: Lines) -> Conversation:
    made = transform_page(_texts(read.lines), head=_texts(read.head), more=read.more)
    return Conversation(made.messages, read.lines[made.lines - 1].sequence if read.more else None)


def _texts(stored: Sequence[StoredMessage]) -> list[tuple[str, str | None]]:
    return [(each.content, None if each.source == "unknown" else each.source) for each in stored]
