"""`ash delete`: delete sessions, or messages of a session."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from uuid import UUID

import rich_click as click

from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.output.terminal import counted, stdout_console
from ash_server.cli.common.store import resolve_session, with_store
from ash_server.cli.sessions import session_table
from ash_server.errors import SessionNotFound
from ash_server.store import Store
from ash_shared.model.message import LAST_SEQUENCE
from ash_shared.model.session import Session

subagents_option = click.option(
    "--subagents", "with_subagents", is_flag=True, help="Also delete the sessions that these started."
)


@click.command("delete")
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, callback=reject_empty)
@subagents_option
@click.option(
    "--message",
    "sequences",
    metavar="SEQUENCE",
    multiple=True,
    type=click.IntRange(1, LAST_SEQUENCE),
    help="Delete only this message of the session; may be repeated.",
)
@click.option("--yes", "is_confirmed", is_flag=True, help="Delete without asking.")
def command(
    sessions: tuple[str, ...], *, with_subagents: bool, sequences: tuple[int, ...], is_confirmed: bool
) -> int:
    """Delete sessions with their messages and events, or single messages of a session.

    SESSION is an id or its first characters, or a name (external id). PostgreSQL frees the space for new rows;
    `ash db vacuum` removes the texts from its files.

    \b
    ash delete 0d5c0a1e
    ash delete 0d5c0a1e 8c87aa14 --subagents --yes
    ash delete 0d5c0a1e --message 12 --yes
    """
    if sequences:
        if len(sessions) > 1 or with_subagents:
            raise click.UsageError("--message is for one session.")
        work = partial(
            _delete_messages, reference=sessions[0], sequences=sequences, is_confirmed=is_confirmed
        )
        return with_store(work)
    work = partial(_delete, references=sessions, with_subagents=with_subagents, is_confirmed=is_confirmed)
    return with_store(work)


async def _delete(
    store: Store, *, references: Sequence[str], with_subagents: bool, is_confirmed: bool
) -> int:
    named = [await resolve_session(store, reference) for reference in references]
    selected = await with_trees(store, named) if with_subagents else named
    if not is_confirmed:
        stdout_console().print(session_table(selected))
        _confirm(counted(len(selected), "session"))
    click.echo(describe_deleted(await delete_sessions(store, selected), "deleted"))
    return 0


async def _delete_messages(
    store: Store, *, reference: str, sequences: Sequence[int], is_confirmed: bool
) -> int:
    session = await resolve_session(store, reference)
    if not is_confirmed:
        stdout_console().print(session_table([session]))
        _confirm(f"{counted(len(sequences), 'message')} of this session")
    deleted = [await store.messages.delete(session.id, sequence) for sequence in sequences]
    click.echo(f"{counted(len(deleted) - deleted.count(None), 'message')} deleted")
    return 0


def _confirm(things: str) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("Nothing is deleted without --yes.")
    click.confirm(f"Delete {things}?", abort=True, err=True)


async def with_trees(store: Store, sessions: Iterable[Session]) -> list[Session]:
    """Return the sessions and their subagents' sessions, at any depth, without duplicates."""
    ids: dict[UUID, None] = {}
    for session in sessions:
        ids |= dict.fromkeys([session.id, *await store.sessions.list_tree(session.id)])
    by_id = {each.id: each for each in await store.sessions.get_many(list(ids))}
    return [by_id[id] for id in ids if id in by_id]


async def delete_sessions(store: Store, sessions: Iterable[Session]) -> list[Session]:
    """Delete the sessions and return them, without those that others have deleted meanwhile."""
    deleted = list[Session]()
    for session in sessions:
        with suppress(SessionNotFound):
            await store.sessions.delete(session.id)
            deleted.append(session)
    return deleted


def describe_deleted(sessions: Sequence[Session], verb: str) -> str:
    messages = counted(sum(each.message_count for each in sessions), "message")
    return f"{counted(len(sessions), 'session')} with {messages} {verb}"
