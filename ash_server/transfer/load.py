"""Transcript files as standard messages, without a database."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from ash_server.transfer.importing.common_records import ComparedRecord, longest_copy, record_marks
from ash_server.transfer.importing.databases.conversation_files import conversation_at
from ash_server.transfer.importing.databases.sessions import SharedSnapshots, share_snapshots
from ash_server.transfer.importing.databases.sqlite_snapshot import private_folder
from ash_server.transfer.importing.transcript import Transcript, open_transcript
from ash_server.transfer.importing.transcript_files import find_homes, find_transcripts, uncompressed
from ash_shared.conversation.standard_messages import Fold, transform_messages
from ash_shared.model.message import StandardMessage
from ash_shared.parsing.parse import describe_message
from ash_shared.parsing.parsed_text import identify

_TIMED = ("rollout-", "session-")
"""Prefixes of file names that contain a time before the id."""


def load_session(path: str | Path) -> list[StandardMessage]:
    """Return the messages of a transcript of any supported CLI: `.jsonl`, `.json`, `.jsonl.zst`, an OpenCode session.

    `path` may also be the CLI's session id if the transcript is in the CLI's folder. For OpenCode, pass the session
    below its database, `opencode.db/<session>`, or its file, `storage/session/<project>/<session>.json`. Raises OSError
    if no transcript exists or a file cannot be read; contents never raise. Lines longer than 64 MiB are skipped.

    The result contains the whole transcript twice, decoded (`_original`) and typed, and takes several times the size of
    the file in memory. Import larger transcripts and read them from the store in pages.
    """
    transcript = open_transcript(_find_transcript(path))
    texts = (line.data for line in transcript.lines() if line.data is not None)
    return transform_messages(texts, transcript.source)


def load_sessions(paths: Iterable[str | Path]) -> Iterator[list[StandardMessage]]:
    """Yield the messages of each transcript as `load_session` does, except messages copied from another one in `paths`.

    Forks and subagents of Codex begin with messages of their parent, which keeps these and their usage. Raises OSError.
    """
    with private_folder() as folder:
        yield from _load_sessions(paths, SharedSnapshots(folder))


def _load_sessions(
    paths: Iterable[str | Path], snapshots: SharedSnapshots
) -> Iterator[list[StandardMessage]]:
    """Yield the messages of each transcript; of a database, all are read from one copy."""
    with share_snapshots(snapshots):
        transcripts = [open_transcript(_find_transcript(path)) for path in paths]
        begins = [_Beginning.read(transcript) for transcript in transcripts]
        copied = _count_copied(begins)
    for number, transcript in enumerate(transcripts):
        with share_snapshots(snapshots):
            messages = _read_messages(transcript, copied.get(number, 0))
        yield messages


def _read_messages(transcript: Transcript, copied: int) -> list[StandardMessage]:
    """Return the messages after those that were copied or inherited."""
    fold, inherited = Fold(), 0
    for line in transcript.lines():
        fold.add(line.data or b"", transcript.source)
        inherited = max(inherited, fold.inherited_lines)
    return fold.messages(start=inherited or copied)


class _Beginning(NamedTuple):
    """The facts of a transcript that are compared with others."""

    names: frozenset[str]
    """The ids of its session and origins."""
    time: int
    records: list[ComparedRecord]

    @classmethod
    def read(cls, transcript: Transcript) -> "_Beginning":
        names, records, time = set[str | None](), list[ComparedRecord](), None
        for number, line in enumerate(transcript.lines(), 1):
            text = (line.data or b"").decode(errors="replace")
            identity = identify(text, transcript.source)
            names |= {identity.session, identity.origin}
            described = describe_message(text, transcript.source)
            time = described.header.timestamp if time is None else time
            marks = record_marks(identity, text)
            if marks is not None:
                records.append(ComparedRecord(marks, number, described.kind == "message"))
        return cls(frozenset(filter(None, names)), time or 0, records)


def _count_copied(begins: Sequence[_Beginning]) -> dict[int, int]:
    """Return the number of lines at the beginning of each transcript that were copied from another one, by index.

    The original is the transcript with fewer origins, or else the earlier one.
    """
    order = sorted(range(len(begins)), key=lambda number: (len(begins[number].names), begins[number].time))
    copied, earlier = dict[int, int](), dict[int, set[bytes]]()
    for number in order:
        own = begins[number]
        relatives = {other: marks for other, marks in earlier.items() if own.names & begins[other].names}
        copy = longest_copy(own.records, relatives)
        if copy is not None:
            copied[number] = copy[1]
        earlier[number] = {mark for record in own.records for mark in record.marks}
    return copied


def _find_transcript(session: str | Path) -> Path:
    """Return the path, or the transcript of the session with this id if no file has this path."""
    path = Path(session)
    if path.exists() or path.name != str(session):
        return path
    homes = find_homes(os.environ, Path.home())
    files = [file for home in homes for file in find_transcripts(home, _ignore)]
    return next(chain(_named_by(files, path.name), _containing(files, path.name)), path)


def _ignore(_: OSError) -> None:
    pass


def _named_by(files: Iterable[Path], id: str) -> Iterator[Path]:
    """Yield files named after the session (`<id>.jsonl`, `rollout-<time>-<id>.jsonl`, `agent-<id>.jsonl`), and the
    files of a conversation of Antigravity, which are in a folder named after it."""
    return (file for file in files if _name_of(file) in (id, f"agent-{id}") or _ends_with(file, id))


def _name_of(file: Path) -> str:
    conversation = conversation_at(file)
    return conversation.id if conversation else uncompressed(file).stem


def _containing(files: Iterable[Path], id: str) -> Iterator[Path]:
    """Yield the files of Gemini CLI, which have the beginning of the id in their name, and the id in a line."""
    return (file for file in files if _ends_with(file, id[:8]) and _session_id(file) == id)


def _ends_with(file: Path, id: str) -> bool:
    """True for names such as `rollout-2026-03-03T10-00-00-<id>.jsonl`."""
    return uncompressed(file).stem.startswith(_TIMED) and uncompressed(file).stem.endswith(f"-{id}")


def _session_id(file: Path) -> str | None:
    lines = islice(open_transcript(file).lines(), 1)
    return next((describe_message(line.data or b"").header.session_id for line in lines), None)
