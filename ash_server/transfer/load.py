"""Transcripts on a disk as standard messages, without any database."""

from collections.abc import Iterator
from pathlib import Path

from ash_server.transfer import opencode
from ash_server.transfer.lines import Line, read_file
from ash_shared.message import StandardMessage
from ash_shared.standard import transform_messages


def load_session(path: str | Path) -> list[StandardMessage]:
    """The messages of a transcript, whichever CLI wrote it: `.jsonl`, `.json`, `.jsonl.zst`, a session of OpenCode.

    For OpenCode, `path` is the session's own file, `storage/session/<project>/<session>.json`. Raises OSError where
    a file cannot be read; what is in it never raises. A line longer than 64 MiB is passed over.

    The answer holds all of the transcript, decoded (`_original`) and typed: several times the size of its file. What
    is too large for that can be imported, and read from the store in pages.
    """
    file = Path(path)
    source = opencode.SOURCE if opencode.is_session(file) else None
    texts = (line.data for line in read_transcript(file) if line.data is not None)
    return transform_messages(texts, source)


def read_transcript(path: Path) -> Iterator[Line]:
    """Its texts in order, however it is kept. Raises OSError."""
    if opencode.is_session(path):
        yield from (piece.line for piece in opencode.read_session(path))
    else:
        yield from read_file(path)


def transcript_files(path: Path) -> Iterator[Path]:
    """Those that hold it: mostly the one. Raises OSError."""
    if opencode.is_session(path):
        yield from opencode.session_files(path)
    else:
        yield path
