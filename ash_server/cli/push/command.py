"""Options of `ash push`."""

import asyncio
from pathlib import Path

import rich_click as click

from ash_server.cli.common.options import (
    json_option,
    source_option,
    url_option,
    warn_of_unknown_source,
    within_option,
)


@click.command("push")
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--discover", "discovers", is_flag=True, help="Push all transcripts of the agents on this machine."
)
@click.option("--watch", "watches", is_flag=True, help="Keep running and push additions until Ctrl-C.")
@source_option
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for an unavailable server. With --watch there is no limit.",
)
@within_option
@url_option
@json_option
def command(
    paths: tuple[Path, ...],
    *,
    discovers: bool,
    watches: bool,
    source: str | None,
    wait: float,
    within: tuple[Path, ...],
    url: str | None,
    as_json: bool,
) -> int:
    """Send transcripts to a server, each as a session.

    The server is ASH_URL, with the key ASH_KEY. Accepts the same files and folders as `ash import`, and creates the
    same sessions. Lines that the server already has are not sent, so an interrupted push can simply be repeated.
    --watch reads only files below the given folders, and reports links that lead elsewhere.

    \b
    ash push --discover               push all transcripts on this machine
    ash push --discover --watch       the same, then keep pushing additions
    ash push session.jsonl
    """
    if bool(paths) == discovers:
        raise click.UsageError("Name a PATH, or give --discover.")
    if watches and as_json:
        raise click.UsageError("--watch and --json exclude each other.")
    # Imported when needed: the store takes many times as long as the help.
    from ash_server.cli.import_.files import ImportReport
    from ash_server.cli.import_.report import (
        print_report,
        print_report_json,
        warn_of_problems,
        warn_of_skipped,
    )
    from ash_server.cli.push.files import PushOptions, push_paths, watch_paths

    warn_of_unknown_source(source)

    def show(report: ImportReport) -> None:
        (print_report_json if as_json else print_report)(report)
        warn_of_problems(report)
        warn_of_skipped(report)

    options = PushOptions(paths, source, url, None if watches else wait, within)
    if watches:
        asyncio.run(watch_paths(options, show))
        return 0
    return 0 if asyncio.run(push_paths(options, show)) else 1
