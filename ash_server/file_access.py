"""Open the files of transcripts: regular ones only, and where folders are named, only those below them.

What is read is the descriptor that was checked: another program may replace a file, or a folder of its path, at any
moment.
"""

import os
import stat
from collections.abc import Iterable, Sequence
from errno import EINVAL, ELOOP, ENOTDIR, EPERM
from pathlib import Path
from typing import BinaryIO, NamedTuple

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe would block
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_OPENS_IN_FOLDERS = bool(_NO_FOLLOW) and os.open in os.supports_dir_fd


class FileAccess(NamedTuple):
    """The files that may be read."""

    folders: tuple[Path, ...] = ()
    """Resolved folders and files; without any, all files."""
    owner: int | None = None
    """The only user who may own them."""

    @classmethod
    def below(cls, paths: Iterable[Path], owner: int | None = None) -> "FileAccess":
        """Return the access to files below folders as they are now; each may itself be a link."""
        return cls(tuple(map(real_path, paths)), owner)

    def check_place(self, path: Path, resolved: Path) -> None:
        """Raises OSError for a path that leads elsewhere."""
        if self.folders:
            self._folder_of(path, resolved)

    def open(self, path: Path) -> BinaryIO:
        """Raises OSError."""
        descriptor = self._open(path)
        try:
            self._check(path, os.fstat(descriptor))
            return os.fdopen(descriptor, "rb")
        except OSError:
            os.close(descriptor)
            raise

    def _open(self, path: Path) -> int:
        if not self.folders:
            return os.open(path, _READ)
        resolved = real_path(path)
        folder = self._folder_of(path, resolved)
        try:
            return _open_below(folder, resolved.relative_to(folder).parts)
        except OSError as error:
            is_replaced = error.errno in (ELOOP, ENOTDIR)
            reason = "replaced by a link meanwhile" if is_replaced else error.strerror
            raise OSError(error.errno, reason, str(path)) from None

    def _folder_of(self, path: Path, resolved: Path) -> Path:
        folder = next((each for each in self.folders if resolved.is_relative_to(each)), None)
        if folder is None:
            raise OSError(EPERM, f"leads to {resolved}, outside of the folders to read", str(path))
        return folder

    def _check(self, path: Path, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise OSError(EINVAL, "not a regular file", str(path))
        if self.owner is not None and status.st_uid != self.owner:
            raise OSError(EPERM, "belongs to another user", str(path))


ANY_FILE = FileAccess()


def current_user() -> int | None:
    """Return the id of the user of this process; None where there are none."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def real_path(path: Path) -> Path:
    """Return the absolute path with links resolved; a loop of links stays as it is."""
    return Path(os.path.realpath(path))


def _open_below(folder: Path, names: Sequence[str]) -> int:
    """Open a file without following a link, step by step where the system can: a folder may be replaced, too."""
    if not (names and _OPENS_IN_FOLDERS):
        return os.open(folder.joinpath(*names), _READ | _NO_FOLLOW)
    *between, last = names
    descriptor = os.open(folder, _FOLDER)
    for name, flags in [*((each, _FOLDER) for each in between), (last, _READ | _NO_FOLLOW)]:
        outer = descriptor
        try:
            descriptor = os.open(name, flags, dir_fd=outer)
        finally:
            os.close(outer)
    return descriptor
