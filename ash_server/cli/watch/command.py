"""Options of `ash watch`."""

import asyncio
import os
from contextlib import closing
from typing import TYPE_CHECKING

import rich_click as click

from ash_server.cli.common.options import url_option

if TYPE_CHECKING:
    from ash_server.cli.import_.files import ImportReport


@click.command("watch")
@click.option("--local", "is_local", is_flag=True, help="The local store, even if ASH_URL is set.")
@url_option
def command(url: str | None, *, is_local: bool) -> int:
    """Store the transcripts of all agents while they are written.

    Stores everything that `ash import --discover` lists, then each addition within seconds, until Ctrl-C: in the local
    store, or with ASH_URL on that server. What agents delete later stays stored.
    """
    if is_local and url:
        raise click.UsageError("--local and --url exclude each other.")
    # Imported when needed: the store takes many times as long as the help.
    from ash_server.cli.watch.lock import watching
    from ash_server.cli.watch.seen_files import SeenFiles

    with watching() as home:
        if url is None and (is_local or not os.environ.get("ASH_URL")):
            from ash_server.cli.common.store import with_store
            from ash_server.cli.watch.local import watch_local

            with closing(SeenFiles(home, "")) as seen:
                with_store(lambda store: watch_local(store, seen))
            return 0
        from ash_server.cli.common.client import default_url
        from ash_server.cli.import_.report import print_report, warn_of_problems
        from ash_server.cli.push.files import PushOptions, watch_paths

        def show(report: "ImportReport") -> None:
            print_report(report)
            warn_of_problems(report)

        url = url or default_url()
        with closing(SeenFiles(home, url)) as seen:
            asyncio.run(watch_paths(PushOptions((), None, url, None), show, seen))
        return 0
