"""Files that appear with their whole content, or not at all."""

import os
import secrets
from pathlib import Path

OWNER_ONLY = 0o600


def write_file(path: Path, text: str, mode: int = OWNER_ONLY) -> None:
    """Write or replace a file. Raises OSError."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
