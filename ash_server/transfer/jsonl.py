"""Sessions from files, and the same bytes back.

A line's id follows from its session and its number, so importing again changes nothing and continues where a
file has grown. What is stored stays: a line that reads differently now is a problem to report. New lines are only
ever added behind all that are stored, so the order of a session is the order of its file. A last line that somebody is
still writing is left for the next time, since what is stored stays as it is. Of a session that is kept
in many files each file is a line, whose id follows from its path: new ones are added whatever they lie between.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.db.events import stream_events
from ash_server.db.messages import PreparedMessage, append, get_contents, stream_messages
from ash_server.db.notify import notify
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
from ash_server.ingest import line_id, prepare_message
from ash_server.transfer.importing.compressed import text_size
from ash_server.transfer.importing.lines import START, Line, Place, batched, may_be_unfinished, read_file
from ash_server.transfer.importing.parents import Head, read_head
from ash_server.transfer.importing.report import Problem, Tally, text_of
from ash_server.transfer.importing.transcript_files import uncompressed
from ash_server.transfer.load import transcript_at

_LOOKED_BEHIND = 200

_READ_AT_ONCE = 16
"""Lines that are read and described before whoever waits has a turn."""

_STILL_WRITTEN = 600
"""Seconds: a file that was modified within them may be in the middle of being written."""


Export = Callable[[AsyncConnection, UUID], AsyncGenerator[bytes, None]]


class _Batch(NamedTuple):
    messages: list[PreparedMessage]
    size: int
    """In bytes of the file."""


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
    transcript = transcript_at(path)
    source = source or transcript.source
    head = read_head(transcript.texts(), source)
    session = await _open_session(conn, head.source, name, replace)
    work = _Import(conn, session.id, source, advance)
    if transcript.in_many_files:
        await work.add_files(transcript.texts())
    else:
        await work.go_on(path, is_new=not session.message_count)
    if work.tally.counts["new"]:
        await notify(conn, [session.id])
    return Imported(session.id, name, head, work.tally)


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


async def export_events(conn: AsyncConnection, session_id: UUID) -> AsyncGenerator[bytes, None]:
    """One event on each line, without its sequences. Raises SessionNotFound."""
    await get_session(conn, session_id)
    async with aclosing(stream_events(conn, session_id)) as events:
        async for event in events:
            yield f"{event.content}\n".encode()


class Form(NamedTuple):
    """What a session can be written as."""

    suffix: str
    pieces: Export


FORMS: Mapping[str, Form] = {
    "jsonl": Form(".jsonl", export_session),
    "events": Form(".events.jsonl", export_events),
}


class _Import:
    """One way of one transcript into one session."""

    def __init__(
        self, conn: AsyncConnection, session_id: UUID, source: str | None, advance: Callable[[int], None]
    ) -> None:
        self.tally = Tally()
        self._conn = conn
        self._session_id = session_id
        self._source = source
        self._advance = advance
        self._last: Line | None = None
        """The last line that is stored; None where it reads differently now."""

    async def go_on(self, path: Path, *, is_new: bool) -> None:
        """Stores the lines of a file behind those that are stored already."""
        start = START if is_new else await self._compare(path)
        if start:
            await self._read_ahead(path, start)
        await self._keep_ending()

    async def add_files(self, files: Iterable[Line]) -> None:
        """Stores those that are not stored; the others are held against what is."""
        for batch in batched(files):
            stored = await self._stored(file.name for file in batch)
            new = [message async for message in self._new(self._unstored(batch, stored))]
            await self._append(_Batch(new, sum(file.size for file in batch)))

    async def _read_ahead(self, path: Path, start: Place) -> None:
        """Each batch is read and described while PostgreSQL writes the one before, in turns on one thread: the stack
        of another might be too small for what is nested deep."""
        batches = batched(read_file(path, start))
        reading = asyncio.create_task(self._next(path, batches))
        try:
            while batch := await reading:
                reading = asyncio.create_task(self._next(path, batches))
                await self._append(batch)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _next(self, path: Path, batches: Iterator[list[Line]]) -> _Batch | None:
        lines = next(batches, None)
        if lines is None:
            return None
        new = [message async for message in self._new(self._settled(path, lines))]
        return _Batch(new, sum(line.size for line in lines))

    async def _compare(self, path: Path) -> Place | None:
        """Holds the file against what is stored of it; answers where the part begins that is not stored.

        None where a whole document was stored that is another one now, or lines: nothing can be added to it.
        """
        start = end = START
        missing = Tally()  # to be told only if a later line is stored: behind the last one, lines are new
        for batch in batched(read_file(path)):
            stored = await self._stored(line.name for line in batch)
            for line in batch:
                end = line.end
                if line.name not in stored:
                    missing.report(_missing(line))
                    continue
                if missing.counts:
                    self.tally.add(missing)
                    missing = Tally()
                self._hold(line, stored[line.name])
                if self._last is None and "\n" in stored[line.name]:
                    self._advance(text_size(path) - start.offset)
                    return None
                self._advance(end.offset - start.offset)
                start = end
        behind = range(end.number, end.number + _LOOKED_BEHIND)  # some of them may have been refused
        if await self._stored(map(str, behind)):
            self.tally.report(Problem("changed", *end, "the file ends before a line that is stored"))
            self._last = None
        return start

    async def _append(self, batch: _Batch) -> None:
        if batch.messages:
            places = await append(self._conn, self._session_id, batch.messages)
            self.tally.counts.update("new" if place.created else "existing" for place in places)
        self._advance(batch.size)

    async def _keep_ending(self) -> None:
        """Whether the file ends with a newline: not every one does, and an export has to know."""
        if self._last:
            unterminated = not self._last.terminated
            if unterminated != await is_unterminated(self._conn, self._session_id):
                await set_unterminated(self._conn, self._session_id, unterminated)

    async def _stored(self, names: Iterable[str]) -> dict[str, str]:
        """What is stored of these lines, by their names."""
        ids = {line_id(self._session_id, name): name for name in names}
        contents = await get_contents(self._conn, self._session_id, list(ids))
        return {ids[id]: content for id, content in contents.items()}

    def _hold(self, line: Line, stored: str) -> None:
        if line.data == stored.encode():
            self.tally.counts["existing"] += 1
            self._last = line
        else:
            self.tally.report(_changed(line, "reads differently than when it was imported"))
            self._last = None

    def _unstored(self, batch: Iterable[Line], stored: Mapping[str, str]) -> Iterator[Line]:
        """Each file once, although two messages of one id name the same parts."""
        for line in {line.name: line for line in batch}.values():
            if line.name in stored:
                self._hold(line, stored[line.name])
            else:
                yield line

    def _settled(self, path: Path, lines: Iterable[Line]) -> Iterator[Line]:
        """All but a last one that is being written."""
        for line in lines:
            if may_be_unfinished(line) and _is_being_written(path):
                self.tally.counts["incomplete"] += 1
            else:
                yield line

    async def _new(self, lines: Iterable[Line]) -> AsyncGenerator[PreparedMessage, None]:
        for number, line in enumerate(lines, 1):
            if not number % _READ_AT_ONCE:
                await asyncio.sleep(0)
            text = text_of(line)
            if isinstance(text, Problem):
                self.tally.report(text)
            else:
                self._last = line
                id = line_id(self._session_id, line.name)
                yield prepare_message(self._session_id, text, id=id, source=self._source)


def _is_being_written(path: Path) -> bool:
    """Told by its age, either way: clocks differ. A file that is one document is written in one go."""
    age = time.time() - path.stat().st_mtime
    return uncompressed(path).suffix == ".jsonl" and abs(age) < _STILL_WRITTEN


def _missing(line: Line) -> Problem:
    text = text_of(line)
    return text if isinstance(text, Problem) else _changed(line, "was not stored at import")


def _changed(line: Line, reason: str) -> Problem:
    return Problem("changed", *line.place, reason, line.file)


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
