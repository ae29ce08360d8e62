"""`ash changes`: show the files that a session changed."""

import sys
from collections.abc import Sequence
from functools import partial

import rich_click as click
from rich.text import Text

from ash_server.cli.common.options import json_option, session_argument
from ash_server.cli.common.output.terminal import counted, local_time, stdout_console, visible, visible_json
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_shared.model.reports.changes import FileDiff, FileEdit, SessionChanges, ShellCommand
from ash_shared.projections.changes import to_patch

_STYLES = {"+": "green", "-": "red", "@": "cyan", "d": "bold", "#": "dim"}
_MAX_COMMAND = 120
"""Characters of a command in one line."""


@click.command("changes")
@session_argument
@click.option("--turn", type=click.IntRange(min=1), metavar="N", help="Only the turn with this number.")
@click.option("--path", metavar="PATH", help="Only files at this path or with these last segments.")
@click.option("--stat", "shows_stat", is_flag=True, help="Show one line for each file.")
@click.option("--patch", "shows_patch", is_flag=True, help="Show the combined differences as a patch.")
@json_option
@reads_store
def command(  # noqa: PLR0913  # one argument per option
    session: str,
    *,
    store: StoreToRead,
    turn: int | None,
    path: str | None,
    shows_stat: bool,
    shows_patch: bool,
    as_json: bool,
) -> None:
    """Show the files that a session changed.

    SESSION is an id or its first characters, or a name (external id). Files are listed by turn, from the reports of
    the tools. Failed and denied calls changed nothing; they are listed, not counted. Commands that may have changed
    files are listed, because their files are not known.

    \b
    ash changes 0d5c0a1e
    ash changes 0d5c0a1e --patch --turn 2
    """
    if shows_stat + shows_patch + as_json > 1:
        raise click.UsageError("--stat, --patch and --json exclude each other.")
    with_diffs = shows_patch or as_json
    changes = store.read(partial(_read, reference=session, turn=turn, path=path, diffs=with_diffs))
    if as_json:
        click.echo(visible_json(changes.model_dump_json()))
    elif shows_patch:
        _print_patch(to_patch(changes))
    elif shows_stat:
        _print_files(changes.files)
        stdout_console().print(_totals(changes))
    else:
        _print_turns(changes)


async def _read(
    store: ReadStore, reference: str, turn: int | None, path: str | None, *, diffs: bool
) -> SessionChanges:
    found = await session_named(store, reference)
    return await store.get_changes(found.id, turn=turn, path=path, diffs=diffs)


def _print_patch(patch: str) -> None:
    """Print a patch byte for byte, or, on a terminal, in colours and without control characters."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(patch.encode(errors="replace"))
        return
    console = stdout_console()
    for line in patch.split("\n")[:-1]:
        console.print(Text(visible(line), _STYLES.get(line[:1], "")), soft_wrap=True)


def _print_turns(changes: SessionChanges) -> None:
    console = stdout_console()
    for turn in changes.turns:
        console.print(
            Text.assemble(
                (f"turn {turn.turn}", "bold"), f"  {local_time(turn.at)}  ", visible(turn.prompt or "")
            ),
            no_wrap=True,
            overflow="ellipsis",
        )
        _print_files(turn.files)
        console.print()
    _print_uncounted(changes)
    _print_commands(changes.commands)
    console.print(_totals(changes))


def _print_files(files: Sequence[FileDiff]) -> None:
    console = stdout_console()
    for file in files:
        moved = "" if file.new_path is None else f" → {file.new_path}"
        notes = "" if file.is_composed else "  (edits do not compose)"
        console.print(
            Text.assemble(
                f"  {file.status:<8}", *_counts(file), visible(f"{file.path}{moved}"), (notes, "dim")
            ),
            soft_wrap=True,
        )


def _counts(file: FileDiff | SessionChanges) -> list[tuple[str, str]]:
    """Return the added and removed lines; `≥` if some are unknown."""
    sign = "≥" if file.is_lower_bound else ""
    added, removed = (
        f"{sign}{mark}{count:,}" if count else "" for mark, count in (("+", file.added), ("-", file.removed))
    )
    return [(f"{added:>8}", "green"), (f"{removed:>8}  ", "red")]


def _print_uncounted(changes: SessionChanges) -> None:
    edits = [
        (file.path, edit)
        for file in changes.files
        for edit in file.edits
        if edit.outcome != "ok" or edit.is_retracted
    ]
    if not edits:
        return
    console = stdout_console()
    console.print(Text("Not counted", "bold"))
    for path, edit in edits:
        console.print(
            Text(f"  turn {edit.turn:<4}{_state(edit):<10}{visible(edit.tool)}  {visible(path)}"),
            soft_wrap=True,
        )
    console.print()


def _state(call: FileEdit | ShellCommand) -> str:
    return "retracted" if call.is_retracted else call.outcome


def _print_commands(commands: Sequence[ShellCommand]) -> None:
    if not commands:
        return
    console = stdout_console()
    console.print(Text("Commands that may have changed files", "bold"))
    for each in commands:
        line = " ".join(visible(each.command[: 4 * _MAX_COMMAND]).split())
        shown = line if len(line) <= _MAX_COMMAND else f"{line[: _MAX_COMMAND - 1]}…"
        console.print(Text(f"  turn {each.turn:<4}{_state(each):<10}{shown}"), soft_wrap=True)
    console.print()


def _totals(changes: SessionChanges) -> Text:
    if not (changes.files or changes.commands):
        return Text("no changed files")
    bound = "at least " if changes.is_lower_bound else ""
    lines = f"{bound}{counted(changes.added, 'line')} added, {changes.removed:,} removed"
    return Text(f"{counted(changes.files_changed, 'file')} changed, {lines}")
