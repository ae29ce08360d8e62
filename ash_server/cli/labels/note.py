"""`ash note`: annotate a session."""

import sys
from functools import partial

import rich_click as click

from ash_server.cli.common.change_store import StoreToChange, changes_or_reads_store
from ash_server.cli.common.options import session_argument
from ash_server.cli.common.output.terminal import visible
from ash_server.cli.common.read_store import ReadStore, session_named
from ash_server.cli.labels.change import change_labels


@click.command("note")
@session_argument
@click.argument("text", metavar="[TEXT|-]", required=False)
@changes_or_reads_store
def command(session: str, text: str | None, *, store: StoreToChange) -> None:
    """Set the note of a session, in Markdown, or print it.

    SESSION is an id or its first characters, or a name (external id). `-` reads the note from standard input; an empty
    TEXT removes it.

    \b
    ash note 0d5c0a1e "Broken by the upgrade, see **issue 12**."
    ash note 0d5c0a1e - < note.md
    ash note 0d5c0a1e
    """
    if text is None:
        click.echo(visible(store.read(partial(_read_note, reference=session))), nl=True)
        return
    note = sys.stdin.read() if text == "-" else text
    done = "annotated" if note else "without a note"
    change_labels(store, [session], "Annotate" if note else "Remove the note of", done, note=note)


async def _read_note(store: ReadStore, reference: str) -> str:
    labels = (await session_named(store, reference)).labels
    return labels.note if labels else ""
