"""`ash archive`: leave sessions out of lists."""

import rich_click as click

from ash_server.cli.common.change_store import StoreToChange, changes_store
from ash_server.cli.labels.change import change_labels, some_sessions_argument


@click.command("archive")
@some_sessions_argument
@click.option("--remove", "removes", is_flag=True, help="Take the sessions out of the archive.")
@changes_store
def command(sessions: tuple[str, ...], *, store: StoreToChange, removes: bool) -> None:
    """Leave sessions out of lists; searches still find them.

    SESSION is an id or its first characters, or a name (external id). The sessions of its subagents are archived, too.

    \b
    ash archive 0d5c0a1e
    ash archive 0d5c0a1e --remove
    """
    action, done = (
        ("Take out of the archive", "taken out of the archive") if removes else ("Archive", "archived")
    )
    change_labels(store, sessions, action, done, archived=not removes)
