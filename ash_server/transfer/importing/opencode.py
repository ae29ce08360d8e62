"""Sessions of OpenCode, which keeps each in many small files and rewrites them while it runs.

Below its storage lie `session/<project>/<session>.json`, `message/<session>/<message>.json` and
`part/<message>/<part>.json`. The session's file stands for all of them. Each file becomes one message of Ash, its text
as it is; its id follows from its path, so importing again adds the files that came and reports those that changed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ash_server.transfer.importing.lines import LONGEST_LINE, START, Line

SOURCE = "opencode"

_LARGEST_HEAD = 32 * 1024 * 1024
"""A larger file of a message is imported, but its id and its time are those of its name."""


def is_session(path: Path) -> bool:
    """Whether this is the file that stands for a session of OpenCode: its place tells."""
    return path.suffix == ".json" and [each.name for each in path.absolute().parents[1:3]] == [
        "session",
        "storage",
    ]


def session_files(path: Path) -> Iterator[Path]:
    """The session's own file, then each message in the order they were made, followed by its parts. Raises OSError."""
    path = path.absolute()
    storage = path.parents[2]
    yield path
    messages = _files_of(storage / "message", path)
    for _, message in sorted((_age(_decoded(message)), message) for message in messages):
        yield message
        yield from _files_of(storage / "part", message)


def read_session(path: Path) -> Iterator[Line]:
    """All of each of its files. Raises OSError, also where OpenCode takes a file away meanwhile."""
    storage = path.absolute().parents[2]
    for file in session_files(path):
        data = _read(file, LONGEST_LINE + 1)
        whole = data if len(data) <= LONGEST_LINE else None
        yield Line(START, whole, len(data), terminated=False, file=file.relative_to(storage).as_posix())


def _files_of(folder: Path, owner: Path) -> list[Path]:
    """What lies in the folder that is called after the owner's id, which mostly is the name of its file."""
    names = {owner.stem, _decoded(owner).get("id")}
    folders = [folder / name for name in names if isinstance(name, str) and Path(name).name == name]
    files = [file for each in folders if each.is_dir() for file in each.iterdir()]
    return sorted(file for file in files if file.suffix == ".json" and file.is_file())


def _age(record: dict[str, Any]) -> tuple[bool, float]:
    """When a message was made, for sorting; those that do not tell come last, by their names."""
    time = record.get("time")
    created = time.get("created") if isinstance(time, dict) else None
    return (False, created) if isinstance(created, int | float) else (True, 0)


def _decoded(path: Path) -> dict[str, Any]:
    """The record in a file; nothing where it holds none."""
    try:
        record = msgspec.json.decode(_read(path, _LARGEST_HEAD))
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _read(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)
