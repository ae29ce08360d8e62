"""`ash rename`: give a session another title."""

from functools import partial

import rich_click as click

from ash_server.cli.common.change_store import StoreToChange, changes_store
from ash_server.cli.common.options import reject_empty, session_argument
from ash_server.cli.common.read_store import ReadStore, session_named


@click.command("rename")
@session_argument
@click.argument("title", callback=reject_empty)
@changes_store
def command(session: str, title: str, *, store: StoreToChange) -> None:
    """Give a session another title, which imports keep.

    SESSION is an id or its first characters, or a name (external id).

    \b
    ash rename 0d5c0a1e "Fix the clock of the greenhouse"
    """
    store.change(partial(_rename, change=store, reference=session, title=title))
    click.echo("1 session renamed")


async def _rename(store: ReadStore, change: StoreToChange, reference: str, title: str) -> None:
    session = await session_named(store, reference)
    await change.confirm(store, "Rename 1 session")
    await store.update_session(session.id, title=title)
