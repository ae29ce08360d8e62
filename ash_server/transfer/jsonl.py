"""Sessions from files, and the same bytes back.

A line's id follows from its session and its number, so importing again changes nothing and continues where a
file has grown. What is stored stays: a line that reads differently now is a problem to report. New lines are only
ever added behind all that are stored, so the order of a session is the order of its file.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.db.messages import NewMessage, append, get_contents, stream_messages
from ash_server.db.sessions import (
    Session,
    SessionFields,
    create_session,
    delete_session,
    get_given,
    get_session,
    is_unterminated,
    session_id_for,
    set_unterminated,
)
from ash_server.errors import SessionNotFound
from ash_server.ingest import line_id, new_message
from ash_server.transfer import opencode
from ash_server.transfer.compressed import text_size
from ash_server.transfer.lines import START, Line, Place, batched, read_file
from ash_server.transfer.parents import Head, read_head
from ash_server.transfer.tally import REWRITTEN, Problem, Tally, text_of

_LOOKED_BEHIND = 200


class Imported(NamedTuple):
    session_id: UUID
    name: str
    head: Head
    tally: Tally


def _ignore(_: int) -> None:
    pass


async def import_file(
    conn: AsyncConnection,
    path: Path,
    name: str,
    *,
    source: str | None = None,
    replace: bool = False,
    advance: Callable[[int], None] = _ignore,
) -> Imported:
    """Into the session of that external id; `advance` is told how many bytes are done. Raises OSError, AshError.

    To replace is to delete and to import anew, in two transactions: if it is interrupted, importing goes on.
    """
    head = read_head(path, source or (opencode.SOURCE if opencode.is_session(path) else None))
    session = await _open_session(conn, head.source, name, replace)
    if opencode.is_session(path):
        tally = await opencode.import_session(conn, session.id, path, source, advance)
    else:
        tally = await _import_lines(conn, session, path, source, advance)
    return Imported(session.id, name, head, tally)


async def export_session(conn: AsyncConnection, session_id: UUID) -> AsyncGenerator[bytes, None]:
    """The bytes of the imported file: each message and a newline, but the last one if the file had none."""
    unterminated = await is_unterminated(conn, session_id)
    newline = b""
    async with aclosing(stream_messages(conn, session_id)) as messages:
        async for message in messages:
            yield newline + message.content.encode()
            newline = b"\n"
    if newline and not unterminated:
        yield newline


async def _import_lines(
    conn: AsyncConnection, session: Session, path: Path, source: str | None, advance: Callable[[int], None]
) -> Tally:
    work = _Import(conn, session.id, path, source, advance)
    start = await work.compare() if session.message_count else START
    if start:
        await work.append_from(start)
    await work.keep_ending()
    return work.tally


class _Import:
    """One way of one file of lines into one session."""

    def __init__(
        self,
        conn: AsyncConnection,
        session_id: UUID,
        path: Path,
        source: str | None,
        advance: Callable[[int], None],
    ) -> None:
        self.tally = Tally()
        self._conn = conn
        self._session_id = session_id
        self._path = path
        self._source = source
        self._advance = advance
        self._last: Line | None = None
        """The last line that is stored; None where it reads differently now."""

    async def compare(self) -> Place | None:
        """Holds the file against what is stored of it; answers where the part begins that is not stored.

        None where a whole document was stored that is another one now, or lines: nothing can be added to it.
        """
        start = end = START
        missing = Tally()  # to be told only if a later line is stored: behind the last one, lines are new
        for batch in batched(read_file(self._path)):
            stored = await self._stored([line.place.number for line in batch])
            for line in batch:
                end = line.end
                if line.place.number not in stored:
                    missing.report(_missing(line))
                    continue
                if missing.counts:
                    self.tally.add(missing)
                    missing = Tally()
                self._hold(line, stored[line.place.number])
                if self._last is None and "\n" in stored[line.place.number]:
                    self._advance(text_size(self._path) - start.offset)
                    return None
                self._advance(end.offset - start.offset)
                start = end
        behind = range(end.number, end.number + _LOOKED_BEHIND)  # some of them may have been refused
        if await self._stored(list(behind)):
            self.tally.report(Problem("changed", *end, "the file ends before a line that is stored"))
            self._last = None
        return start

    async def append_from(self, start: Place) -> None:
        for batch in batched(read_file(self._path, start)):
            if new := list(self._new(batch)):
                places = await append(self._conn, self._session_id, new)
                self.tally.counts.update("new" if place.created else "existing" for place in places)
            self._advance(sum(line.size for line in batch))

    async def keep_ending(self) -> None:
        """Whether the file ends with a newline: not every one does, and an export has to know."""
        if self._last:
            unterminated = not self._last.terminated
            if unterminated != await is_unterminated(self._conn, self._session_id):
                await set_unterminated(self._conn, self._session_id, unterminated)

    async def _stored(self, numbers: list[int]) -> dict[int, str]:
        ids = {line_id(self._session_id, number): number for number in numbers}
        contents = await get_contents(self._conn, self._session_id, list(ids))
        return {ids[id]: content for id, content in contents.items()}

    def _hold(self, line: Line, stored: str) -> None:
        if line.data == stored.encode():
            self.tally.counts["existing"] += 1
            self._last = line
        else:
            self.tally.report(Problem("changed", *line.place, REWRITTEN))
            self._last = None

    def _new(self, batch: list[Line]) -> Iterator[NewMessage]:
        for line in batch:
            text = text_of(line)
            if isinstance(text, Problem):
                self.tally.report(text)
            else:
                self._last = line
                id = line_id(self._session_id, line.place.number)
                yield new_message(self._session_id, text, id=id, source=self._source)


def _missing(line: Line) -> Problem:
    text = text_of(line)
    return text if isinstance(text, Problem) else Problem("changed", *line.place, "was not stored at import")


async def _open_session(conn: AsyncConnection, source: str, name: str, replace: bool) -> Session:
    session = await _find_session(conn, source, name)
    if session is None:
        return (await create_session(conn, source=source, external_id=name)).session
    if not replace:
        return session
    given: SessionFields = {**await get_given(conn, session.id), "source": source, "external_id": name}
    await delete_session(conn, session.id)
    return (await create_session(conn, **given)).session


async def _find_session(conn: AsyncConnection, source: str, name: str) -> Session | None:
    """Also one from when nothing in the file was recognised: of a younger file, or by an older Ash."""
    for each in ("unknown", source):
        try:
            return await get_session(conn, session_id_for(each, name))
        except SessionNotFound:
            continue
    return None
