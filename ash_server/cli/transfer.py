"""`ash import` and `ash export`."""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, get_args
from uuid import UUID

import click
from psycopg import AsyncConnection
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ash_server.cli.output.terminal import complain, counted, errors, visible
from ash_server.cli.store import one_session
from ash_server.db.sessions import Session, list_sessions, set_parent
from ash_server.errors import AshError
from ash_server.transfer.exporting.jsonl import FORMATS, ExportFormat
from ash_server.transfer.importing.compressed import text_size
from ash_server.transfer.importing.file_import import ImportedFile, import_file
from ash_server.transfer.importing.parents import find_parent
from ash_server.transfer.importing.result import ImportResult, Outcome, Problem
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
from ash_shared.providers import discover as discover_providers

_SHOWN_PROBLEMS = 20
_ENDINGS = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"


@dataclass(frozen=True)
class Wishes:
    """How files are imported."""

    source: str | None = None
    name: str | None = None
    """What the session is called, which only one file can be."""
    replace: bool = False


@dataclass
class Report:
    """What became of everything that was named."""

    imported: dict[Path, ImportedFile] = field(default_factory=dict)
    unread: list[tuple[str, str]] = field(default_factory=list)
    """What could not be read at all, and why."""
    total: ImportResult = field(default_factory=ImportResult)
    seconds: float = 0

    @property
    def complete(self) -> bool:
        """Whether every line of every file is in the store, as it reads now."""
        return not (self.unread or self.total.problems)

    def add(self, path: Path, imported: ImportedFile) -> None:
        self.imported[path] = imported
        self.total.add(imported.result)

    def add_unread(self, error: OSError) -> None:
        self.unread.append((str(error.filename), error.strerror or str(error)))


def warn_of_source(source: str | None) -> None:
    """It may be mistyped; or a format that a later Ash reads, so nothing is refused."""
    known = discover_providers()
    if source is not None and source not in known:
        complain(f"no provider is called {source!r}; the known ones are {', '.join(known)}")


async def import_paths(conn: AsyncConnection, paths: Iterable[Path], wishes: Wishes) -> Report:
    """Goes on behind whatever cannot be imported."""
    report = Report()
    homes = find_homes(os.environ, Path.home())
    await _import_files(conn, _find(paths, homes, report), homes, wishes, report)
    return report


async def import_discovered(conn: AsyncConnection, wishes: Wishes) -> Report:
    """The transcripts of every CLI, where it keeps them."""
    report = Report()
    homes = find_homes(os.environ, Path.home())
    files = [path for home in homes for path in find_transcripts(home, report.add_unread)]
    await _import_files(conn, files, homes, wishes, report)
    return report


async def _import_files(
    conn: AsyncConnection, files: list[Path], homes: list[Home], wishes: Wishes, report: Report
) -> None:
    started = time.monotonic()
    if wishes.name is not None and len(files) > 1:
        raise click.UsageError(f"--as names one session, but there are {len(files)} files.")
    with _progress(sum(map(_size, files))) as advance:
        for path in files:
            try:
                report.add(path, await _import_file(conn, path, homes, wishes, advance))
            except OSError as error:
                report.add_unread(error)
            except AshError as error:
                report.unread.append((str(path), error.detail))
    report.seconds = round(time.monotonic() - started, 3)


async def _import_file(
    conn: AsyncConnection, path: Path, homes: list[Home], wishes: Wishes, advance: Callable[[int], None]
) -> ImportedFile:
    name = wishes.name or external_id(path, homes)
    source = wishes.source or source_at(path, homes)
    imported = await import_file(conn, path, name, source=source, replace=wishes.replace, advance=advance)
    if parent_id := find_parent(path, imported.head, homes):
        await set_parent(conn, imported.session_id, parent_id)
    return imported


def print_report(report: Report) -> None:
    counts = report.total.counts
    sessions = counted(len(report.imported), "session")
    click.echo(
        f"{sessions}, messages: {counts['new']} new, {counts['existing']} already there, "
        f"{counts['changed']} changed, {counts['refused']} refused"
        f"{_incomplete(counts['incomplete'])}, in {report.seconds} s"
    )


def _incomplete(count: int) -> str:
    it_is = "it is" if count == 1 else "they are"
    return f", {count} incomplete, to be imported when {it_is} whole" if count else ""


def print_report_json(report: Report) -> None:
    sessions = [_session_report(path, imported) for path, imported in report.imported.items()]
    unread = [{"path": visible(path), "reason": reason} for path, reason in report.unread]
    summary = {**_counts(report.total), "seconds": report.seconds}
    click.echo(json.dumps({"sessions": sessions, "unread": unread, **summary}))


def complain_of(report: Report) -> None:
    """What is not in the store, or not as it reads now."""
    for unread, reason in report.unread:
        complain(f"{unread}: {reason}")
    for path, imported in report.imported.items():
        _complain_of_lines(path, imported.result)
    if report.total.counts["changed"]:
        complain("existing messages were kept; use --replace to re-import")


def _complain_of_lines(path: Path, tally: ImportResult) -> None:
    for problem in tally.problems[:_SHOWN_PROBLEMS]:
        complain(f"{_place(path, problem)}: {problem.kind}: {problem.reason} (at byte {problem.offset})")
    rest = tally.counts["changed"] + tally.counts["refused"] - _SHOWN_PROBLEMS
    if rest > 0:
        complain(f"{path}: and {rest} lines more")


def _place(path: Path, problem: Problem) -> str:
    return f"{path}:{problem.line}" if problem.file is None else f"{path}: {problem.file}:{problem.line}"


def _session_report(path: Path, imported: ImportedFile) -> dict[str, Any]:
    problems = [_problem_report(problem) for problem in imported.result.problems]
    named = {"id": str(imported.session_id), "externalId": imported.name, "source": imported.head.source}
    return {**named, "path": visible(str(path)), **_counts(imported.result), "problems": problems}


def _problem_report(problem: Problem) -> dict[str, Any]:
    return {name: value for name, value in problem._asdict().items() if value is not None}


def _counts(tally: ImportResult) -> dict[str, int]:
    return {outcome: tally.counts[outcome] for outcome in get_args(Outcome)}


def _find(paths: Iterable[Path], homes: list[Home], report: Report) -> list[Path]:
    """Each file once, however often and by whatever name it is reached."""
    found: dict[Path, Path] = {}
    for path in paths:
        errors_before = len(report.unread)
        files = list(find_files(path, homes, report.add_unread))
        if not files and len(report.unread) == errors_before:
            report.unread.append((str(path), f"no file in it ends with {_ENDINGS}"))
        for file in files:
            found.setdefault(uncompressed(real_path(file)), file)
    return list(found.values())


def _size(path: Path) -> int:
    try:
        return sum(map(text_size, open_transcript(path).files()))
    except OSError:  # told when it is opened
        return 0


@contextmanager
def _progress(size: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, which goes away at the end; none where nobody watches."""
    console = errors()
    columns = (TextColumn("importing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=size)
        yield lambda done: progress.advance(task, done)


async def export_one(conn: AsyncConnection, reference: str, target: Path | None, form: str) -> None:
    """To a file, or to standard output."""
    session = await one_session(conn, reference)
    await _export(conn, session.id, target, FORMATS[form])


async def export_all(conn: AsyncConnection, folder: Path, form: str) -> int:
    """Each to a file that has its id for a name; answers how many."""
    count = 0
    async for session in _all_sessions(conn):
        await _export(conn, session.id, folder / f"{session.id}{FORMATS[form].suffix}", FORMATS[form])
        count += 1
    return count


async def _all_sessions(conn: AsyncConnection) -> AsyncIterator[Session]:
    after: str | None = None
    while True:
        page = await list_sessions(conn, after=after, limit=1000)
        for session in page.sessions:
            yield session
        if page.next_after is None:
            return
        after = page.next_after


async def _export(conn: AsyncConnection, session_id: UUID, target: Path | None, form: ExportFormat) -> None:
    with _open_target(target) as file:
        async with aclosing(form.export(conn, session_id)) as pieces:
            async for piece in pieces:
                file.write(piece)


@contextmanager
def _open_target(target: Path | None) -> Iterator[BinaryIO]:
    """A file that is there already is replaced once everything is written."""
    if target is None:
        yield sys.stdout.buffer
    elif target.exists() and not target.is_file():  # a pipe, a device
        with target.open("wb") as file:
            yield file
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.part")
        with partial.open("wb") as file:
            yield file
        partial.replace(target)
