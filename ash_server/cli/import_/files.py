"""Import of many files with a progress bar."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ash_server.cli.output.terminal import stderr_console
from ash_server.errors import AshError
from ash_server.store import Store
from ash_server.transfer.importing.compressed import text_size
from ash_server.transfer.importing.file_import import ImportedFile, import_file
from ash_server.transfer.importing.parents import find_parent
from ash_server.transfer.importing.result import ImportResult
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import (
    SUFFIXES,
    Home,
    external_id,
    find_files,
    find_homes,
    find_transcripts,
    real_path,
    source_at,
    uncompressed,
)

_SUFFIX_LIST = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"


@dataclass(frozen=True)
class ImportOptions:
    source: str | None = None
    name: str | None = None
    """External id of the session, for a single file."""
    replace: bool = False


@dataclass
class ImportReport:
    """Outcome of importing many files."""

    imported: dict[Path, ImportedFile] = field(default_factory=dict)
    unread: list[tuple[str, str]] = field(default_factory=list)
    """Paths that could not be read, and why."""
    total: ImportResult = field(default_factory=ImportResult)
    seconds: float = 0

    @property
    def session_ids(self) -> list[UUID]:
        return [each.session_id for each in self.imported.values() if each.has_session]

    @property
    def complete(self) -> bool:
        """True if every line of every file is stored with its current text."""
        return not (self.unread or self.total.problems)

    def add(self, path: Path, imported: ImportedFile) -> None:
        self.imported[path] = imported
        self.total.add(imported.result)

    def add_unread(self, error: OSError) -> None:
        self.unread.append((str(error.filename), error.strerror or str(error)))


async def import_paths(store: Store, paths: Iterable[Path], options: ImportOptions) -> ImportReport:
    """Import files and folders; continue after those that fail."""
    report = ImportReport()
    homes = find_homes(os.environ, Path.home())
    await _import_files(store, _list_files(paths, homes, report), homes, options, report)
    return report


async def import_discovered(store: Store, options: ImportOptions) -> ImportReport:
    """Import the transcripts of every CLI of this machine."""
    report = ImportReport()
    homes = find_homes(os.environ, Path.home())
    files = [path for home in homes for path in find_transcripts(home, report.add_unread)]
    await _import_files(store, files, homes, options, report)
    return report


async def _import_files(
    store: Store, files: list[Path], homes: list[Home], options: ImportOptions, report: ImportReport
) -> None:
    start = time.monotonic()
    if options.name is not None and len(files) > 1:
        raise click.UsageError(f"--as names one session, but there are {len(files)} files.")
    with _progress_bar(sum(map(_text_size, files))) as advance:
        for path in files:
            try:
                report.add(path, await _import_file(store, path, homes, options, advance))
            except OSError as error:
                report.add_unread(error)
            except AshError as error:
                report.unread.append((str(path), error.detail))
    report.seconds = round(time.monotonic() - start, 3)


async def _import_file(
    store: Store, path: Path, homes: list[Home], options: ImportOptions, advance: Callable[[int], None]
) -> ImportedFile:
    name = options.name or external_id(path, homes)
    source = options.source or source_at(path, homes)
    imported = await import_file(store, path, name, source=source, replace=options.replace, advance=advance)
    if imported.has_session and (parent := find_parent(path, imported.head, homes)):
        await store.sessions.set_parent(imported.session_id, *parent)
    return imported


def _list_files(paths: Iterable[Path], homes: list[Home], report: ImportReport) -> list[Path]:
    """List each file once, even if several paths lead to it."""
    by_real_path: dict[Path, Path] = {}
    for path in paths:
        errors_before = len(report.unread)
        files = list(find_files(path, homes, report.add_unread))
        if not files and len(report.unread) == errors_before:
            report.unread.append((str(path), f"no file in it ends with {_SUFFIX_LIST}"))
        for file in files:
            by_real_path.setdefault(uncompressed(real_path(file)), file)
    return list(by_real_path.values())


def _text_size(path: Path) -> int:
    try:
        return sum(map(text_size, open_transcript(path).files()))
    except OSError:  # reported when the file is opened
        return 0


@contextmanager
def _progress_bar(size: int) -> Iterator[Callable[[int], None]]:
    """Show a temporary bar on standard error, if that is a terminal."""
    console = stderr_console()
    columns = (TextColumn("importing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=size)
        yield lambda done: progress.advance(task, done)
