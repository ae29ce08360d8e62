"""`ash reindex`: update the results of reading stored messages, or show the changes."""

import json
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

import rich_click as click

from ash_server.cli.common.local_store import LocalStore
from ash_server.cli.common.options import json_option, local_only, sessions_argument
from ash_server.cli.common.output.terminal import counted
from ash_server.cli.common.read_store import session_named
from ash_server.cli.common.store import with_store
from ash_server.cli.reindex.differences import Differences, show_differences
from ash_server.errors import SessionNotFound
from ash_server.store import Store
from ash_server.transfer.importing.identity import name_session


@click.command("reindex")
@sessions_argument
@click.option("--all", "everything", is_flag=True, help="All sessions, even those that this version read.")
@click.option("--dry-run", is_flag=True, help="Show which messages this version reads differently.")
@json_option
@local_only("run this command on the machine of the server")
def command(sessions: tuple[str, ...], *, everything: bool, dry_run: bool, as_json: bool) -> None:
    """Read stored messages again with this version, and update the results.

    Reads the named sessions; by default those that another version of Ash read. Updates kind, role, source and types of
    messages; title, times and drift of sessions; the names that imports find transcripts by; the event log; and the
    search index. Never changes stored texts, ids and sequences, posted events, or roles, sources and titles set by a
    writer. Clients that follow a session with a new log receive a `reset` event, then all new events. Safe during
    writes; an interrupted run can be repeated.

    \b
    ash reindex --dry-run
    ash reindex
    """
    if sessions and everything:
        raise click.UsageError("A SESSION and --all exclude each other.")
    if dry_run:
        differences = with_store(partial(_compare, references=sessions, everything=everything))
        show_differences(differences, as_json=as_json)
    else:
        _show_totals(
            with_store(partial(_reindex, references=sessions, everything=everything)), as_json=as_json
        )


class _Session(NamedTuple):
    id: UUID
    needs_events: bool
    """True to derive its events again."""


class _Totals(NamedTuple):
    sessions: int = 0
    read: int = 0
    updated: int = 0
    events: int = 0


async def _reindex(store: Store, references: Sequence[str], *, everything: bool) -> _Totals:
    """Reindex each session in transactions of its own."""
    totals = _Totals()
    async for session in _select(store, references, everything=everything):
        try:
            done = await _reindex_session(store, session)
        except SessionNotFound:  # deleted in the meantime
            continue
        totals = _Totals(*map(sum, zip(totals, done, strict=True)))
    await store.search.index_pending()
    return totals


async def _reindex_session(store: Store, session: _Session) -> _Totals:
    messages = await store.messages.reindex(session.id)
    events = (await store.events.rebuild(session.id)).events if session.needs_events else 0
    await store.search.reindex(session.id)
    await name_session(store, session.id)
    return _Totals(1, messages.read, messages.written, events)


async def _compare(store: Store, references: Sequence[str], *, everything: bool) -> Differences:
    differences = Differences()
    async for session in _select(store, references, everything=everything):
        differences.sessions += 1
        differences.sessions_with_new_events += session.needs_events
        async for page in store.messages.reread(session.id):
            for message in page:
                differences.add(session.id, message)
    return differences


async def _select(
    store: Store, references: Sequence[str], *, everything: bool
) -> AsyncGenerator[_Session, None]:
    """Yield the sessions; without references, those that another version read."""
    if references or everything:
        async for session_id in _named_or_all(store, references):
            yield _Session(session_id, needs_events=True)
    else:
        with_old_events = set(await store.events.list_outdated())
        for session_id in sorted(with_old_events.union(await store.messages.list_outdated())):
            yield _Session(session_id, needs_events=session_id in with_old_events)


async def _named_or_all(store: Store, references: Sequence[str]) -> AsyncGenerator[UUID, None]:
    for session in [await session_named(LocalStore(store), reference) for reference in references]:
        yield session.id
    if not references:
        async for session_id in store.sessions.list_ids():
            yield session_id


def _show_totals(totals: _Totals, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(totals._asdict()))
    else:
        click.echo(
            f"{counted(totals.sessions, 'session')}: {counted(totals.read, 'message')} read, {totals.updated} updated, "
            f"{counted(totals.events, 'event')} written"
        )
