"""Sessions of OpenCode, which keeps each in many small files and rewrites them while it runs.

Below its storage lie `session/<project>/<session>.json`, `message/<session>/<message>.json` and
`part/<message>/<part>.json`. The session's file stands for all of them. Each file becomes one message of Ash, its text
as it is; its id follows from its path, so importing again adds the files that came and reports those that changed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid5

import msgspec
from psycopg import AsyncConnection

from ash_server.db.messages import NewMessage, append, get_contents
from ash_server.ingest import new_message
from ash_server.transfer.lines import LONGEST_LINE, START, Line, batched
from ash_server.transfer.tally import REWRITTEN, Problem, Tally, text_of

SOURCE = "opencode"

_LARGEST_HEAD = 32 * 1024 * 1024
"""A larger file of a message is imported, but its id and its time are those of its name."""


class Piece(NamedTuple):
    """One file of a session."""

    name: str
    """Its path below the storage."""
    line: Line
    """All of it."""

    @property
    def size(self) -> int:
        return self.line.size


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


def read_session(path: Path) -> Iterator[Piece]:
    """Raises OSError, also where OpenCode takes a file away meanwhile."""
    storage = path.absolute().parents[2]
    for file in session_files(path):
        data = _read(file, LONGEST_LINE + 1)
        whole = data if len(data) <= LONGEST_LINE else None
        yield Piece(file.relative_to(storage).as_posix(), Line(START, whole, len(data), terminated=False))


async def import_session(
    conn: AsyncConnection,
    session_id: UUID,
    path: Path,
    source: str | None,
    advance: Callable[[int], None],
) -> Tally:
    """Into a session that is there; the tally counts files. Raises OSError."""
    tally = Tally()
    for batch in batched(read_session(path)):
        pieces = {str(uuid5(session_id, piece.name)): piece for piece in batch}
        stored = await get_contents(conn, session_id, list(pieces))
        held = {id: _hold(piece, stored.get(id)) for id, piece in pieces.items()}
        new = [_message(session_id, id, text, source) for id, text in held.items() if isinstance(text, str)]
        if new:
            places = await append(conn, session_id, new)
            tally.counts.update("new" if place.created else "existing" for place in places)
        tally.counts["existing"] += list(held.values()).count(None)
        for problem in held.values():
            if isinstance(problem, Problem):
                tally.report(problem)
        advance(sum(piece.size for piece in batch))
    return tally


def _hold(piece: Piece, stored: str | None) -> str | Problem | None:
    """The text, where it is new; None where it is stored as it reads now."""
    if stored is None:
        text = text_of(piece.line)
        return text._replace(file=piece.name) if isinstance(text, Problem) else text
    if piece.line.data == stored.encode():
        return None
    return Problem("changed", *START, REWRITTEN, piece.name)


def _message(session_id: UUID, id: str, text: str, source: str | None) -> NewMessage:
    return new_message(session_id, text, id=id, source=source or SOURCE)


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
