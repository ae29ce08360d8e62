"""Transcripts on disk: a single file, or a session spread over many files. No database needed."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing import opencode
from ash_server.transfer.importing.lines import FileLine, read_file


class Transcript(NamedTuple):
    """A session as its CLI stores it. Both callables raise OSError."""

    files: Callable[[], Iterator[Path]]
    lines: Callable[[], Iterator[FileLine]]
    """In order."""
    source: str | None = None
    """The format, if the location of the file determines it."""
    in_many_files: bool = False
    """True if each file is one message. Files may be added between existing ones, and existing ones rewritten."""


def folder_of(path: Path) -> Path:
    """Return the path, or the folder with all files of its transcripts if they are in several."""
    return opencode.storage_around(path) or path


def open_transcript(path: Path, access: FileAccess = ANY_FILE) -> Transcript:
    """Return the transcript in the file; for an OpenCode session file, in all files of the session."""
    if opencode.is_session(path):
        return Transcript(
            partial(opencode.session_files, path, access),
            partial(opencode.read_session, path, access),
            opencode.SOURCE,
            in_many_files=True,
        )
    return Transcript(partial(iter, [path]), partial(read_file, path, access=access))
