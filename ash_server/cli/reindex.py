"""`ash reindex`: update what is derived from stored messages."""

from collections.abc import Sequence
from functools import partial

import rich_click as click

from ash_server.cli.options import sessions_argument
from ash_server.cli.store import select_sessions, with_store
from ash_server.db.reindex import Reindexed
from ash_server.errors import SessionNotFound
from ash_server.store import Store


@click.command("reindex")
@sessions_argument
def command(sessions: tuple[str, ...]) -> None:
    """Update what searches, filters and lists use, with this version's parser.

    Updates kind, role, source and types of messages; title, times and drift of sessions; and the search index. Covers
    all sessions by default. Stored texts, ids and sequences are never changed, nor what a writer set: a role, a
    source, a title. Safe during writes; an interrupted run can be repeated.

    \b
    ash reindex
    """
    renewed = with_store(partial(_reindex, references=sessions))
    click.echo(f"{renewed.read} messages read, {renewed.written} updated")


async def _reindex(store: Store, references: Sequence[str]) -> Reindexed:
    read = written = 0
    async for session_id in select_sessions(store, references):
        try:
            renewed = await store.messages.reindex(session_id)
            await store.search.reindex(session_id)
        except SessionNotFound:  # deleted in the meantime
            continue
        read, written = read + renewed.read, written + renewed.written
    return Reindexed(read, written)
