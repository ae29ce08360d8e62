"""Push of many files, once or again and again while they change."""

import asyncio
import os
import time
from asyncio import TaskGroup
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ash_client import ApiError, AsyncAshClient
from ash_server.cli.common.availability import Availability
from ash_server.cli.common.client import FATAL_STATUSES, RETRYABLE_STATUSES, default_url, key_for
from ash_server.cli.common.error_messages import error_message
from ash_server.cli.common.output.terminal import counted, warn
from ash_server.cli.import_.files import ImportReport, list_files, progress_bar, text_size_of
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.cli.import_.report import warn_of_problems
from ash_server.errors import AshError
from ash_server.file_access import ANY_FILE, FileAccess, current_user
from ash_server.store.transcripts import Copy
from ash_server.transfer.importing.databases.codex_names import SessionName
from ash_server.transfer.importing.databases.sessions import share_snapshots
from ash_server.transfer.importing.transcript import Stamps, open_transcript, places_of
from ash_server.transfer.importing.transcript_files import Home, find_homes, find_transcripts
from ash_server.transfer.pushing import Pushed, PushedFile, push_file
from ash_server.transfer.titles import name_of

_CONCURRENT_FILES = 4
_WATCH_SECONDS = 1.0
_ADVICE = "trying again. Nothing is lost: transcripts stay in their files"

_TEMPORARY = RETRYABLE_STATUSES - {500}
"""An internal error of the server may be due to one file, which then must not stop the others."""


class PushOptions(NamedTuple):
    paths: tuple[Path, ...]
    """If empty, all transcripts of the agents on this machine."""
    source: str | None
    url: str | None
    wait: float | None
    """Seconds to wait for an unavailable server; None: without a limit."""
    within: tuple[Path, ...] = ()
    """If set, read only this user's files below these folders."""


class _Stamps(NamedTuple):
    """Values that change with a transcript."""

    files: Stamps
    name: SessionName | None


class _Known(NamedTuple):
    """A file that was pushed."""

    stamps: _Stamps
    pushed: Pushed | None


async def push_paths(
    options: PushOptions, on_report: Callable[[ImportReport], None], *, watches: bool
) -> bool:
    """Push files and folders, and return whether everything is stored; continue after files that fail.

    Raises ApiError if the server does not answer or rejects the key.
    """
    availability = Availability(warn, _ADVICE)
    url = options.url or default_url()
    async with AsyncAshClient(
        url, key_for(url), retry=availability.retry(options.wait, _TEMPORARY)
    ) as server:
        availability.url = server.url
        await server.check_version()
        push = _Push(server, options, watches=watches)
        with share_snapshots() as snapshots:
            report = await push.run()
            on_report(report)
            while watches:
                await asyncio.sleep(_WATCH_SECONDS)
                snapshots.renew()
                _report_changes(await push.run())
        return report.complete


def _report_changes(report: ImportReport) -> None:
    for path, imported in report.imported.items():
        if new := imported.result.counts["new"]:
            warn(f"{path}: {counted(new, 'message')} pushed to session {imported.session_id}")
    if not report.complete:
        warn_of_problems(report)


class _Push:
    """Pushes the files that have changed since the last time."""

    def __init__(self, server: AsyncAshClient, options: PushOptions, *, watches: bool) -> None:
        self._server = server
        self._options = options
        self._homes = find_homes(os.environ, Path.home())
        self._access = _access(options, self._homes, watches=watches)
        self._known: dict[Path, _Known] = {}
        self._reported: set[UnreadFile] = set()
        """The errors of the last attempts; each is reported once."""

    async def run(self) -> ImportReport:
        start, report = time.monotonic(), ImportReport()
        stamps = {path: _stamps(path, self._access) for path in self._list_files(report)}
        changed = [path for path in stamps if not self._is_known(path, stamps[path])]
        outcomes: dict[Path, PushedFile | UnreadFile] = {}
        try:
            await self._push_files(changed, outcomes)
        except asyncio.CancelledError:
            warn(f"pushed {len(outcomes)} of {counted(len(changed), 'file')}; push again to continue")
            raise
        for path in changed:
            outcome = outcomes[path]
            _add(report, path, outcome)
            pushed = outcome.pushed if isinstance(outcome, PushedFile) else None
            self._known[path] = _Known(stamps[path], pushed)
        report.unread = [each for each in report.unread if each not in self._reported]
        self._reported |= {*report.unread}
        report.seconds = round(time.monotonic() - start, 3)
        return report

    def _list_files(self, report: ImportReport) -> Sequence[Path]:
        if self._options.paths:
            return list_files(self._options.paths, self._homes, report, self._access)
        homes, access = self._homes, self._access
        return [path for home in homes for path in find_transcripts(home, report.add_unread, access)]

    def _is_known(self, path: Path, stamps: _Stamps) -> bool:
        return path in self._known and self._known[path].stamps == stamps

    async def _push_files(self, files: Sequence[Path], outcomes: dict[Path, PushedFile | UnreadFile]) -> None:
        slots = asyncio.Semaphore(_CONCURRENT_FILES)

        async def push(path: Path) -> None:
            async with slots:
                outcomes[path] = await self._push_file(path, advance)

        try:
            with progress_bar(sum(text_size_of(each, self._access) for each in files), "pushing") as advance:
                async with TaskGroup() as group:
                    for path in files:
                        group.create_task(push(path))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _push_file(self, path: Path, advance: Callable[[int], None]) -> PushedFile | UnreadFile:
        known = self._known.get(path)
        try:
            return await push_file(
                self._server,
                path,
                self._homes,
                source=self._options.source,
                pushed=known.pushed if known else None,
                access=self._access,
                advance=advance,
            )
        except OSError as error:
            return UnreadFile.from_error(error)
        except ApiError as error:
            if error.status is None or error.status in FATAL_STATUSES | _TEMPORARY:
                raise
            return UnreadFile(str(path), error_message(error))
        except AshError as error:
            return UnreadFile(str(path), error_message(error))


def _add(report: ImportReport, path: Path, outcome: PushedFile | UnreadFile) -> None:
    if isinstance(outcome, UnreadFile):
        report.add(path, outcome)
        return
    report.add(path, outcome.imported)
    session = outcome.session
    if session is not None and session.copy_of is not None:
        report.copies = {**report.copies, session.id: Copy(session.copy_of, session.copied_messages or 0)}


def _access(options: PushOptions, homes: Sequence[Home], *, watches: bool) -> FileAccess:
    """Return the files that may be read. While watching, links cannot lead to others."""
    if options.within:
        return FileAccess.below(options.within, current_user())
    if not watches:
        return ANY_FILE
    folders = [folder for home in homes for folder in home.transcript_folders()]
    return FileAccess.below([each for path in options.paths for each in places_of(path)] or folders)


def _stamps(path: Path, access: FileAccess) -> _Stamps:
    """Return what changes with a transcript; empty if it cannot be read, which is reported when it is pushed."""
    try:
        return _Stamps(open_transcript(path, access).stamps(), name_of(path, access))
    except OSError:
        return _Stamps((), None)
