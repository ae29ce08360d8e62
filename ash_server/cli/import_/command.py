"""Options of `ash import`."""

from functools import partial
from pathlib import Path

import rich_click as click

from ash_server.cli.common.options import (
    json_option,
    local_only,
    source_option,
    warn_of_unknown_source,
    within_option,
)
from ash_server.cli.import_.options import MAX_JOBS, ImportOptions, default_jobs
from ash_server.file_access import ANY_FILE, FileAccess, current_user


@click.command("import")
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Import everything that --discover lists.")
@click.option(
    "--discover", "discovers", is_flag=True, help="Only list the transcripts of the agents on this machine."
)
@source_option
@click.option("--as", "name", metavar="NAME", help="Name (external id) of the session of a single file.")
@click.option("--replace", is_flag=True, help="Delete the files' sessions and import the files again.")
@click.option(
    "--jobs",
    type=click.IntRange(1, MAX_JOBS),
    default=default_jobs,
    metavar="N",
    help="Import at most N files at once; default: the number of cores.",
)
@within_option
@json_option
@local_only("`ash push` sends transcripts to a server")
def command(
    paths: tuple[Path, ...],
    *,
    everything: bool,
    discovers: bool,
    source: str | None,
    name: str | None,
    replace: bool,
    jobs: int,
    within: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Store transcripts, each as a session.

    Accepts JSON Lines (*.jsonl, *.jsonl.zst), JSON documents (*.json), databases of agents, Aider's histories, and
    folders with such files; for one session of a database or a history, PATH/ID. Importing a transcript again, from
    any folder, only adds what is new. Lines that cannot be stored are reported and skipped; the exit code is then 1.

    \b
    ash import --discover             list the transcripts on this machine
    ash import --all                  import all transcripts listed by --discover
    ash import ~/.claude/projects
    ash import session.jsonl --as "the failing test"
    """
    if bool(paths) + everything + discovers != 1:
        raise click.UsageError(
            "A PATH, --all and --discover exclude each other."
            if paths or discovers
            else "Name a PATH, or give --all for what `ash import --discover` lists."
        )
    if discovers:
        return _discover(as_json)
    access = FileAccess.below(within, current_user()) if within else ANY_FILE
    return _import(paths, ImportOptions(source, name, replace, access, jobs), as_json)


# Modules are imported when they are needed: the store takes many times as long as the help.


def _discover(as_json: bool) -> int:
    from ash_server.cli.import_.discovery import (
        discover,
        print_discovered,
        print_discovered_json,
        warn_of_unread,
    )

    discovered = discover()
    (print_discovered_json if as_json else print_discovered)(discovered)
    return warn_of_unread(discovered)


def _import(paths: tuple[Path, ...], options: ImportOptions, as_json: bool) -> int:
    """Import the paths; without any, everything that is discovered."""
    from ash_server.cli.common.store import with_store
    from ash_server.cli.import_.files import import_discovered, import_paths
    from ash_server.cli.import_.report import (
        print_report,
        print_report_json,
        warn_of_problems,
        warn_of_skipped,
    )

    warn_of_unknown_source(options.source)
    report = with_store(
        partial(import_paths, paths=paths, options=options)
        if paths
        else partial(import_discovered, options=options)
    )
    (print_report_json if as_json else print_report)(report)
    warn_of_problems(report)
    warn_of_skipped(report)
    return 0 if report.complete else 1
