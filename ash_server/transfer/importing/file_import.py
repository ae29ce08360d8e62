"""Import a transcript file into a session; `exporting.jsonl` returns the same bytes.

A line's id is derived from its session and its number, so importing a file again stores only the lines added since.
Stored lines are never changed, and deleted ones not stored again: a line that differs from the stored one is reported
as a problem, or shows that the file belongs to another session (`identity`). New lines are only appended after all
stored lines, so the order of a session is the order of its file. Lines that a program removes from its file stay
stored, and the remaining ones are recognised by the ids of their records (`rewritten`). A last line that is still being
written is left for the next import. In a session spread over many files, each file is one line with an id derived from
its path; new files are added at the end of the session, even if their paths sort before stored ones.

`FileImport` compares and appends through a `SessionTarget`: a session in a local store, or on a server (`pushing`).
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, get_args
from uuid import UUID

from ash_client.machine import machine_name
from ash_server.errors import IdConflict, ScopeMissing, SequenceMismatch, SessionNotFound
from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.store import Store
from ash_server.store.log.events import Appended
from ash_server.store.message_pages import StoredMessage
from ash_server.store.prepare import PreparedMessage, line_id, prepare_message
from ash_server.store.session_facts import to_milliseconds
from ash_server.store.sessions import Creator, session_id_for
from ash_server.store.transcripts import Claim, TranscriptNames
from ash_server.transfer.importing.compressed import text_size
from ash_server.transfer.importing.copies import mark_copies
from ash_server.transfer.importing.databases.opencode_rows import RowLine, batched_rows, without_ids
from ash_server.transfer.importing.identity import SessionSearch, TextDiffers
from ash_server.transfer.importing.lines import (
    RECENTLY_WRITTEN_SECONDS,
    START,
    FileLine,
    LineStart,
    batched,
    may_be_unfinished,
    read_file,
    starts_like_json,
)
from ash_server.transfer.importing.parents import TranscriptHead, line_bytes, read_head
from ash_server.transfer.importing.result import ImportOutcome, ImportResult, LineProblem, decode_line
from ash_server.transfer.importing.stored.file_state import FileState, repeat_if_changed
from ash_server.transfer.importing.stored.mirrored import MirroredRecords
from ash_server.transfer.importing.stored.rewritten import (
    RewrittenLines,
    StoredRecords,
    has_ids,
    is_later_version,
    name_by_text,
)
from ash_server.transfer.importing.transcript import (
    EmbeddedTranscript,
    Transcript,
    embedded_transcripts,
    open_transcript,
)
from ash_server.transfer.importing.transcript_files import uncompressed
from ash_shared.model.message import Message, StoredKind
from ash_shared.model.pages import AppendedMessage
from ash_shared.model.session import Session

_LOOKAHEAD_LINES = 200
"""Line numbers after the end of a file to look up in the store, to detect that the file has become shorter."""

_YIELD_EVERY = 16
"""Lines parsed between two yields to the event loop."""


class ImportedFile(NamedTuple):
    session_id: UUID
    name: str
    head: TranscriptHead
    result: ImportResult
    has_session: bool = True
    """False if the file has nothing to store and no session yet, or only prompts of a transcript that is stored."""
    embedded: tuple["ImportedFile", ...] = ()
    """The sessions of subagents that the file contains."""
    stored_bytes: int = 0
    """Bytes of the file that were read and need not be read again."""

    def sessions(self) -> Iterator["ImportedFile"]:
        """Yield the session of the file and the sessions of its subagents."""
        yield from (self, *self.embedded) if self.has_session else ()


class _Batch(NamedTuple):
    messages: list[Any]
    size: int
    """In bytes of the file."""


def _ignore(_: int) -> None:
    pass


def _no_id(_: str) -> None:
    pass


async def import_file(  # noqa: PLR0913  # one argument per option
    store: Store,
    path: Path,
    name: str,
    *,
    source: str | None = None,
    replace: bool = False,
    identify: bool = False,
    access: FileAccess = ANY_FILE,
    advance: Callable[[int], None] = _ignore,
) -> ImportedFile:
    """Import into the session with external id `name`.

    With `identify`, a transcript with a session id of its provider is imported into the session with the same text,
    even if that was imported from elsewhere. If there is none, `name` is the external id of a new session.

    `advance` is called with the number of bytes processed since its last call. `replace` first replaces the session by
    an empty one; the import follows in other transactions, so after an interruption the next import continues.
    Subagents that the file contains become sessions of their own, below the session of the file. Raises OSError,
    AshError.
    """
    progress = ByteProgress(advance)
    attempt = partial(
        _import_file,
        store,
        path,
        name,
        progress,
        source=source,
        replace=replace,
        identify=identify,
        access=access,
    )
    return await repeat_if_changed(attempt, progress.restart)


async def _import_file(  # noqa: PLR0913  # as import_file
    store: Store,
    path: Path,
    name: str,
    progress: "ByteProgress",
    *,
    source: str | None,
    replace: bool,
    identify: bool,
    access: FileAccess,
) -> ImportedFile:
    """Raises also FileChanged."""
    transcript = open_transcript(path, access)
    state = state_of(path, transcript, access)
    source = source or transcript.source
    head = read_head(map(line_bytes, transcript.lines()), source)
    modified_at = transcript.modified_at()
    file = TranscriptFile(path, name, transcript, source, modified_at, progress, access, state)
    imported = await _import_transcript(store, file, head, identify=identify, replace=replace)
    embedded: dict[str, ImportedFile] = {}
    for each in embedded_transcripts(transcript, head.source):
        part = file.part(each)
        own_head = read_head([each.text], head.source)
        child = await _import_transcript(store, part, own_head, identify=identify, replace=replace)
        parent = imported if each.parent is None else embedded[each.parent]
        await store.sessions.set_parent(child.session_id, parent.session_id, parent.name)
        embedded[each.name] = child
    return imported._replace(embedded=tuple(embedded.values()))


def state_of(path: Path, transcript: Transcript, access: FileAccess) -> FileState | None:
    """Return the state of a transcript that is a file of lines; None for others. Raises OSError."""
    is_file = not (transcript.in_many_files or transcript.is_part) and uncompressed(path) == path
    return FileState.read(path, access) if is_file else None


async def _import_transcript(
    store: Store, file: "TranscriptFile", head: TranscriptHead, *, identify: bool, replace: bool
) -> ImportedFile:
    name, names = file.name, head.names if identify else None
    if names is not None:
        return await _import_identified(store, file, head, names, replace=replace)
    if (replacement := await store.transcripts.find_transcript(head.source, name)) is not None:
        return ImportedFile(replacement, name, head, skip_prompts(file), has_session=False)
    session = await find_session(store, head.source, name)
    if session is None and (nothing := result_without_lines(file.path, file.transcript.lines())):
        file.advance(file.transcript.size())
        return ImportedFile(
            session_id_for(head.source, name, store.tenant), name, head, nothing, has_session=False
        )
    session = await open_session(store, session, head.source, name, creator=_this_machine(), replace=replace)
    result = await FileImport(LocalSession(store, session.id, file), file).run(
        is_new=not session.message_count
    )
    await store.transcripts.set_names(session.id, name)
    return ImportedFile(session.id, name, head, result, stored_bytes=file.stored_bytes(result))


def skip_prompts(file: "TranscriptFile") -> ImportResult:
    """Return the result of prompts with a stored transcript."""
    file.advance(file.transcript.size())
    return ImportResult(Counter({"existing": sum(1 for _ in file.transcript.lines())}))


class ByteProgress:
    """Counts bytes once, even if a file is read again."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance
        self._place = self._counted = 0

    @property
    def place(self) -> int:
        """The end of what was read last."""
        return self._place

    def __call__(self, size: int) -> None:
        self._place += size
        if self._place > self._counted:
            self._advance(self._place - self._counted)
            self._counted = self._place

    def restart(self) -> None:
        self._place = 0


class TranscriptFile(NamedTuple):
    """A transcript to import."""

    path: Path
    name: str
    transcript: Transcript
    source: str | None
    modified_at: datetime
    advance: ByteProgress
    access: FileAccess = ANY_FILE
    state: FileState | None = None
    """Before its first line was read; None if it need not be compared."""

    def read(self, start: LineStart = START) -> Iterator[FileLine]:
        """Yield the lines of the file from `start`. Raises OSError."""
        if self.transcript.is_part:
            return (line for line in self.transcript.lines() if line.place >= start)
        return read_file(self.path, start, self.access)

    def batches(self, start: LineStart = START) -> Iterator[list[FileLine]]:
        """Yield lines to store. Raises FileChanged, OSError."""
        batches = batched(self.read(start))
        return batches if self.state is None else self.state.checked(batches)

    def size(self) -> int:
        """Raises OSError."""
        return self.transcript.size() if self.transcript.is_part else text_size(self.path, self.access)

    @property
    def is_document(self) -> bool:
        """True for a text that its program writes as a whole each time."""
        return self.transcript.is_embedded or uncompressed(self.path).suffix == ".json"

    def stored_bytes(self, result: ImportResult) -> int:
        """Return the bytes that were stored, or had been before, after an import."""
        return self.advance.place - result.incomplete_bytes

    def part(self, embedded: EmbeddedTranscript) -> "TranscriptFile":
        """Return the transcript of a subagent that the file contains. Its bytes are counted with the file."""
        return self._replace(
            name=f"{self.name}#{embedded.name}",
            transcript=embedded.transcript(self.transcript),
            advance=ByteProgress(_ignore),
            state=None,
        )


async def _import_identified(
    store: Store, file: TranscriptFile, head: TranscriptHead, names: TranscriptNames, *, replace: bool
) -> ImportedFile:
    """Import into the session with the same text, or else into a new one."""
    target = SessionSearch(store, names, head.source, file.name, creator=_this_machine())
    if replace:
        await _replace_identified(store, file, target)
    while True:
        claim = await target.claim()
        file_import = FileImport(LocalSession(store, claim.session_id, file), file, claim)
        try:
            result = await file_import.run(is_new=not claim.message_count)
        except TextDiffers:
            target.reject(claim)
            file.advance.restart()
        else:
            break
    is_first = claim.path is None or not claim.has_names
    if result.counts["new"] or is_first:
        await mark_copies(store, claim.session_id)
    await target.save_names(claim.session_id)
    name = claim.external_id or file.name
    return ImportedFile(claim.session_id, name, head, result, stored_bytes=file.stored_bytes(result))


async def _replace_identified(store: Store, file: TranscriptFile, search: SessionSearch) -> None:
    """Replace the session with the same text by an empty one, or else the one that was last seen at this path."""
    at_path: Claim | None = None
    while candidate := await search.find_candidate():
        try:
            target = LocalSession(store, candidate.session_id, file)
            await FileImport(target, file, candidate).compare()
        except TextDiffers:
            at_path = candidate if candidate.path == file.name else at_path
            search.reject(candidate)
        else:
            break
        finally:
            file.advance.restart()
    replaced = candidate or at_path
    if replaced is not None:
        await search.recreate(replaced)


class SessionTarget(Protocol):
    """The session that receives the lines of a file."""

    async def get_stored(self, lines: Sequence[FileLine]) -> Mapping[str, str | None]:
        """Return the stored texts of lines, by name; None for deleted lines."""

    async def has_any(self, names: Iterable[str]) -> bool:
        """True if a line with any of the names is stored."""

    def stream_stored(self) -> AsyncGenerator[StoredMessage | Message, None]:
        """Yield all stored messages, and the places of deleted ones. Raises ScopeMissing."""

    async def append_after(self, sequence: int, prepared: list[Any]) -> Sequence[Appended | AppendedMessage]:
        """Append lines if the session ends with a sequence. Raises SequenceMismatch, IdConflict."""

    def prepare(self, name: str, text: str, id: str | None = None) -> Any:
        """Return a line for `append`; its id is derived from its name by default."""

    async def append(self, prepared: list[Any]) -> Iterable[bool]:
        """Append lines, all or none, and return of each whether it is new. Raises IdConflict."""

    async def set_file_time(self, *, has_grown: bool) -> None:
        """Store when the file was modified."""

    async def set_last_newline(self, last: str, *, is_missing: bool) -> None:
        """Store whether the file has a newline after its last line, which has this name."""


class LocalSession:
    """A session in a local store."""

    def __init__(self, store: Store, session_id: UUID, file: TranscriptFile) -> None:
        self._store = store
        self._session_id = session_id
        self._source = file.source
        self._modified_at = file.modified_at

    async def get_stored(self, lines: Sequence[FileLine]) -> Mapping[str, str | None]:
        return await self._get_contents(line.name for line in lines)

    async def has_any(self, names: Iterable[str]) -> bool:
        return bool(await self._get_contents(names))

    def stream_stored(self) -> AsyncGenerator[StoredMessage, None]:
        return self._store.messages.stream_messages(self._session_id, kinds=get_args(StoredKind))

    async def append_after(self, sequence: int, prepared: list[PreparedMessage]) -> Sequence[Appended]:
        return await self._store.messages.append_prepared(
            self._session_id, prepared, expected_sequence=sequence, now=to_milliseconds(self._modified_at)
        )

    def prepare(self, name: str, text: str, id: str | None = None) -> PreparedMessage:
        id = id or line_id(self._session_id, name)
        return prepare_message(self._session_id, text, id=id, source=self._source)

    async def append(self, prepared: list[PreparedMessage]) -> Iterable[bool]:
        now = to_milliseconds(self._modified_at)
        appended = await self._store.messages.append_prepared(self._session_id, prepared, now=now)
        return [entry.created for entry in appended]

    async def set_file_time(self, *, has_grown: bool) -> None:
        await self._store.sessions.set_file_time(self._session_id, self._modified_at, has_grown=has_grown)

    async def set_last_newline(self, last: str, *, is_missing: bool) -> None:
        if is_missing != await self._store.sessions.lacks_final_newline(self._session_id):
            id = line_id(self._session_id, last)
            await self._store.sessions.set_lacks_final_newline(self._session_id, is_missing, last_message=id)

    async def _get_contents(self, names: Iterable[str]) -> dict[str, str | None]:
        ids = {line_id(self._session_id, name): name for name in names}
        contents = await self._store.messages.get_contents(self._session_id, list(ids))
        return {ids[id]: content for id, content in contents.items()}


class FileImport:
    """The import of a transcript into a session."""

    def __init__(self, target: SessionTarget, file: TranscriptFile, claim: Claim | None = None) -> None:
        """With a `claim`, the session may belong to another file; comparing the texts then raises TextDiffers."""
        self.result = ImportResult()
        self._target = target
        self._file = file
        self._claim = claim
        self._last_line: FileLine | None = None
        """The last line of the session, or of a rewritten file; None if its stored text differs from the file, or
        continues it."""
        self._continuations: list[FileLine] = []
        """Values that a program wrote after stored lines without a newline, and later versions of documents."""
        self.is_rewritten = False
        """True if the program has removed lines from the file that are stored."""

    @property
    def end(self) -> LineStart | None:
        """The place after the last line, if the whole file is stored and ends with a newline."""
        last = self._last_line
        is_complete = not (self.result.problems or self.result.counts["incomplete"])
        return last.end if is_complete and last is not None and last.terminated else None

    async def run(
        self, *, is_new: bool, start: LineStart | None = None, is_rewritten: bool = False
    ) -> ImportResult:
        """`start` is the place after the last stored line, if it is known; the lines before it are not compared.
        `is_rewritten`: an earlier comparison of these lines showed that the program has rewritten the file."""
        self.is_rewritten = is_rewritten and start is not None
        if self._file.transcript.in_many_files:
            await self._target.set_file_time(has_grown=False)
            await self._add_records()
        elif self._claim is not None and self._claim.is_mirror:
            await self._add_to_mirror()
        else:
            await self._add_lines(START if is_new else start)
        if self.result.counts["new"]:
            await self._target.set_file_time(has_grown=True)
        return self.result

    async def compare(self) -> None:
        """Raises TextDiffers if neither text continues the other, and the file is not a rewritten form of the stored
        text. For many files, the names alone decide."""
        if self._file.transcript.in_many_files:
            return
        if self._claim is not None and self._claim.is_mirror:
            await self._read_mirrored()
        else:
            try:
                await self._compare_stored()
            except TextDiffers:
                await self._find_rewritten()

    async def _find_rewritten(self) -> tuple[StoredRecords, RewrittenLines]:
        """Return the stored records, and which lines of the file are new. Raises TextDiffers if the file is not a later
        form of the stored text."""
        was_imported = self._claim is not None and self._claim.path is not None
        if not was_imported or not has_ids(self._file.read(), self._file.source):
            raise TextDiffers
        stored = StoredRecords(self._file.source)
        try:
            async with aclosing(self._target.stream_stored()) as messages:
                async for message in messages:
                    stored.add(message)
        except ScopeMissing:  # a key that only writes
            raise TextDiffers from None
        is_same_path = self._claim is not None and self._claim.path == self._file.name
        rewritten = stored.find_new(self._file.read(), is_same_path=is_same_path)
        if rewritten is None:
            raise TextDiffers
        return stored, rewritten

    async def _add_to_rewritten(self) -> None:
        """Append the new lines of a file that lacks stored ones. If the session grows meanwhile, compare again."""
        while True:
            self._compare_again()
            stored, rewritten = await self._find_rewritten()
            self.is_rewritten = True
            await self._target.set_file_time(has_grown=False)
            try:
                return await self._add_new(stored, rewritten)
            except SequenceMismatch:
                continue

    def _compare_again(self) -> None:
        self.result = ImportResult(Counter({"new": self.result.counts["new"]}))
        self._continuations = []
        self._file.advance.restart()

    async def _add_new(self, stored: StoredRecords, rewritten: RewrittenLines) -> None:
        last: FileLine | None = None
        for batch in self._file.batches():
            new = [line for line in batch if rewritten.is_new(line)]
            self.result.counts["existing"] += len(batch) - len(new)
            messages = [message async for message in self._parse(self._skip_incomplete(new))]
            if messages:
                appended = await self._target.append_after(stored.last_sequence, messages)
                self.result.counts.update(map(_outcome, appended))
                stored.last_sequence = max(stored.last_sequence, *(each.sequence for each in appended))
            self._file.advance(sum(line.size for line in batch))
            last = batch[-1]
        self._last_line = last

    async def _read_mirrored(self) -> MirroredRecords:
        """Read the records that a program has stored. Raises TextDiffers if the file contains none."""
        stored = MirroredRecords(self._file.source)
        async with aclosing(self._target.stream_stored()) as messages:
            async for message in messages:
                stored.add(message)
        if not any(stored.has_id(line.data or b"") for line in self._file.read()):
            raise TextDiffers
        return stored

    async def _add_to_mirror(self) -> None:
        """Append the lines that a program has not stored. If it stores some meanwhile, compare again."""
        await self._target.set_file_time(has_grown=False)
        while True:
            try:
                return await self._add_missing(await self._read_mirrored())
            except (SequenceMismatch, IdConflict):
                self._compare_again()

    async def _add_missing(self, stored: MirroredRecords) -> None:
        for batch in self._file.batches():
            outcomes = [stored.take(line.data or b"") for line in batch]
            self.result.counts.update(outcome for outcome in outcomes if outcome)
            missing = [line for line, outcome in zip(batch, outcomes, strict=True) if outcome is None]
            new = self._parse(self._skip_incomplete(missing), stored.name_new)
            messages = [message async for message in new]
            if messages:
                appended = await self._target.append_after(stored.last_sequence, messages)
                self.result.counts.update(map(_outcome, appended))
                stored.last_sequence = max(stored.last_sequence, *(each.sequence for each in appended))
            self._file.advance(sum(line.size for line in batch))
        self._last_line = None  # the session is not the text of the file

    async def _add_lines(self, known_start: LineStart | None) -> None:
        """Append the lines of a file that follow the stored ones."""
        try:
            start = await self._compare_stored() if known_start is None else known_start
        except TextDiffers:
            await self._add_to_rewritten()
            return
        if known_start is not None and known_start != START:
            self.result.counts["existing"] += known_start.number - 1
            self._file.advance(known_start.offset)
        await self._target.set_file_time(has_grown=False)
        if self._continuations:
            await self._append(_Batch([message async for message in self._parse(self._continuations)], 0))
        if start:
            await self._append_lines(start)
        await self._store_last_newline()

    async def _add_records(self) -> None:
        """Append the files or rows of a session, unless it is stored from the other place where its CLI stores it."""
        transcript = self._file.transcript
        has_other = transcript.other_copy is not None and await self._target.has_any(
            [transcript.other_copy()]
        )
        if transcript.rows is not None:
            await self._add_rows(transcript.rows(), await self._read_contents() if has_other else set())
        elif has_other:
            for batch in batched(transcript.lines()):
                self.result.counts["existing"] += len(batch)
                self._file.advance(sum(file.size for file in batch))
        else:
            await self._add_files(transcript.lines())

    async def _add_files(self, files: Iterable[FileLine]) -> None:
        """Append files that are not stored, and compare stored files with their stored text."""
        for batch in batched(files):
            stored = await self._target.get_stored(batch)
            new = self._skip_incomplete(self._skip_stored(batch, stored))
            messages = [message async for message in self._parse(new)]
            await self._append(_Batch(messages, sum(file.size for file in batch)))

    async def _read_contents(self) -> set[str]:
        """Return digests of the stored messages and parts, which the CLI has moved from files to rows."""
        async with aclosing(self._target.stream_stored()) as messages:
            return {each async for message in messages if (each := without_ids(message.content))}

    async def _add_rows(self, rows: Iterator[RowLine], contents: set[str]) -> None:
        """Append rows that are not stored, and new versions of stored rows."""
        for batch in batched_rows(rows):
            versions = await self._target.get_stored([row.version for row in batch])
            others = [row.line for row in batch if row.version.name not in versions]
            first = await self._target.get_stored(others) if others else {}
            new = [line for row in batch if (line := self._new_version(row, versions, first, contents))]
            messages = [message async for message in self._parse(new)]
            await self._append(_Batch(messages, sum(row.line.size for row in batch)))

    def _new_version(
        self,
        row: RowLine,
        versions: Mapping[str, str | None],
        first: Mapping[str, str | None],
        contents: set[str],
    ) -> FileLine | None:
        """Return the line to store; None if it is stored, or was deleted."""
        name = row.line.name
        if row.version.name in versions:
            is_deleted = versions[row.version.name] is None
        elif name in first:
            is_deleted, text = first[name] is None, first[name]
            if text is not None and text.encode() != row.line.data:
                return row.version
        elif contents and without_ids(row.line.data) in contents:
            is_deleted = False
        else:
            return row.line
        self.result.counts["deleted" if is_deleted else "existing"] += 1
        return None

    async def _append_lines(self, start: LineStart) -> None:
        """Parse each batch while PostgreSQL writes the previous one.

        Both run on one thread: the stack of another might be too small for deeply nested JSON.
        """
        batches = self._file.batches(start)
        reading = asyncio.create_task(self._next_batch(batches))
        try:
            while batch := await reading:
                reading = asyncio.create_task(self._next_batch(batches))
                await self._append(batch)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _next_batch(self, batches: Iterator[list[FileLine]]) -> _Batch | None:
        lines = next(batches, None)
        if lines is None:
            return None
        messages = [message async for message in self._parse(self._skip_incomplete(lines))]
        return _Batch(messages, sum(line.size for line in lines))

    async def _compare_stored(self) -> LineStart | None:
        """Compare the file with its stored lines and return the place after the last stored one.

        None if the whole file was stored as one document and has changed: nothing can be appended to a document.
        """
        start = end = START
        # The lines after the last stored one. If another stored line follows, they are missing in the store, else new.
        missing = ImportResult()
        for batch in batched(self._file.read()):
            stored = await self._with_versions(batch, await self._target.get_stored(batch))
            for line in batch:
                end = line.end
                if line.name not in stored:
                    missing.add_problem(_missing_problem(line))
                    continue
                if missing.counts:
                    self.result.add(missing)
                    missing = ImportResult()
                text = stored[line.name]
                self._compare_line(line, text)
                if self._last_line is None and text is not None and "\n" in text:
                    self._file.advance(self._file.size() - start.offset)
                    return None
                self._file.advance(end.offset - start.offset)
                start = end
        await self._check_end(end)
        return start

    async def _with_versions(
        self, batch: Sequence[FileLine], stored: Mapping[str, str | None]
    ) -> Mapping[str, str | None]:
        """Return the stored texts. If the file is a later version of a stored document, the text is this version."""
        first, text = batch[0], stored.get(batch[0].name)
        if text is None or not self._is_later_version(first, text):
            return stored
        version = first._replace(file=name_by_text(first))
        known = await self._target.get_stored([version])
        if version.name not in known:
            self._continuations.append(version)
        written = (first.data or b"").decode(errors="replace")
        return {**stored, first.name: known.get(version.name, written)}

    def _is_later_version(self, line: FileLine, stored: str) -> bool:
        """True if the document at the path of the stored one is a later version of it."""
        is_same_path = self._claim is None or self._claim.path == self._file.name
        return self._file.is_document and is_same_path and is_later_version(line, stored, self._file.source)

    async def _check_end(self, end: LineStart) -> None:
        """Check that no other text is stored after the end of the file."""
        # Several lines, because the next ones may have been refused.
        lookahead = range(end.number, end.number + _LOOKAHEAD_LINES)
        if await self._target.has_any(map(str, lookahead)):
            if self._claim is None:
                self.result.add_problem(LineProblem("changed", *end, "the file ends before a stored line"))
            self._last_line = None
        if self._claim and self._claim.message_count and not self.result.counts.total():
            raise TextDiffers  # its messages are not lines of a file

    async def _append(self, batch: _Batch) -> None:
        if batch.messages:
            try:
                created = await self._target.append(batch.messages)
            except IdConflict:  # another import has stored a text with the same beginning
                if self._claim is None:
                    raise
                raise TextDiffers from None
            self.result.counts.update("new" if is_new else "existing" for is_new in created)
        self._file.advance(batch.size)

    async def _store_last_newline(self) -> None:
        """Store whether the file ends with a newline, for the export.

        A copy of an identified transcript that lacks only the last newline is a shorter one, and changes nothing.
        """
        if self._last_line is None or self.is_rewritten:
            return
        lacks_newline = not self._last_line.terminated
        is_shorter = self._claim is not None and lacks_newline and not self.result.counts["new"]
        if not is_shorter:
            await self._target.set_last_newline(self._last_line.name, is_missing=lacks_newline)

    def _compare_line(self, line: FileLine, stored: str | None) -> None:
        if stored is None:
            self.result.counts["deleted"] += 1
            self._last_line = line
            return
        text = stored.encode()
        if line.data == text:
            self.result.counts["existing"] += 1
            self._last_line = line
        elif self._claim and _is_beginning(line, text):
            self.result.counts["existing"] += 1
            self._last_line = None
        elif (rest := _continuation(line, text)) is not None:
            self.result.counts["existing"] += 1
            self._continuations.append(rest)
            self._last_line = rest
        elif self._is_other_text(line, text):
            raise TextDiffers
        else:
            self.result.add_problem(_changed_problem(line, "differs from the imported text"))
            self._last_line = None

    def _is_other_text(self, line: FileLine, stored: bytes) -> bool:
        """True if a line that differs shows that the file is not a later form of the stored text.

        A stored line may be the beginning of its line, if it was still being written. Documents are rewritten in place.
        """
        if self._claim is None or self._file.transcript.in_many_files:
            return False
        is_rewritten = self._file.is_document and self._claim.path == self._file.name
        return not (is_rewritten or _was_cut(line, stored))

    def _skip_stored(self, batch: Iterable[FileLine], stored: Mapping[str, str | None]) -> Iterator[FileLine]:
        """Compare the stored files and yield the others. A file occurs twice if two messages have the same id."""
        for line in {line.name: line for line in batch}.values():
            if line.name in stored:
                self._compare_line(line, stored[line.name])
            else:
                yield line

    def _skip_incomplete(self, lines: Iterable[FileLine]) -> Iterator[FileLine]:
        """Skip a last line that is still being written. A file that is one line is stored in any case."""
        for line in lines:
            if line.file is None and may_be_unfinished(line) and _is_being_written(self._file.path):
                self.result.counts["incomplete"] += 1
                self.result.incomplete_bytes += line.size
            else:
                yield line

    async def _parse(
        self, lines: Iterable[FileLine], message_id: Callable[[str], str | None] = _no_id
    ) -> AsyncGenerator[Any, None]:
        for count, line in enumerate(lines, 1):
            if not count % _YIELD_EVERY:
                await asyncio.sleep(0)
            text = decode_line(line)
            if isinstance(text, LineProblem):
                self.result.add_problem(text)
            else:
                self._last_line = line
                name = name_by_text(line) if self.is_rewritten else line.name
                yield self._target.prepare(name, text, message_id(text))


def _outcome(appended: Appended | AppendedMessage) -> ImportOutcome:
    """Return the outcome of a line; `existing` if a request was repeated because its answer was lost."""
    if appended.created:
        return "new"
    return "deleted" if appended.deleted else "existing"


def result_without_lines(path: Path, lines: Iterable[FileLine]) -> ImportResult | None:
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
    is_log = uncompressed(path).suffix == ".jsonl"
    return is_log and abs(time.time() - path.stat().st_mtime) < RECENTLY_WRITTEN_SECONDS


def _is_beginning(line: FileLine, stored: bytes) -> bool:
    """True if the file ends within the stored line."""
    return not line.terminated and line.data is not None and stored.startswith(line.data)


def _was_cut(line: FileLine, stored: bytes) -> bool:
    """True if an incomplete line was stored, which is complete in the file."""
    is_longer = line.data is not None and line.data.startswith(stored)
    return is_longer and may_be_unfinished(FileLine(line.place, stored, len(stored), terminated=False))


def _continuation(line: FileLine, stored: bytes) -> FileLine | None:
    """Return the JSON value that a program wrote after a stored line without a newline, to store it separately."""
    if line.data is None or not line.data.startswith(stored) or _was_cut(line, stored):
        return None
    rest = line.data[len(stored) :]
    name = f"{line.name}+{len(stored)}"
    return (
        line._replace(data=rest, file=name) if starts_like_json(stored) and starts_like_json(rest) else None
    )


def _missing_problem(line: FileLine) -> LineProblem:
    text = decode_line(line)
    return text if isinstance(text, LineProblem) else _changed_problem(line, "was not stored at import")


def _changed_problem(line: FileLine, reason: str) -> LineProblem:
    return LineProblem("changed", *line.place, reason, line.file)


def _this_machine() -> Creator:
    return Creator(machine_name())


async def open_session(
    store: Store,
    session: Session | None,
    source: str,
    name: str,
    *,
    creator: Creator,
    replace: bool = False,
) -> Session:
    """Return the session, which is new, emptied by `replace`, or as it was. `creator` is stored with a new one."""
    if session is None:
        return await store.sessions.create(
            source=source, external_id=name, machine=creator.machine, key_id=creator.key_id
        )
    if not replace:
        return session
    return await store.sessions.recreate(session.id, source=source, external_id=name)


async def find_session(store: Store, source: str, name: str) -> Session | None:
    """Find the session, first with the source `unknown`: an earlier import may not have recognised the format."""
    for stored_source in ("unknown", source):
        try:
            return await store.sessions.get(session_id_for(stored_source, name, store.tenant))
        except SessionNotFound:
            continue
    return None
