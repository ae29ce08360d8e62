"""Store the transcripts of all agents in the local store while they are written."""

import time
from pathlib import Path

from ash_server.cli.import_.files import ImportReport, import_files
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.cli.import_.options import ImportOptions, default_jobs
from ash_server.cli.import_.report import print_report, report_additions, warn_of_problems
from ash_server.cli.watch.changed_files import ChangedFiles, changes
from ash_server.store import Store
from ash_server.transfer.importing.databases.sessions import SharedSnapshots, share_snapshots
from ash_server.transfer.importing.file_import import ImportedFile


async def watch_local(store: Store) -> None:
    """Import everything, then each change, until the process ends."""
    files = ChangedFiles((), watches=True)
    is_first = True
    with share_snapshots() as snapshots:
        async for _ in changes(lambda: files.access.folders):
            snapshots.renew()
            report = await _import_changed(store, files, snapshots)
            if is_first:
                print_report(report)
                warn_of_problems(report)
            else:
                report_additions(report, "stored in")
            is_first = False


async def _import_changed(store: Store, files: ChangedFiles, snapshots: SharedSnapshots) -> ImportReport:
    start, report = time.monotonic(), ImportReport()
    changed = files.find(report)
    options = ImportOptions(access=files.access, jobs=default_jobs())
    outcomes: dict[Path, ImportedFile | UnreadFile] = {}
    await import_files(store, [*changed], files.homes, options, snapshots, outcomes)
    for path, outcome in outcomes.items():
        report.add(path, outcome)
        # A file that could not be stored is tried again.
        if not isinstance(outcome, UnreadFile):
            files.remember(path, changed[path])
    files.remove_reported(report)
    report.seconds = round(time.monotonic() - start, 3)
    return report
