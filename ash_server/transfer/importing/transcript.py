"""Transcripts: a file, a session spread over many files or in a database, or a part of a document. Needs no store."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from errno import EINVAL
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.agents import AGENTS
from ash_server.transfer.importing import opencode, prompt_history
from ash_server.transfer.importing.compressed import text_size
from ash_server.transfer.importing.databases import opencode_rows
from ash_server.transfer.importing.databases.antigravity import SOURCE as ANTIGRAVITY
from ash_server.transfer.importing.databases.antigravity import ConversationLines
from ash_server.transfer.importing.databases.conversation_files import conversation_at
from ash_server.transfer.importing.databases.opencode_rows import RowLine
from ash_server.transfer.importing.databases.sessions import (
    Stamps,
    database_files,
    database_of,
    source_of,
    stored_session,
)
from ash_server.transfer.importing.databases.sqlite_snapshot import companions, is_database
from ash_server.transfer.importing.documents import chat_histories, exports
from ash_server.transfer.importing.documents.folder_rows import read_documents
from ash_server.transfer.importing.documents.folders import SessionFolder, folder_at
from ash_server.transfer.importing.lines import (
    RECENTLY_WRITTEN_SECONDS,
    START,
    FileLine,
    read_file,
    source_of_log,
)
from ash_server.transfer.importing.transcript_files import SUFFIXES, modification_time, past_time
from ash_shared.records.json_fields import to_milliseconds


class Transcript(NamedTuple):
    """A session as its CLI stores it. All callables raise OSError."""

    files: Callable[[], Iterator[Path]]
    lines: Callable[[], Iterator[FileLine]]
    """In order."""
    size: Callable[[], int]
    """In bytes, for the progress; approximate for databases."""
    modified_at: Callable[[], datetime]
    stamps: Callable[[], Stamps]
    source: str | None = None
    """The format, if the location of the file determines it."""
    in_many_files: bool = False
    """True if each file is one message. Files may be added between existing ones, and existing ones rewritten."""
    rows: Callable[[], Iterator[RowLine]] | None = None
    """In a database: the lines, with the names of their versions."""
    other_copy: Callable[[], str] | None = None
    """The name of the first message if the session was imported from the other place where its CLI stores sessions."""
    is_embedded: bool = False
    """True if it is a part of its file, with the text of one document."""
    is_section: bool = False
    """True if it is a part of its file, with lines. Lines are only added at its end."""

    @property
    def is_part(self) -> bool:
        """True if `lines` are not all lines of the file."""
        return self.is_embedded or self.is_section


def places_of(path: Path) -> list[Path]:
    """Return the files and folders to read for the transcripts at a path."""
    if (conversation := conversation_at(path)) is not None:
        return conversation.places()
    if folder_at(path) is not None:
        return [path.parent]
    database = database_of(path) or path
    if database.is_file():
        return [database, *companions(database)]
    return [opencode.storage_around(path) or path]


def open_transcript(path: Path, access: FileAccess = ANY_FILE) -> Transcript:
    """Return the transcript in the file, in all files of an OpenCode session, or in the rows of a database.

    A conversation of Antigravity is in both: a transcript, and rows of a database. Raises OSError for a database of
    several sessions.
    """
    if (conversation := conversation_at(path)) is not None:
        lines = ConversationLines(conversation, access).read
        transcript = _open_files(conversation.main, conversation.existing, lines, access)
        return transcript._replace(source=ANTIGRAVITY, in_many_files=True)
    if (part := _open_part(path, access)) is not None:
        return part
    if (folder := folder_at(path)) is not None:
        return _open_folder(folder, access)
    if opencode.is_session(path):
        files = partial(opencode.session_files, path, access)
        lines = partial(opencode.read_session, path, access)
        other = partial(opencode_rows.session_name, path.stem)
        transcript = _open_files(path, files, lines, access)
        return transcript._replace(source=opencode.SOURCE, in_many_files=True, other_copy=other)
    if not path.name.endswith(SUFFIXES) and is_database(path, access):
        raise OSError(EINVAL, f"is a database of several sessions; name one: {path.name}/ID", str(path))
    transcript = _open_files(path, partial(iter, [path]), partial(read_file, path, access=access), access)
    return transcript._replace(source=_source_of_first_line(path, access))


def _source_of_first_line(path: Path, access: FileAccess) -> str | None:
    if path.suffix != ".jsonl":
        return None
    try:
        first = next(read_file(path, access=access), None)
    except OSError:
        return None
    return None if first is None else source_of_log(first)


def _open_part(path: Path, access: FileAccess) -> Transcript | None:
    """Return the transcript at a path below a file with many sessions; None for other paths."""
    if (history := prompt_history.history_of(path)) is not None:
        return _open_prompts(path, history, access)
    if (export := exports.export_of(path)) is not None:
        return _open_conversation(path, export, access)
    if (chats := chat_histories.chat_history_of(path, access)) is not None:
        return _open_chat(path, chats, access)
    database = database_of(path)
    return None if database is None else _open_rows(path, database, access)


def _open_files(
    path: Path,
    files: Callable[[], Iterator[Path]],
    lines: Callable[[], Iterator[FileLine]],
    access: FileAccess,
) -> Transcript:
    def size() -> int:
        return sum(text_size(file, access) for file in files())

    def stamps() -> Stamps:
        return tuple((each.st_mtime_ns, each.st_size) for each in (file.stat() for file in files()))

    return Transcript(files, lines, size, partial(modification_time, path, access), stamps)


def _open_rows(path: Path, database: Path, access: FileAccess) -> Transcript:
    def size() -> int:
        return stored_session(path, access).size

    def modified_at() -> datetime:
        milliseconds = stored_session(path, access).updated_at
        return past_time(milliseconds / 1000) if milliseconds else modification_time(database, access)

    def stamps() -> Stamps:
        session = stored_session(path, access)
        return (session.updated_at, session.size), (session.rows, 0)

    source = _SOURCES.get(database.name) or source_of(path, access)
    is_opencode = source == opencode_rows.SOURCE
    return Transcript(
        partial(database_files, database),
        partial(opencode_rows.read_lines, path, access),
        size,
        modified_at,
        stamps,
        source,
        in_many_files=True,
        rows=partial(opencode_rows.read_rows, path, access),
        other_copy=partial(opencode_rows.file_name, path, access) if is_opencode else None,
    )


_NAMES = Counter(agent.database for agent in AGENTS)
_SOURCES = {agent.database: agent.source for agent in AGENTS if _NAMES[agent.database] == 1}
"""Formats by the names of databases that only one agent uses: these need not be opened."""


def _open_prompts(path: Path, history: Path, access: FileAccess) -> Transcript:
    def lines() -> Iterator[FileLine]:
        for line in prompt_history.read_lines(path, access):
            yield FileLine(START, line.data, len(line.data) + 1, terminated=True, file=line.name)

    def size() -> int:
        return prompt_history.session_prompts(path, access).size

    def modified_at() -> datetime:
        milliseconds = prompt_history.session_prompts(path, access).last_time
        return past_time(milliseconds / 1000) if milliseconds > 0 else modification_time(history, access)

    def stamps() -> Stamps:
        prompts = prompt_history.session_prompts(path, access)
        return ((len(prompts.places), prompts.size),)

    return Transcript(
        partial(iter, [history]),
        lines,
        size,
        modified_at,
        stamps,
        prompt_history.SOURCE,
        in_many_files=True,
    )


def _open_conversation(path: Path, export: Path, access: FileAccess) -> Transcript:
    def lines() -> Iterator[FileLine]:
        text = exports.read_conversation(path, access)
        yield FileLine(START, text, len(text), terminated=False)

    def stamps() -> Stamps:
        status = export.stat()
        return (exports.conversation_place(path, access), (status.st_mtime_ns, status.st_size))

    return Transcript(
        partial(iter, [export]),
        lines,
        lambda: exports.conversation_place(path, access).size,
        partial(modification_time, export, access),
        stamps,
        is_embedded=True,
    )


def _open_chat(path: Path, history: Path, access: FileAccess) -> Transcript:
    started_at = to_milliseconds(chat_histories.start_time(path))

    def is_written() -> bool:
        return time.time() - history.stat().st_mtime < RECENTLY_WRITTEN_SECONDS

    def lines() -> Iterator[FileLine]:
        place = START
        for data in chat_histories.read_chat(path, access, is_written=is_written()):
            line = FileLine(place, data.removesuffix(b"\n"), len(data), data.endswith(b"\n"))
            yield line
            place = line.end

    def modified_at() -> datetime:
        is_last = chat_histories.chat_place(path, access).is_last
        return (
            modification_time(history, access)
            if is_last or started_at is None
            else past_time(started_at / 1000)
        )

    def stamps() -> Stamps:
        """The lines also change when the last chat is no longer written, which completes its last section."""
        place = chat_histories.chat_place(path, access)
        return (place.offset, place.size), (int(place.is_last and is_written()), 0)

    return Transcript(
        partial(iter, [history]),
        lines,
        lambda: chat_histories.chat_place(path, access).size,
        modified_at,
        stamps,
        chat_histories.SOURCE,
        is_section=True,
    )


def _open_folder(folder: SessionFolder, access: FileAccess) -> Transcript:
    def lines() -> Iterator[FileLine]:
        return (row.line for row in read_documents(folder, access))

    transcript = _open_files(folder.main, folder.files, lines, access)
    return transcript._replace(
        source=folder.source, in_many_files=True, rows=partial(read_documents, folder, access)
    )


_DOCUMENTS = "atif"
"""The format of documents that contain the transcripts of subagents."""


class EmbeddedTranscript(NamedTuple):
    """The trajectory of a subagent in an ATIF document, which becomes a session of its own."""

    name: str
    """Unique in the document: its id, after the name of the embedded trajectory that contains it, if any."""
    parent: str | None
    """The name of the embedded trajectory that contains it; None if the document does."""
    text: bytes

    def transcript(self, document: Transcript) -> Transcript:
        """Return the transcript of the trajectory: its text as it is written in the document, byte for byte."""
        line = FileLine(START, self.text, len(self.text), terminated=False)
        return document._replace(lines=lambda: iter([line]), is_embedded=True)


class _Trajectory(msgspec.Struct):
    trajectory_id: str | None = None
    subagent_trajectories: list[msgspec.Raw] | None = None


def embedded_transcripts(transcript: Transcript, source: str) -> Iterator[EmbeddedTranscript]:
    """Yield the trajectories in a document, each before those that it contains. Raises OSError."""
    if source == _DOCUMENTS:
        document = next(transcript.lines(), None)
        if document is not None and document.data is not None:
            yield from _read_embedded(document.data, None, "")


def _read_embedded(text: bytes, parent: str | None, prefix: str) -> Iterator[EmbeddedTranscript]:
    names: set[str] = set()
    for raw in _decode_trajectory(text).subagent_trajectories or ():
        inner = bytes(raw)
        id = _decode_trajectory(inner).trajectory_id or "subagent"
        name = prefix + next(each for each in _numbered(id) if each not in names)
        names.add(name.removeprefix(prefix))
        yield EmbeddedTranscript(name, parent, inner)
        yield from _read_embedded(inner, name, f"{name}/")


def _numbered(id: str) -> Iterator[str]:
    """Yield the id, and then with a number: writers may repeat it."""
    yield id
    yield from (f"{id}#{number}" for number in count(2))


def _decode_trajectory(text: bytes) -> _Trajectory:
    """Return the fields of a trajectory; of another text, none."""
    try:
        return msgspec.json.decode(text, type=_Trajectory)
    except (ValueError, RecursionError):
        return _Trajectory()
