"""Files that appear with their whole content, or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OWNER_ONLY = 0o600


def write_file(path: Path, text: str, mode: int = OWNER_ONLY) -> None:
    """Write or replace a file. Raises OSError."""
    with _written(path, text) as temporary:
        temporary.chmod(mode)
        temporary.replace(path)


def create_file(path: Path, text: str) -> None:
    """Write a new file. Raises FileExistsError if there is one, and any other OSError."""
    with _written(path, text) as temporary:
        os.link(temporary, path)  # unlike a rename, it replaces nothing


@contextmanager
def _written(path: Path, text: str) -> Iterator[Path]:
    """Write to another file in the same folder, which is deleted at the end."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
