"""`ash star`: mark sessions with a star."""

import rich_click as click

from ash_server.cli.common.change_store import StoreToChange, changes_store
from ash_server.cli.labels.change import change_labels, some_sessions_argument


@click.command("star")
@some_sessions_argument
@click.option("--remove", "removes", is_flag=True, help="Remove the star.")
@changes_store
def command(sessions: tuple[str, ...], *, store: StoreToChange, removes: bool) -> None:
    """Mark sessions with a star.

    SESSION is an id or its first characters, or a name (external id).

    \b
    ash star 0d5c0a1e
    ash star 0d5c0a1e --remove
    """
    action, done = ("Remove the star of", "without a star") if removes else ("Star", "starred")
    change_labels(store, sessions, action, done, starred=not removes)
