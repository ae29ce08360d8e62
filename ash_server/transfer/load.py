"""Transcripts as they lie on a disk, and as standard messages: without any database."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ash_server.transfer.importing import opencode
from ash_server.transfer.importing.lines import Line, read_file
from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.model.message import StandardMessage


class Transcript(NamedTuple):
    """A session as its CLI keeps it. Looking at its files and reading them raises OSError."""

    files: Callable[[], Iterator[Path]]
    texts: Callable[[], Iterator[Line]]
    """In order."""
    source: str | None = None
    """The format, where the place of the file tells it."""
    in_many_files: bool = False
    """Each of them one text: new ones may come between the others, and any may be rewritten."""


def transcript_at(path: Path) -> Transcript:
    """The one that a file is, or stands for."""
    if opencode.is_session(path):
        return Transcript(
            partial(opencode.session_files, path),
            partial(opencode.read_session, path),
            opencode.SOURCE,
            in_many_files=True,
        )
    return Transcript(partial(iter, [path]), partial(read_file, path))


def load_session(path: str | Path) -> list[StandardMessage]:
    """The messages of a transcript, whichever CLI wrote it: `.jsonl`, `.json`, `.jsonl.zst`, a session of OpenCode.

    For OpenCode, `path` is the session's own file, `storage/session/<project>/<session>.json`. Raises OSError where
    a file cannot be read; what is in it never raises. A line longer than 64 MiB is passed over.

    The answer holds all of the transcript, decoded (`_original`) and typed: several times the size of its file. What
    is too large for that can be imported, and read from the store in pages.
    """
    transcript = transcript_at(Path(path))
    texts = (line.data for line in transcript.texts() if line.data is not None)
    return transform_messages(texts, transcript.source)
