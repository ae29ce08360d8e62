"""`ash reindex`: update the columns and the search index that are derived from stored messages."""

from collections.abc import Sequence
from functools import partial

import rich_click as click

from ash_server.cli.common.options import sessions_argument
from ash_server.cli.common.store import select_sessions, with_store
from ash_server.errors import SessionNotFound
from ash_server.store import Store
from ash_server.store.maintenance.reindex import Reindexed
from ash_server.transfer.importing.identity import name_session


@click.command("reindex")
@sessions_argument
def command(sessions: tuple[str, ...]) -> None:
    """Update what searches, filters and lists use, with this version's parser.

    Updates kind, role, source and types of messages; title, times and drift of sessions; the names by which imports
    find transcripts of earlier versions; and the search index; for all sessions by default. Never changes stored texts,
    ids and sequences, or roles, sources and titles set by a writer. Safe during writes; an interrupted run can be
    repeated.

    \b
    ash reindex
    """
    total = with_store(partial(_reindex, references=sessions))
    click.echo(f"{total.read} messages read, {total.written} updated")


async def _reindex(store: Store, references: Sequence[str]) -> Reindexed:
    read = written = 0
    async for session_id in select_sessions(store, references):
        try:
            reindexed = await store.messages.reindex(session_id)
            await store.search.reindex(session_id)
            await name_session(store, session_id)
        except SessionNotFound:  # deleted in the meantime
            continue
        read, written = read + reindexed.read, written + reindexed.written
    return Reindexed(read, written)
