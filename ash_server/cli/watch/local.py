"""Store the transcripts of all agents in the local store while they are written."""

from asyncio import TaskGroup
from pathlib import Path

from ash_server.cli.import_.files import ImportReport, count_processes
from ash_server.cli.import_.one_file import import_one_file
from ash_server.cli.import_.options import ImportOptions, default_jobs
from ash_server.cli.import_.report import print_report, warn_of_problems
from ash_server.cli.watch.changed_files import ChangedFiles
from ash_server.cli.watch.seen_files import SeenFiles
from ash_server.cli.watch.watcher import Advance, FileOutcome, Target, Watcher
from ash_server.store import Store
from ash_server.transfer.importing.databases.sessions import share_snapshots

_CONCURRENT_FILES = 4


async def watch_local(store: Store, seen: SeenFiles) -> None:
    """Import everything, then each change, until the process ends."""
    files = ChangedFiles((), watches=True, seen=seen)
    options = ImportOptions(access=files.access, jobs=default_jobs())

    async def store_file(path: Path, advance: Advance) -> FileOutcome:
        return await import_one_file(store, path, files.homes, options, advance)

    with share_snapshots() as snapshots:
        watcher = Watcher(files, snapshots, Target(store_file, "stored in", _CONCURRENT_FILES, _show))

        async def store_in_processes() -> None:
            """Help with a history that is long."""
            count = count_processes(options.jobs, watcher.pending.count, watcher.pending.size)
            if not count:
                return
            from ash_server.cli.import_.pipe import ImportJob
            from ash_server.cli.import_.processes import import_in_process

            job = ImportJob(store.url, files.homes, options, snapshots)
            async with TaskGroup() as group:
                for _ in range(count):
                    group.create_task(
                        import_in_process(job, watcher.pending, watcher.finish, watcher.advance)
                    )

        await watcher.run(store_in_processes)


def _show(report: ImportReport) -> None:
    print_report(report)
    warn_of_problems(report)
