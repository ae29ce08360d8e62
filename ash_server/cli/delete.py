"""`ash delete`: delete sessions, or messages of a session."""

from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

import rich_click as click

from ash_server.cli.common.change_store import StoreToChange, changes_store
from ash_server.cli.common.local_store import LocalStore
from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.output.terminal import counted, stdout_console
from ash_server.cli.common.read_store import ReadStore, StoreError, session_named
from ash_server.cli.sessions import session_table
from ash_server.errors import SessionNotFound
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
@changes_store
def command(
    sessions: tuple[str, ...], *, store: StoreToChange, with_subagents: bool, sequences: tuple[int, ...]
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
        return store.change(
            partial(_delete_messages, change=store, reference=sessions[0], sequences=sequences)
        )
    return store.change(partial(_delete, change=store, references=sessions, with_subagents=with_subagents))


async def _delete(
    store: ReadStore, change: StoreToChange, references: Sequence[str], *, with_subagents: bool
) -> int:
    named = [await session_named(store, reference) for reference in references]
    selected = await with_trees(store, named) if with_subagents else named
    if not change.is_confirmed:
        stdout_console().print(session_table(selected))
    await change.confirm(store, f"Delete {counted(len(selected), 'session')}", asks_locally=True)
    click.echo(describe_deleted(await delete_sessions(store, selected), "deleted"))
    return 0


async def _delete_messages(
    store: ReadStore, change: StoreToChange, reference: str, sequences: Sequence[int]
) -> int:
    session = await session_named(store, reference)
    if not change.is_confirmed:
        stdout_console().print(session_table([session]))
    messages = counted(len(sequences), "message")
    await change.confirm(store, f"Delete {messages} of this session", asks_locally=True)
    deleted = [await store.remove_message(session.id, sequence) for sequence in sequences]
    click.echo(f"{counted(deleted.count(True), 'message')} deleted")
    return 0


async def with_trees(store: ReadStore, sessions: Iterable[Session]) -> list[Session]:
    """Return the sessions and their subagents' sessions, at any depth, without duplicates. Raises UsageError."""
    if not isinstance(store, LocalStore):
        raise click.UsageError(
            "--subagents works only on the local store: answers of a server do not tell subagents from forks."
        )
    ids: dict[UUID, None] = {}
    for session in sessions:
        ids |= dict.fromkeys([session.id, *await store.store.sessions.list_tree(session.id)])
    by_id = {each.id: each for each in await store.get_sessions(ids)}
    return [by_id[id] for id in ids if id in by_id]


async def delete_sessions(store: ReadStore, sessions: Iterable[Session]) -> list[Session]:
    """Delete the sessions and return them, without those that others have deleted meanwhile."""
    deleted = list[Session]()
    for session in sessions:
        try:
            await store.delete_session(session.id)
        except StoreError as error:
            if error.code != SessionNotFound.code:
                raise
        else:
            deleted.append(session)
    return deleted


def describe_deleted(sessions: Sequence[Session], verb: str) -> str:
    messages = counted(sum(each.message_count for each in sessions), "message")
    return f"{counted(len(sessions), 'session')} with {messages} {verb}"
