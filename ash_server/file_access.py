"""Open transcript files: only regular ones, optionally only below certain folders.

Checks are made on the open descriptor, because another program may replace a file or a folder of its path at any time.
"""

import os
import stat
from collections.abc import Iterable, Sequence
from errno import EINVAL, ELOOP, ENOTDIR, EPERM
from pathlib import Path
from typing import BinaryIO, NamedTuple

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # opening a pipe would block
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_OPENS_IN_FOLDERS = bool(_NO_FOLLOW) and os.open in os.supports_dir_fd


class FileAccess(NamedTuple):
    """The files that may be read."""

    folders: tuple[Path, ...] = ()
    """Resolved folders and files; if empty, all files may be read."""
    owner: int | None = None
    """The user id that must own the files; None: any."""

    @classmethod
    def below(cls, paths: Iterable[Path], owner: int | None = None) -> "FileAccess":
        """Allow files below these folders, which are resolved now and may be links."""
        return cls(tuple(map(real_path, paths)), owner)

    def check_place(self, path: Path, resolved: Path) -> None:
        """Raises OSError if the path leads outside the folders."""
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
    """Return the user id of the process; None on systems without user ids."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def real_path(path: Path) -> Path:
    """Return the absolute path with links resolved; a loop of links is kept."""
    return Path(os.path.realpath(path))


def may_exist(path: Path) -> bool:
    """True if there is something at a path, readable or not, or if this is unknown."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _open_below(folder: Path, names: Sequence[str]) -> int:
    """Open a file without following links, folder by folder if the system supports it, so that none can be replaced."""
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
