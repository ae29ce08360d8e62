"""Put a transcript back where its agent stores transcripts, for example after the agent has deleted it."""

import os
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ash_server.errors import AshError
from ash_server.file_access import real_path
from ash_server.transfer.importing.transcript_files import Home
from ash_shared.model.session import Session

OWNER_ONLY = 0o600
_SUFFIX = ".jsonl"
_BLOCK_BYTES = 1 << 20


class PutBackRefused(AshError):
    status, code, title = 409, "put_back_refused", "The transcript cannot be put back."


def disk_place(session: Session, homes: Iterable[Home]) -> Path:
    """Return the path of a session's transcript, below the folder of its agent. Raises PutBackRefused.

    The name of a session may come from anyone: it must have the form of the agent's own files.
    """
    name = session.external_id or ""
    home = next((each for each in homes if each.agent.id == session.agent), None)
    if home is None or not home.agent.transcript.fullmatch(name) or ".." in PurePosixPath(name).parts:
        raise PutBackRefused("Its transcript is not from the folder of an agent on this machine.")
    if not name.endswith(_SUFFIX):
        raise PutBackRefused(f"Only transcripts in one file {_SUFFIX} can be put back.")
    path = home.path / name
    if not real_path(path).is_relative_to(real_path(home.path)):
        raise PutBackRefused(f"{path} leads outside of {home.path}.")
    return path


async def put_back(path: Path, chunks: AsyncIterator[bytes]) -> None:
    """Write the transcript, complete or not at all. Raises PutBackRefused if there is a file, and any other OSError."""
    digest = sha256()
    with _new_file(path) as file:
        async for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        file.seek(0)
        written = sha256()
        while block := file.read(_BLOCK_BYTES):
            written.update(block)
        if written.digest() != digest.digest():
            raise PutBackRefused(f"{path} was not written as it is stored.")


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears at the path when it is complete. Raises PutBackRefused if there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w+b") as file:
            yield file
            os.fsync(file.fileno())
        os.link(temporary, path)  # unlike a rename, it replaces nothing
    except FileExistsError:
        raise PutBackRefused(f"{path} exists.") from None
    finally:
        temporary.unlink(missing_ok=True)
