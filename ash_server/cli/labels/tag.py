"""`ash tag`: add and remove tags of a session."""

from functools import partial
from typing import Literal

import rich_click as click

from ash_server.cli.common.change_store import StoreToChange, changes_or_reads_store
from ash_server.cli.common.options import reject_empty, session_argument
from ash_server.cli.common.output.terminal import visible
from ash_server.cli.common.read_store import ReadStore, session_named
from ash_server.cli.labels.change import change_labels


@click.command("tag")
@session_argument
@click.argument("action", metavar="[add|remove]", required=False, type=click.Choice(["add", "remove"]))
@click.argument("tags", metavar="[TAG...]", nargs=-1, callback=reject_empty)
@changes_or_reads_store
def command(
    session: str, action: Literal["add", "remove"] | None, tags: tuple[str, ...], *, store: StoreToChange
) -> None:
    """Add or remove tags of a session, or print its tags.

    SESSION is an id or its first characters, or a name (external id).

    \b
    ash tag 0d5c0a1e add flaky "needs review"
    ash tag 0d5c0a1e remove flaky
    ash tag 0d5c0a1e
    """
    if action is None:
        for tag in store.read(partial(_read_tags, reference=session)):
            click.echo(visible(tag))
        return
    if not tags:
        raise click.UsageError(f"Name the tags to {action}.")
    if action == "add":
        change_labels(store, [session], "Tag", "tagged", add_tags=tags)
    else:
        change_labels(store, [session], "Remove tags of", "without these tags", remove_tags=tags)


async def _read_tags(store: ReadStore, reference: str) -> list[str]:
    labels = (await session_named(store, reference)).labels
    return labels.tags if labels else []
