"""Watch transcripts for changes."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

from ash_server.cli.common.output.terminal import warn
from ash_server.cli.import_.files import ImportReport, list_files
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.file_access import ANY_FILE, FileAccess, current_user
from ash_server.transfer.importing.databases.codex_names import SessionName
from ash_server.transfer.importing.transcript import Stamps, open_transcript, places_of
from ash_server.transfer.importing.transcript_files import Home, find_homes, find_transcripts
from ash_server.transfer.titles import name_of

POLL_SECONDS = 60.0
"""Time after which files are compared without an event: file systems of a network send none."""
_SETTLE_SECONDS = 3.0
_COLLECT_MS = 500
"""Longest time between the first of several changes and the comparison."""


class FileStamps(NamedTuple):
    """Values that change with a transcript."""

    files: Stamps
    name: SessionName | None


class ChangedFiles:
    """Transcripts below some paths, or of the agents on this machine, that changed since they were remembered."""

    def __init__(self, paths: Sequence[Path], within: Sequence[Path] = (), *, watches: bool) -> None:
        self._paths = paths
        self.homes = find_homes(os.environ, Path.home())
        self.access = _access(paths, within, self.homes, watches=watches)
        self._known: dict[Path, FileStamps] = {}
        self._seen: dict[Path, FileStamps] = {}
        self._reported: set[UnreadFile] = set()
        """The errors of the last attempts; each is reported once."""

    def find(self, report: ImportReport) -> dict[Path, FileStamps]:
        """Return the changed files; errors are added to the report."""
        stamps = {path: _stamps(path, self.access) for path in self._list(report)}
        self._warn_of_losses(stamps)
        self._seen = stamps
        return {path: each for path, each in stamps.items() if self._known.get(path) != each}

    def remember(self, path: Path, stamps: FileStamps) -> None:
        self._known[path] = stamps

    def remove_reported(self, report: ImportReport) -> None:
        report.unread = [each for each in report.unread if each not in self._reported]
        self._reported |= {*report.unread}

    def _warn_of_losses(self, stamps: Mapping[Path, FileStamps]) -> None:
        """Warn of files that were deleted or truncated before their last seen state was stored."""
        for path, seen in self._seen.items():
            known = self._known.get(path)
            if known != seen and _size(stamps.get(path)) < _size(seen):
                warn(f"{path}: deleted or truncated after {_size(seen)} bytes; {_size(known)} were stored")

    def _list(self, report: ImportReport) -> Iterable[Path]:
        if self._paths:
            return list_files(self._paths, self.homes, report, self.access)
        return (
            path for home in self.homes for path in find_transcripts(home, report.add_unread, self.access)
        )


async def changes(folders: Callable[[], Iterable[Path]]) -> AsyncGenerator[None, None]:
    """Yield at once, after changes below the folders, and after `POLL_SECONDS` without one.

    Folders that appear later are watched after the next poll. If the system cannot watch more folders, yield every
    three seconds.
    """
    while True:
        watched = _existing(folders)
        try:
            async with aclosing(_events(watched)) as events:
                async for _ in events:
                    yield
                    if _existing(folders) != watched:
                        break
        except (OSError, RuntimeError) as error:
            warn(f"the system watches no more folders ({error}): comparing files every 3 seconds")
            while True:
                yield
                await asyncio.sleep(_SETTLE_SECONDS)


async def _events(watched: Iterable[Path]) -> AsyncGenerator[None, None]:
    from watchfiles import awatch

    watcher = awatch(
        *watched,
        debounce=_COLLECT_MS,
        rust_timeout=int(POLL_SECONDS * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    pending: asyncio.Task[set[Any]] | None = None
    has_changes = True
    try:
        while True:
            # Started before the files are compared, so that no change is missed meanwhile.
            pending = pending or asyncio.create_task(_next(watcher))
            await asyncio.sleep(0)
            yield
            # A file may be in a new folder before the system watches it: the files are compared once more.
            done, _ = await asyncio.wait({pending}, timeout=_SETTLE_SECONDS if has_changes else None)
            has_changes = bool(done and pending.result())
            pending = None if done else pending
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        await watcher.aclose()


async def _next(watcher: AsyncGenerator[set[Any], None]) -> set[Any]:
    return await anext(watcher)  # a task needs a coroutine


def _existing(folders: Callable[[], Iterable[Path]]) -> set[Path]:
    return {folder for folder in folders() if folder.exists()}


def _size(stamps: FileStamps | None) -> int:
    return sum(size for _, size in stamps.files) if stamps else 0


def _access(
    paths: Sequence[Path], within: Sequence[Path], homes: Sequence[Home], *, watches: bool
) -> FileAccess:
    """Return the files that may be read. While watching, links cannot lead to others."""
    if within:
        return FileAccess.below(within, current_user())
    if not watches:
        return ANY_FILE
    folders = [folder for home in homes for folder in home.transcript_folders()]
    return FileAccess.below([each for path in paths for each in places_of(path)] or folders)


def _stamps(path: Path, access: FileAccess) -> FileStamps:
    """Return the stamps of a transcript; empty if it cannot be read, which is reported when it is sent."""
    try:
        return FileStamps(open_transcript(path, access).stamps(), name_of(path, access))
    except OSError:
        return FileStamps((), None)
