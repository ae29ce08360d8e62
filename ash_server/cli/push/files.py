"""Push of many files, once or again and again while they change."""

import asyncio
import time
from asyncio import TaskGroup
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ash_client import ApiError, AsyncAshClient
from ash_server.cli.common.availability import Availability
from ash_server.cli.common.client import FATAL_STATUSES, RETRYABLE_STATUSES, default_url, key_for
from ash_server.cli.common.error_messages import error_message
from ash_server.cli.common.output.terminal import counted, warn
from ash_server.cli.import_.files import ImportReport, progress_bar, text_size_of
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.cli.import_.report import report_additions
from ash_server.cli.watch.changed_files import ChangedFiles, changes
from ash_server.errors import AshError
from ash_server.store.transcripts import Copy
from ash_server.transfer.importing.databases.sessions import share_snapshots
from ash_server.transfer.pushing import Pushed, PushedFile, push_file

_CONCURRENT_FILES = 4
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
            if watches:
                async for _ in changes(push.folders):
                    snapshots.renew()
                    report_additions(await push.run(), "pushed to")
        return report.complete


class _Push:
    """Pushes the files that have changed since the last time."""

    def __init__(self, server: AsyncAshClient, options: PushOptions, *, watches: bool) -> None:
        self._server = server
        self._options = options
        self._files = ChangedFiles(options.paths, options.within, watches=watches)
        self._pushed: dict[Path, Pushed | None] = {}

    def folders(self) -> Iterable[Path]:
        return self._files.access.folders

    async def run(self) -> ImportReport:
        start, report = time.monotonic(), ImportReport()
        changed = self._files.find(report)
        outcomes: dict[Path, PushedFile | UnreadFile] = {}
        try:
            await self._push_files([*changed], outcomes)
        except asyncio.CancelledError:
            warn(f"pushed {len(outcomes)} of {counted(len(changed), 'file')}; push again to continue")
            raise
        for path, stamps in changed.items():
            outcome = outcomes[path]
            _add(report, path, outcome)
            self._pushed[path] = outcome.pushed if isinstance(outcome, PushedFile) else None
            self._files.remember(path, stamps)
        self._files.remove_reported(report)
        report.seconds = round(time.monotonic() - start, 3)
        return report

    async def _push_files(self, files: Sequence[Path], outcomes: dict[Path, PushedFile | UnreadFile]) -> None:
        slots = asyncio.Semaphore(_CONCURRENT_FILES)

        async def push(path: Path) -> None:
            async with slots:
                outcomes[path] = await self._push_file(path, advance)

        try:
            with progress_bar(
                sum(text_size_of(each, self._files.access) for each in files), "pushing"
            ) as advance:
                async with TaskGroup() as group:
                    for path in files:
                        group.create_task(push(path))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _push_file(self, path: Path, advance: Callable[[int], None]) -> PushedFile | UnreadFile:
        try:
            return await push_file(
                self._server,
                path,
                self._files.homes,
                source=self._options.source,
                pushed=self._pushed.get(path),
                access=self._files.access,
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
