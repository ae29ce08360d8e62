"""Transcripts on disk: a single file, or a session spread over many files. No database needed."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

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
    """Each file is one message; files may be added in between, and any may be rewritten."""


def open_transcript(path: Path) -> Transcript:
    """Return the transcript that the file holds or represents."""
    if opencode.is_session(path):
        return Transcript(
            partial(opencode.session_files, path),
            partial(opencode.read_session, path),
            opencode.SOURCE,
            in_many_files=True,
        )
    return Transcript(partial(iter, [path]), partial(read_file, path))
