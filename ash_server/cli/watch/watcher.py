"""Store transcripts while they change: the most recently changed one first."""

import os
import time
from asyncio import Event, TaskGroup, current_task
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import ExitStack
from errno import ENOENT
from pathlib import Path
from typing import Any, NamedTuple

from ash_server.cli.import_.files import ImportReport, progress_bar
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.cli.import_.report import report_additions
from ash_server.cli.watch.changed_files import ChangedFiles, FileStamps
from ash_server.cli.watch.file_events import changes
from ash_server.transfer.importing.databases.sessions import SharedSnapshots
from ash_server.transfer.importing.file_import import ImportedFile

FileOutcome = ImportedFile | UnreadFile
Advance = Callable[[int], None]
StoreFile = Callable[[Path, Advance], Awaitable[FileOutcome]]


class Target(NamedTuple):
    """Where transcripts are stored."""

    store_file: StoreFile
    action: str
    """As in "3 messages stored in session"."""
    concurrent: int
    """Number of files that are stored at once, so that a long one does not delay the others."""
    on_first_report: Callable[[ImportReport], None]
    """Receives the outcome of the files that exist at the start."""


class Pending:
    """Files that wait to be stored. Each is stored by one task or process at a time."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Path, FileStamps]] = []
        """The most recently changed one last."""
        self._running: dict[Path, FileStamps] = {}
        self._filled = Event()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def count(self) -> int:
        return len(self._waiting)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(stamps.size for _, stamps in self._waiting)

    @property
    def running(self) -> Collection[Path]:
        return self._running.keys()

    def replace(self, changed: Mapping[Path, FileStamps]) -> None:
        waiting = [each for each in changed.items() if each[0] not in self._running]
        self._waiting = sorted(waiting, key=lambda each: each[1].changed_at)
        self._wake()

    def add(self, path: Path, stamps: FileStamps) -> None:
        self._waiting.append((path, stamps))
        self._wake()

    def pop(self) -> Path:
        path, stamps = self._waiting.pop()
        self._running[path] = stamps
        return path

    async def take(self) -> Path:
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        return self.pop()

    def finish(self, path: Path) -> FileStamps:
        """Return the stamps that the file had when it was found."""
        return self._running.pop(path)

    def _wake(self) -> None:
        if self._waiting:
            self._filled.set()


class Watcher:
    """Stores the files that change, until the process ends."""

    def __init__(self, files: ChangedFiles, snapshots: SharedSnapshots, target: Target) -> None:
        self.pending = Pending()
        self._files = files
        self._snapshots = snapshots
        self._target = target
        self._first: set[Path] = set()
        """Files that existed at the start and are not stored yet."""
        self._first_report: ImportReport | None = ImportReport()
        self._start = time.monotonic()
        self._progress = ExitStack()
        self._advance: Advance = _ignore

    async def run(self, *helpers: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the helpers, which store pending files, too, once the files that exist are listed."""
        try:
            with self._progress:
                async with TaskGroup() as group:
                    is_first = True
                    async for _ in changes(lambda: self._files.access.folders):
                        self._snapshots.renew()
                        self._find(is_first=is_first)
                        if is_first:
                            for work in (*[self._store_pending] * self._target.concurrent, *helpers):
                                group.create_task(work())
                        is_first = False
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def advance(self, size: int) -> None:
        self._advance(size)

    def finish(self, path: Path, outcome: FileOutcome) -> None:
        """Remember and report what was stored of a file that was taken from `pending`."""
        stamps, report = self.pending.finish(path), ImportReport()
        if isinstance(outcome, UnreadFile):
            self._files.remember_failure(path, stamps)
            if outcome.reason != os.strerror(ENOENT):  # deleted since, which is reported as a loss
                report.add(path, outcome)
        else:
            report.add(path, outcome)
            self._files.remember(path, stamps, outcome)
            if self._files.is_changed(path):
                self.pending.add(path, self._files.stamps(path))
        if self._first_report is None:
            self._report(report)
            return
        self._first_report.add_report(report)
        self._first.discard(path)
        self._finish_first()

    def _find(self, *, is_first: bool) -> None:
        report = ImportReport()
        changed = self._files.find(report)
        self.pending.replace(changed)
        if self._first_report is None:
            self._report(report)
            return
        self._first_report.add_report(report)
        if is_first:
            self._first = {*changed}
            self._advance = self._progress.enter_context(progress_bar(self.pending.size, "storing"))
        self._first &= {*changed, *self.pending.running}
        self._finish_first()

    async def _store_pending(self) -> None:
        # `asyncio.wait_for` of Python 3.11, which the pool of psycopg uses, may return instead of being cancelled.
        while not _is_cancelled():
            path = await self.pending.take()
            self.finish(path, await self._target.store_file(path, self.advance))

    def _finish_first(self) -> None:
        """Report what was stored of the files that existed at the start, once this is all."""
        if self._first_report is None or self._first:
            return
        report, self._first_report = self._first_report, None
        self._progress.close()
        self._files.remove_reported(report)
        report.seconds = round(time.monotonic() - self._start, 3)
        self._target.on_first_report(report)

    def _report(self, report: ImportReport) -> None:
        self._files.remove_reported(report)
        report_additions(report, self._target.action)


def _is_cancelled() -> bool:
    task = current_task()
    return task is not None and task.cancelling() > 0


def _ignore(_: int) -> None:
    pass
