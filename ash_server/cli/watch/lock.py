"""Locks of commands that run once: one `ash watch` per ASH_HOME."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import rich_click as click

from ash_server.settings import Settings


@contextmanager
def watching() -> Iterator[Path]:
    """Hold the lock of ASH_HOME, which is returned, until the process ends.

    Raises ClickException if another process holds it.
    """
    home = Settings.load().home
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / "watch.lock", "another `ash watch` is running with this ASH_HOME"):
        yield home


@contextmanager
def locked(path: Path, problem: str) -> Iterator[None]:
    """Hold the lock of a file. Raises ClickException with `problem` if another process holds it."""
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(descriptor, 20, 0).decode() or "unknown"
            raise click.ClickException(f"{problem} (process {other})") from None
        with suppress(OSError):  # the number only helps to find the process
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open the file of the lock, which is written: never the target of a link. Raises ClickException."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
