"""Sessions from files, and the same bytes back.

A line's id follows from its session and its number, so importing again changes nothing and continues where a
file has grown. What is stored stays: a line that reads differently now is a problem to report. New lines are only
ever added behind all that are stored, so the order of a session is the order of its file.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.db.messages import NewMessage, append, get_contents, stream_messages
from ash_server.db.sessions import (
    Session,
    create_session,
    delete_session,
    get_session,
    is_unterminated,
    session_id_for,
    set_unterminated,
)
from ash_server.errors import SessionNotFound
from ash_server.ingest import line_id, new_message
from ash_server.transfer.lines import LONGEST_LINE, START, Line, Place, batched, read_file
from ash_shared.parse import describe_message

MOST_PROBLEMS = 100
"""So many of a file are told one by one; all are counted."""

_LOOKED_BEHIND = 200
_HEAD_LINES = 100
"""So many lines may tell the format of a file: a number that does not change while the file grows."""


class Problem(NamedTuple):
    """A line of the file that is not in the store, or not as it reads now."""

    kind: Literal["changed", "refused"]
    line: int
    offset: int
    """In bytes: where the line begins, or the byte that cannot be stored."""
    reason: str


@dataclass
class Tally:
    """What became of the lines of a file."""

    counts: Counter[Literal["new", "existing", "changed", "refused"]] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    """The first MOST_PROBLEMS of them."""

    def report(self, problem: Problem) -> None:
        self.counts[problem.kind] += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def add(self, other: "Tally") -> None:
        self.counts.update(other.counts)
        self.problems += other.problems[: MOST_PROBLEMS - len(self.problems)]


class Imported(NamedTuple):
    session_id: UUID
    name: str
    source: str
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
    known = source or _recognise(path)
    session = await _open_session(conn, known, name, replace)
    work = _Import(conn, session.id, path, source, advance)
    start = await work.compare() if session.message_count else START
    if start:
        await work.append_from(start)
    await work.keep_ending()
    return Imported(session.id, name, known, work.tally)


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


class _Import:
    """One way of one file into one session."""

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
                    self._advance(self._path.stat().st_size - start.offset)
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
            self.tally.report(Problem("changed", *line.place, "reads differently than when it was imported"))
            self._last = None

    def _new(self, batch: list[Line]) -> Iterator[NewMessage]:
        for line in batch:
            text = _text(line)
            if isinstance(text, Problem):
                self.tally.report(text)
            else:
                self._last = line
                id = line_id(self._session_id, line.place.number)
                yield new_message(self._session_id, text, id=id, source=self._source)


def _missing(line: Line) -> Problem:
    text = _text(line)
    return text if isinstance(text, Problem) else Problem("changed", *line.place, "was not stored at import")


def _text(line: Line) -> str | Problem:
    """The text of a line, or why PostgreSQL cannot keep it."""
    number, offset = line.place
    if line.data is None:
        return Problem("refused", number, offset, f"longer than {LONGEST_LINE} bytes")
    if (nul := line.data.find(b"\0")) >= 0:
        return Problem("refused", number, offset + nul, "holds a NUL byte, which PostgreSQL cannot keep")
    try:
        return line.data.decode()
    except UnicodeDecodeError as error:
        return Problem("refused", number, offset + error.start, "is not valid UTF-8")


def _recognise(path: Path) -> str:
    """The source of the first line that shows one, among the first lines."""
    texts = (line.data for line in islice(read_file(path), _HEAD_LINES) if line.data is not None)
    sources = (describe_message(text).source for text in texts)
    return next((source for source in sources if source != "unknown"), "unknown")


async def _open_session(conn: AsyncConnection, source: str, name: str, replace: bool) -> Session:
    session = await _find_session(conn, source, name)
    if session is None:
        return (await create_session(conn, source=source, external_id=name)).session
    if not replace:
        return session
    kept = session.model_dump(include={"id", "parent_id", "title", "metadata"}, by_alias=False)
    await delete_session(conn, session.id)
    return (await create_session(conn, **kept, source=source, external_id=name)).session


async def _find_session(conn: AsyncConnection, source: str, name: str) -> Session | None:
    """Also one from when nothing in the file was recognised: of a younger file, or by an older Ash."""
    for each in ("unknown", source):
        try:
            return await get_session(conn, session_id_for(each, name))
        except SessionNotFound:
            continue
    return None
