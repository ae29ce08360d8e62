"""`ash prune`: delete sessions without recent activity."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

import rich_click as click

from ash_server.cli.common.change_store import StoreToChange, changes_store
from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.output.terminal import counted, stdout_console
from ash_server.cli.common.read_store import ReadStore
from ash_server.cli.delete import delete_sessions, describe_deleted, subagents_option, with_trees
from ash_server.cli.sessions import read_moment, session_table
from ash_shared.model.session import Session

_SESSIONS_PAGE = 1000


@click.command("prune")
@click.option(
    "--older-than",
    "until",
    required=True,
    metavar="TIME",
    callback=read_moment,
    help="Sessions without activity for a span (12h, 90d, 8w), or since a date or a time.",
)
@click.option(
    "--source", metavar="NAME", callback=reject_empty, help="Only this format or agent, for example claude."
)
@subagents_option
@click.option("--dry-run", is_flag=True, help="Only list what would be deleted.")
@changes_store
def command(
    until: datetime, source: str | None, *, store: StoreToChange, with_subagents: bool, dry_run: bool
) -> None:
    """Delete sessions without recent activity.

    The session of a subagent is deleted with the one that started it, or after it: not while that has newer activity.

    \b
    ash prune --older-than 90d --dry-run
    ash prune --older-than 90d --source codex --subagents
    """
    selects = partial(_select, until=until, source=source, with_subagents=with_subagents)
    if dry_run:
        selected = store.change(selects)
        if selected:
            stdout_console().print(session_table(selected))
        click.echo(describe_deleted(selected, "would be deleted"))
    else:
        deleted = store.change(partial(_prune, change=store, selects=selects))
        click.echo(describe_deleted(deleted, "deleted"))


async def _prune(
    store: ReadStore, change: StoreToChange, selects: Callable[[ReadStore], Awaitable[list[Session]]]
) -> list[Session]:
    selected = await selects(store)
    await change.confirm(store, f"Delete {counted(len(selected), 'session')}")
    return await delete_sessions(store, selected)


async def _select(
    store: ReadStore, until: datetime, source: str | None, *, with_subagents: bool
) -> list[Session]:
    """Return the sessions without activity since `until`, except children of sessions that are kept."""
    sessions = store.sessions(until=until, source=source, limit=_SESSIONS_PAGE, archived="include")
    found = {session.id: session async for session in sessions}
    while orphans := [id for id, each in found.items() if each.parent_id and each.parent_id not in found]:
        for id in orphans:
            del found[id]
    selected = list(found.values())
    return await with_trees(store, selected) if with_subagents else selected
