"""The history of prompts that Claude Code keeps apart from its transcripts, also of sessions that it has deleted.

A path below the file stands for the prompts of one session, as in `databases.sessions`: `…/history.jsonl/ID`. Lines of
old versions have no id of a session; they are left out, since a folder and a day may have had several sessions.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from errno import EINVAL
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing.databases.sessions import read_once

NAME = "history.jsonl"
SOURCE = "claude_history"

_MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longer lines are left out: Claude Code writes no long texts into them."""
_MAX_FIRST_LINES = 20
"""Lines that are read to recognise the file."""

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
"""Ids were written by others, and become parts of paths."""


class _Prompt(msgspec.Struct):
    """The fields of a line that are read here."""

    display: str
    session: str | None = msgspec.field(default=None, name="sessionId")
    pasted: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="pastedContents")
    timestamp: float = 0


class _Place(NamedTuple):
    """A line in the file."""

    offset: int
    size: int
    """In bytes, with the newline."""


class SessionPrompts(NamedTuple):
    """The lines of a session."""

    places: tuple[_Place, ...]
    last_time: float
    """Milliseconds since 1970; 0 if no line has a time."""

    @property
    def size(self) -> int:
        return sum(place.size for place in self.places)


class PromptLine(NamedTuple):
    name: str
    """A digest of the text, which stays when lines before it are removed."""
    data: bytes


def history_of(path: Path) -> Path | None:
    """Return the history that contains the prompts of a session; None for other paths."""
    return path.parent if path.parent.name == NAME and path.parent.is_file() else None


def is_history(path: Path, access: FileAccess = ANY_FILE) -> bool:
    """True for a history of Claude Code: other agents have files with this name. Raises OSError."""
    if path.name != NAME or not path.is_file():
        return False
    with access.open(path) as file:
        lines = (file.readline(_MAX_LINE_BYTES) for _ in range(_MAX_FIRST_LINES))
        prompts = (prompt for line in lines if (prompt := _decode(line)) is not None)
        return any(prompt.session is not None or prompt.pasted is not msgspec.UNSET for prompt in prompts)


def list_sessions(path: Path, access: FileAccess = ANY_FILE) -> list[Path]:
    """Return the sessions of a history, by the time of their first prompt. Raises OSError."""
    return [path / id for id in _read_places(path, access)]


def session_prompts(path: Path, access: FileAccess = ANY_FILE) -> SessionPrompts:
    """Return the places of the prompts of a session. Raises OSError."""
    found = _read_places(path.parent, access).get(path.name)
    if found is None:
        raise OSError(EINVAL, f"no prompts of a session {path.name}", str(path.parent))
    return found


def read_lines(path: Path, access: FileAccess = ANY_FILE) -> Iterator[PromptLine]:
    """Yield the prompts of a session. Raises OSError, also if the file is rewritten meanwhile."""
    with access.open(path.parent) as file:
        for place in session_prompts(path, access).places:
            file.seek(place.offset)
            data = file.read(place.size)
            prompt = _decode(data)
            if prompt is None or prompt.session != path.name:
                raise OSError(EINVAL, "was rewritten while it was read", str(path.parent))
            text = data.removesuffix(b"\n")
            yield PromptLine(f"prompt:{blake2b(text, digest_size=16).hexdigest()}", text)


def without_transcripts(paths: Iterable[Path]) -> Iterator[Path]:
    """Leave out the prompts of sessions with one of the transcripts."""
    paths = list(paths)
    histories = {path.parent for path in paths if path.parent.name == NAME and history_of(path)}
    if not histories:
        return iter(paths)
    transcripts = {path.stem for path in paths if path.parent not in histories}
    return (path for path in paths if path.name not in transcripts or path.parent not in histories)


def _read_places(history: Path, access: FileAccess) -> dict[str, SessionPrompts]:
    return read_once(history, lambda: _scan(history, access))


def _scan(history: Path, access: FileAccess) -> dict[str, SessionPrompts]:
    places, times = defaultdict[str, list[_Place]](list), defaultdict[str, float](float)
    with access.open(history) as file:
        for place, line in _lines(file):
            prompt = _decode(line)
            if prompt is not None and prompt.session is not None and _ID.fullmatch(prompt.session):
                places[prompt.session].append(place)
                times[prompt.session] = max(times[prompt.session], prompt.timestamp)
    return {id: SessionPrompts(tuple(each), times[id]) for id, each in places.items()}


def _lines(file: BinaryIO) -> Iterator[tuple[_Place, bytes]]:
    """Yield the complete lines, except those that are too long."""
    offset = 0
    while line := file.readline(_MAX_LINE_BYTES):
        place = _Place(offset, len(line))
        offset += len(line)
        if line.endswith(b"\n"):
            yield place, line
        elif len(line) == _MAX_LINE_BYTES:
            while (rest := file.readline(_MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                offset += len(rest)
            offset += len(rest)


_decoder = msgspec.json.Decoder(_Prompt)


def _decode(line: bytes) -> _Prompt | None:
    try:
        return _decoder.decode(line)
    except (ValueError, RecursionError):
        return None
