"""Import of one transcript file into a session; `exporting.jsonl` returns the same bytes.

A line's id is derived from its session and its number, so importing a file again stores only the lines added since.
Stored lines are never changed: a line that differs from the stored one is reported as a problem. New lines are only
appended after all stored lines, so the order of a session is the order of its file. A last line that is still being
written is left for the next import. In a session spread over many files, each file is one line with an id derived from
its path; new files are added at the end of the session, even if their paths sort before stored ones.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from ash_server.db.messages import PreparedMessage
from ash_server.db.session_facts import to_milliseconds
from ash_server.db.sessions import Session, session_id_for
from ash_server.errors import SessionNotFound
from ash_server.ingest import line_id, prepare_message
from ash_server.store import Store
from ash_server.transfer.importing.compressed import text_size
from ash_server.transfer.importing.lines import (
    START,
    FileLine,
    LineStart,
    batched,
    may_be_unfinished,
    read_file,
)
from ash_server.transfer.importing.parents import TranscriptHead, read_head
from ash_server.transfer.importing.result import ImportResult, LineProblem, decode_line
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import modification_time, uncompressed

_LOOKAHEAD_LINES = 200
"""Line numbers after the end of a file to look up in the store, to detect that the file has become shorter."""

_YIELD_EVERY = 16
"""Lines parsed between two yields to the event loop."""

_RECENTLY_WRITTEN_SECONDS = 600
"""A file modified within this time may still be growing."""


class ImportedFile(NamedTuple):
    session_id: UUID
    name: str
    head: TranscriptHead
    result: ImportResult
    has_session: bool = True
    """False if the file has nothing to store and there is no session of it."""


class _Batch(NamedTuple):
    messages: list[PreparedMessage]
    size: int
    """In bytes of the file."""


def _ignore(_: int) -> None:
    pass


async def import_file(
    store: Store,
    path: Path,
    name: str,
    *,
    source: str | None = None,
    replace: bool = False,
    advance: Callable[[int], None] = _ignore,
) -> ImportedFile:
    """Import into the session with external id `name`.

    `advance` is called with the number of bytes processed since its last call. `replace` first replaces the session by
    an empty one; the import follows in other transactions, so after an interruption the next import continues. Raises
    OSError, AshError.
    """
    transcript = open_transcript(path)
    source = source or transcript.source
    head = read_head(transcript.lines(), source)
    session = await _find_session(store, head.source, name)
    if session is None and (nothing := _result_without_lines(path, transcript.lines())):
        advance(text_size(path))
        return ImportedFile(session_id_for(head.source, name), name, head, nothing, has_session=False)
    session = await _open_session(store, session, head.source, name, replace)
    modified_at = modification_time(path)
    await store.sessions.set_file_time(session.id, modified_at, has_grown=False)
    file_import = _FileImport(store, session.id, source, modified_at, advance)
    if transcript.in_many_files:
        await file_import.add_files(transcript.lines())
    else:
        await file_import.add_lines(path, is_new=not session.message_count)
    if file_import.result.counts["new"]:
        await store.sessions.set_file_time(session.id, modified_at, has_grown=True)
    return ImportedFile(session.id, name, head, file_import.result)


class _FileImport:
    """The import of one transcript into one session."""

    def __init__(
        self,
        store: Store,
        session_id: UUID,
        source: str | None,
        modified_at: datetime,
        advance: Callable[[int], None],
    ) -> None:
        self.result = ImportResult()
        self._store = store
        self._session_id = session_id
        self._source = source
        self._now = to_milliseconds(modified_at)
        self._advance = advance
        self._last_line: FileLine | None = None
        """The last line of the session; None if its stored text differs from the file."""

    async def add_lines(self, path: Path, *, is_new: bool) -> None:
        """Append the lines of a file that follow the stored ones."""
        start = START if is_new else await self._compare_stored(path)
        if start:
            await self._append_lines(path, start)
        await self._store_last_newline()

    async def add_files(self, files: Iterable[FileLine]) -> None:
        """Append files that are not stored, and compare stored files with their stored text."""
        for batch in batched(files):
            stored = await self._get_stored(file.name for file in batch)
            messages = [message async for message in self._parse(self._skip_stored(batch, stored))]
            await self._append(_Batch(messages, sum(file.size for file in batch)))

    async def _append_lines(self, path: Path, start: LineStart) -> None:
        """Parse each batch while PostgreSQL writes the previous one.

        Both run on one thread: the stack of another might be too small for deeply nested JSON.
        """
        batches = batched(read_file(path, start))
        reading = asyncio.create_task(self._next_batch(path, batches))
        try:
            while batch := await reading:
                reading = asyncio.create_task(self._next_batch(path, batches))
                await self._append(batch)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _next_batch(self, path: Path, batches: Iterator[list[FileLine]]) -> _Batch | None:
        lines = next(batches, None)
        if lines is None:
            return None
        messages = [message async for message in self._parse(self._skip_incomplete(path, lines))]
        return _Batch(messages, sum(line.size for line in lines))

    async def _compare_stored(self, path: Path) -> LineStart | None:
        """Compare the file with its stored lines and return the place after the last stored one.

        None if the whole file was stored as one document and has changed: nothing can be appended to a document.
        """
        start = end = START
        # The lines after the last stored one. If another stored line follows, they are missing in the store, else new.
        missing = ImportResult()
        for batch in batched(read_file(path)):
            stored = await self._get_stored(line.name for line in batch)
            for line in batch:
                end = line.end
                if line.name not in stored:
                    missing.add_problem(_missing_problem(line))
                    continue
                if missing.counts:
                    self.result.add(missing)
                    missing = ImportResult()
                self._compare_line(line, stored[line.name])
                if self._last_line is None and "\n" in stored[line.name]:
                    self._advance(text_size(path) - start.offset)
                    return None
                self._advance(end.offset - start.offset)
                start = end
        # Several lines, because the next ones may have been refused.
        lookahead = range(end.number, end.number + _LOOKAHEAD_LINES)
        if await self._get_stored(map(str, lookahead)):
            self.result.add_problem(LineProblem("changed", *end, "the file ends before a stored line"))
            self._last_line = None
        return start

    async def _append(self, batch: _Batch) -> None:
        if batch.messages:
            appended = await self._store.messages.append_prepared(
                self._session_id, batch.messages, now=self._now
            )
            self.result.counts.update("new" if entry.created else "existing" for entry in appended)
        self._advance(batch.size)

    async def _store_last_newline(self) -> None:
        """Store whether the file ends with a newline, for the export."""
        if self._last_line:
            unterminated = not self._last_line.terminated
            if unterminated != await self._store.sessions.is_unterminated(self._session_id):
                await self._store.sessions.set_unterminated(self._session_id, unterminated)

    async def _get_stored(self, names: Iterable[str]) -> dict[str, str]:
        """Return the stored texts of the named lines, by name."""
        ids = {line_id(self._session_id, name): name for name in names}
        contents = await self._store.messages.get_contents(self._session_id, list(ids))
        return {ids[id]: content for id, content in contents.items()}

    def _compare_line(self, line: FileLine, stored: str) -> None:
        if line.data == stored.encode():
            self.result.counts["existing"] += 1
            self._last_line = line
        else:
            self.result.add_problem(_changed_problem(line, "differs from the imported text"))
            self._last_line = None

    def _skip_stored(self, batch: Iterable[FileLine], stored: Mapping[str, str]) -> Iterator[FileLine]:
        """Compare the stored files and yield the others. A file occurs twice if two messages have the same id."""
        for line in {line.name: line for line in batch}.values():
            if line.name in stored:
                self._compare_line(line, stored[line.name])
            else:
                yield line

    def _skip_incomplete(self, path: Path, lines: Iterable[FileLine]) -> Iterator[FileLine]:
        """Skip a last line that is still being written."""
        for line in lines:
            if may_be_unfinished(line) and _is_being_written(path):
                self.result.counts["incomplete"] += 1
            else:
                yield line

    async def _parse(self, lines: Iterable[FileLine]) -> AsyncGenerator[PreparedMessage, None]:
        for count, line in enumerate(lines, 1):
            if not count % _YIELD_EVERY:
                await asyncio.sleep(0)
            text = decode_line(line)
            if isinstance(text, LineProblem):
                self.result.add_problem(text)
            else:
                self._last_line = line
                id = line_id(self._session_id, line.name)
                yield prepare_message(self._session_id, text, id=id, source=self._source)


def _result_without_lines(path: Path, lines: Iterable[FileLine]) -> ImportResult | None:
    """Return the result of a file that is empty or has only an incomplete line; None for other files."""
    line = next(iter(lines), None)
    if line is None:
        return ImportResult()
    if may_be_unfinished(line) and _is_being_written(path):
        return ImportResult(Counter({"incomplete": 1}))
    return None


def _is_being_written(path: Path) -> bool:
    """True for a recently modified JSONL file: any other file is one document, which is written at once.

    The age may be negative, because the clock of a file server may differ.
    """
    age = time.time() - path.stat().st_mtime
    return uncompressed(path).suffix == ".jsonl" and abs(age) < _RECENTLY_WRITTEN_SECONDS


def _missing_problem(line: FileLine) -> LineProblem:
    text = decode_line(line)
    return text if isinstance(text, LineProblem) else _changed_problem(line, "was not stored at import")


def _changed_problem(line: FileLine, reason: str) -> LineProblem:
    return LineProblem("changed", *line.place, reason, line.file)


async def _open_session(
    store: Store, session: Session | None, source: str, name: str, replace: bool
) -> Session:
    if session is None:
        return await store.sessions.create(source=source, external_id=name)
    if not replace:
        return session
    return await store.sessions.recreate(session.id, source=source, external_id=name)


async def _find_session(store: Store, source: str, name: str) -> Session | None:
    """Find the session, first with the source `unknown`: an earlier import may not have recognised the format."""
    for stored_source in ("unknown", source):
        try:
            return await store.sessions.get(session_id_for(stored_source, name))
        except SessionNotFound:
            continue
    return None
