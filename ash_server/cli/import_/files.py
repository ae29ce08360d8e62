"""Import of many files with a progress bar."""

import asyncio
import os
import time
from asyncio import TaskGroup
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import click

from ash_server.cli.common.output.terminal import counted, stderr_console, warn
from ash_server.cli.import_.one_file import UnreadFile, import_one_file
from ash_server.cli.import_.options import ImportOptions
from ash_server.cli.import_.pipe import ImportJob
from ash_server.cli.import_.processes import import_in_process
from ash_server.file_access import ANY_FILE, FileAccess, real_path
from ash_server.garbage import rare_collections
from ash_server.store import Store
from ash_server.store.transcripts import Copy
from ash_server.transfer.importing.databases.sessions import SharedSnapshots, share_snapshots
from ash_server.transfer.importing.file_import import ImportedFile
from ash_server.transfer.importing.result import ImportResult
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import (
    SUFFIXES,
    Home,
    find_files,
    find_homes,
    find_transcripts,
    uncompressed,
    without_repeated,
)

_NO_TRANSCRIPT = (
    f"no file in it ends with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, "
    "and no Markdown file in it contains a chat of Aider"
)


_MIN_PROCESS_BYTES = 8 * 1024 * 1024
"""Bytes to import per further process: starting one takes as long as importing a few megabytes."""


@dataclass
class ImportReport:
    """Outcome of importing many files."""

    imported: dict[Path, ImportedFile] = field(default_factory=dict)
    unread: list[UnreadFile] = field(default_factory=list)
    total: ImportResult = field(default_factory=ImportResult)
    copies: Mapping[UUID, Copy] = field(default_factory=dict)
    """The marks of the sessions that are copies or forks."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Numbers of files in folders that are no transcripts by their names, by suffix."""
    seconds: float = 0

    @property
    def session_ids(self) -> list[UUID]:
        """The sessions of the files, each once."""
        sessions = (each for imported in self.imported.values() for each in imported.sessions())
        return list(dict.fromkeys(each.session_id for each in sessions))

    @property
    def complete(self) -> bool:
        """True if every line of every file is stored with its current text."""
        return not (self.unread or self.total.problems)

    def add(self, path: Path, outcome: ImportedFile | UnreadFile) -> None:
        if isinstance(outcome, UnreadFile):
            self.unread.append(outcome)
        else:
            self.imported[path] = outcome
            for each in (outcome, *outcome.embedded):
                self.total.add(each.result)

    def add_report(self, other: "ImportReport") -> None:
        """Add the outcomes of further files."""
        self.imported |= other.imported
        self.unread += other.unread
        self.skipped |= other.skipped
        self.total.add(other.total)

    def add_unread(self, error: OSError) -> None:
        self.unread.append(UnreadFile.from_error(error))

    def add_skipped(self, path: Path) -> None:
        self.skipped[path.suffix] += 1


async def import_paths(store: Store, paths: Iterable[Path], options: ImportOptions) -> ImportReport:
    """Import files and folders; continue after those that fail."""
    report = ImportReport()
    homes = find_homes(os.environ, Path.home())
    with share_snapshots() as snapshots:
        files = list_files(paths, homes, report, options.access, source=options.source)
        await _import_files(store, files, homes, options, report, snapshots)
    return report


async def import_discovered(store: Store, options: ImportOptions) -> ImportReport:
    """Import the transcripts of every CLI on this machine."""
    report = ImportReport()
    homes = find_homes(os.environ, Path.home())
    with share_snapshots() as snapshots:
        files = [path for home in homes for path in find_transcripts(home, report.add_unread)]
        await _import_files(store, files, homes, options, report, snapshots)
    return report


async def _import_files(
    store: Store,
    files: list[Path],
    homes: list[Home],
    options: ImportOptions,
    report: ImportReport,
    snapshots: SharedSnapshots,
) -> None:
    start = time.monotonic()
    if options.name is not None and len(files) > 1:
        raise click.UsageError(f"--as names one session, but there are {len(files)} files.")
    outcomes: dict[Path, ImportedFile | UnreadFile] = {}
    try:
        with rare_collections():
            async with store.flushing_once():
                await import_files(store, files, homes, options, snapshots, outcomes)
    except asyncio.CancelledError:
        warn(f"imported {len(outcomes)} of {counted(len(files), 'file')}; import again to continue")
        raise
    for path in files:
        report.add(path, outcomes[path])
    sessions = await store.sessions.get_many(report.session_ids)
    report.copies = {
        each.id: Copy(each.copy_of, each.copied_messages or 0)
        for each in sessions
        if each.copy_of is not None
    }
    report.seconds = round(time.monotonic() - start, 3)


async def import_files(
    store: Store,
    files: list[Path],
    homes: list[Home],
    options: ImportOptions,
    snapshots: SharedSnapshots,
    outcomes: dict[Path, ImportedFile | UnreadFile],
) -> None:
    """Import the files from the smallest one on here, and from the largest one on in other processes.

    Needs `Store.flushing_once`.
    """
    job = ImportJob(store.url, homes, options, snapshots, defers_flushes=True)
    sizes = {path: text_size_of(path, options.access) for path in files}
    total = sum(sizes.values())
    other_processes = count_processes(options.jobs, len(files), total)
    # Files may be imported in any order: the order does not decide which session a file belongs to.
    pending = deque(sorted(files, key=sizes.__getitem__) if other_processes > 0 else files)
    with progress_bar(total, "importing") as advance:
        async with TaskGroup() as group:
            for _ in range(other_processes):
                group.create_task(import_in_process(job, pending, outcomes.__setitem__, advance))
            while pending:
                path = pending.popleft()
                outcomes[path] = await import_one_file(store, path, homes, options, advance)


def count_processes(jobs: int, files: int, size: int) -> int:
    """Return the number of other processes that are worth their start, for files with this total size."""
    return min(jobs, files, 1 + size // _MIN_PROCESS_BYTES) - 1


def list_files(
    paths: Iterable[Path],
    homes: list[Home],
    report: ImportReport,
    access: FileAccess = ANY_FILE,
    *,
    source: str | None = None,
) -> list[Path]:
    """List each file once, even if several paths lead to it. `source` is the declared format of files."""
    by_real_path: dict[Path, Path] = {}
    for path in paths:
        errors_before = len(report.unread)
        on_error, on_skipped = report.add_unread, report.add_skipped
        files = list(find_files(path, homes, on_error, access, source=source, on_skipped=on_skipped))
        if not files and len(report.unread) == errors_before:
            reason = _NO_TRANSCRIPT if path.is_dir() else "contains no session"
            report.unread.append(UnreadFile(str(path), reason))
        for file in files:
            by_real_path.setdefault(uncompressed(real_path(file)), file)
    return list(without_repeated(by_real_path.values()))


def text_size_of(path: Path, access: FileAccess = ANY_FILE) -> int:
    try:
        return open_transcript(path, access).size()
    except OSError:  # reported when the file is opened
        return 0


@contextmanager
def progress_bar(size: int, title: str) -> Iterator[Callable[[int], None]]:
    """Show a temporary bar on standard error, if that is a terminal."""
    console = stderr_console()
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=size)
        yield lambda done: progress.advance(task, done)
