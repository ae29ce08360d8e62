"""Change the labels of sessions, for the commands that do so."""

from collections.abc import Sequence
from functools import partial
from typing import Unpack

import rich_click as click

from ash_client.requests import LabelUpdate
from ash_server.cli.common.change_store import StoreToChange
from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.output.terminal import counted
from ash_server.cli.common.read_store import ReadStore, session_named
from ash_shared.model.session import Session

some_sessions_argument = click.argument(
    "sessions", metavar="SESSION...", nargs=-1, required=True, callback=reject_empty
)


def change_labels(
    store: StoreToChange, references: Sequence[str], action: str, done: str, **changes: Unpack[LabelUpdate]
) -> None:
    """Change labels and print what was done, such as `2 sessions starred`."""
    changed = store.change(partial(_change, change=store, references=references, action=action, **changes))
    click.echo(f"{counted(len(changed), 'session')} {done}")


async def _change(
    store: ReadStore,
    change: StoreToChange,
    references: Sequence[str],
    action: str,
    **changes: Unpack[LabelUpdate],
) -> list[Session]:
    named = {each.id: each for each in [await session_named(store, each) for each in references]}
    await change.confirm(store, f"{action} {counted(len(named), 'session')}")
    return [await store.update_labels(id, **changes) for id in named]
