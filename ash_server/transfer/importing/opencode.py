"""OpenCode sessions: each is spread over many small files, which OpenCode rewrites while it runs.

Its storage holds `session/<project>/<session>.json`, `message/<session>/<message>.json` and
`part/<message>/<part>.json`. The path of the session file stands for the whole session. Each file becomes one stored
message with unchanged text and an id derived from its path, so importing again adds new files and reports changed ones.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing.lines import MAX_LINE_BYTES, START, FileLine

SOURCE = "opencode"

_MAX_METADATA_BYTES = 32 * 1024 * 1024
"""Larger files are not decoded for their id and time, but still imported."""


def is_session(path: Path) -> bool:
    """True for the path of an OpenCode session file."""
    return path.suffix == ".json" and [each.name for each in path.absolute().parents[1:3]] == [
        "session",
        "storage",
    ]


def storage_of(path: Path) -> Path:
    """Return the storage folder of a session file."""
    return path.absolute().parents[2]


def storage_around(path: Path) -> Path | None:
    """Return the storage folder that contains a session file or a folder of session files; None for other paths."""
    path = path.absolute()
    folders = [each.parent for each in (path, *path.parents) if each.name == "session"]
    return next((each for each in folders if each.name == "storage" and (each / "message").is_dir()), None)


def session_files(path: Path, access: FileAccess = ANY_FILE) -> Iterator[Path]:
    """Yield the session file, then each message by creation time, followed by its parts. Raises OSError."""
    path, storage = path.absolute(), storage_of(path)
    yield path
    messages = _list_files(storage / "message", path, access)
    records = ((_creation_order(_decode_record(message, access)), message) for message in messages)
    for _, message in sorted(records):
        yield message
        yield from _list_files(storage / "part", message, access)


def read_session(path: Path, access: FileAccess = ANY_FILE) -> Iterator[FileLine]:
    """Yield each file as one line. Raises OSError, also if OpenCode deletes a file in the meantime."""
    storage = storage_of(path)
    for file in session_files(path, access):
        data = _read_bytes(file, MAX_LINE_BYTES + 1, access)
        text = data if len(data) <= MAX_LINE_BYTES else None
        yield FileLine(START, text, len(data), terminated=False, file=file.relative_to(storage).as_posix())


def _list_files(folder: Path, owner: Path, access: FileAccess) -> list[Path]:
    """List the files in the folder named after the owner's id, which is usually its file name."""
    names = {owner.stem, _decode_record(owner, access).get("id")}
    folders = [folder / name for name in names if isinstance(name, str) and Path(name).name == name]
    files = [file for each in folders if each.is_dir() for file in each.iterdir()]
    return sorted(file for file in files if file.suffix == ".json" and file.is_file())


def _creation_order(record: dict[str, Any]) -> tuple[bool, float]:
    """Sort key: creation time; records without one come last, by path."""
    time = record.get("time")
    created = time.get("created") if isinstance(time, dict) else None
    return (False, created) if isinstance(created, int | float) else (True, 0)


def _decode_record(path: Path, access: FileAccess) -> dict[str, Any]:
    """Return the JSON object in a file; empty if it holds none."""
    try:
        record = msgspec.json.decode(_read_bytes(path, _MAX_METADATA_BYTES, access))
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _read_bytes(path: Path, size: int, access: FileAccess) -> bytes:
    with access.open(path) as file:
        return file.read(size)
