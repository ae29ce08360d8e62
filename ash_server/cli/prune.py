"""`ash prune`: delete sessions without recent activity."""

from datetime import datetime
from functools import partial

import rich_click as click

from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.output.terminal import stdout_console
from ash_server.cli.common.store import with_store
from ash_server.cli.delete import delete_sessions, describe_deleted, subagents_option, with_trees
from ash_server.cli.sessions import read_moment, session_table
from ash_server.store import Store
from ash_shared.model.session import Session


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
def command(until: datetime, source: str | None, *, with_subagents: bool, dry_run: bool) -> None:
    """Delete sessions without recent activity.

    The session of a subagent is deleted with the one that started it, or after it: not while that has newer activity.

    \b
    ash prune --older-than 90d --dry-run
    ash prune --older-than 90d --source codex --subagents
    """
    with_store(partial(_prune, until=until, source=source, with_subagents=with_subagents, dry_run=dry_run))


async def _prune(
    store: Store, *, until: datetime, source: str | None, with_subagents: bool, dry_run: bool
) -> None:
    selected = await _select(store, until, source)
    if with_subagents:
        selected = await with_trees(store, selected)
    if dry_run:
        if selected:
            stdout_console().print(session_table(selected))
        click.echo(describe_deleted(selected, "would be deleted"))
        return
    click.echo(describe_deleted(await delete_sessions(store, selected), "deleted"))


async def _select(store: Store, until: datetime, source: str | None) -> list[Session]:
    """Return the sessions without activity since `until`, except children of sessions that are kept."""
    found: dict[object, Session] = {}
    after: str | None = None
    while True:
        page = await store.sessions.list_sessions(
            until=until, source=source, after=after, limit=1000, archived="include"
        )
        found |= {session.id: session for session in page.sessions}
        if page.next_after is None:
            break
        after = page.next_after
    while orphans := [id for id, each in found.items() if each.parent_id and each.parent_id not in found]:
        for id in orphans:
            del found[id]
    return list(found.values())
