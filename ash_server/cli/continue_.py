"""`ash continue`: write a session in the format of another agent, which continues it there."""

import json
import os
import shlex
import time
from collections import defaultdict
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import rich_click as click

from ash_server.cli.common.options import session_argument
from ash_server.cli.common.output.terminal import counted, visible
from ash_server.cli.common.private_files import create_file
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.errors import AshError
from ash_server.redaction import redact_name
from ash_server.redaction.secrets import find_secrets
from ash_server.transfer.importing.transcript_files import find_homes
from ash_shared.model.session import Session
from ash_shared.parsing.resume import arguments_for, is_plain, shell_command
from ash_shared.projections.native import NOT_CARRIED, WRITERS, Carried, NativeSession, NewTranscript, carry

_DOCUMENTS = frozenset({"opencode"})
"""Agents that import a document themselves."""


class NotContinued(AshError):
    status, code, title = 409, "not_continued", "The session cannot be continued there."


class _Written(NamedTuple):
    """A session that is ready to be written."""

    agent: str
    session: NewTranscript
    carried: Carried
    native: NativeSession


@click.command("continue")
@session_argument
@click.option("--in", "agent", required=True, type=click.Choice(list(WRITERS)), help="The agent.")
@click.option(
    "--from",
    "turn",
    type=click.IntRange(min=1),
    metavar="TURN",
    help="Leave out the turns after this one.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Where the agent will work; default: the folder of the session.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--redact", "redacts", is_flag=True, help="Replace tokens, keys and passwords of known forms.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this new file instead.")
@reads_store
def command(  # noqa: PLR0913  # one argument per option
    session: str,
    store: StoreToRead,
    *,
    agent: str,
    turn: int | None,
    folder: str | None,
    dry_run: bool,
    redacts: bool,
    output: Path | None,
) -> None:
    """Write a session in the format of another agent, which continues it there.

    SESSION is an id or its first characters, or a name (external id). Writes one new session below the folder of the
    agent, or for OpenCode a document for `opencode import`, and lists the parts that it leaves out. No stored session
    changes.

    \b
    ash continue 0d5c0a1e --in codex --dry-run
    ash continue 0d5c0a1e --in claude --from 3
    """
    stored, events = store.read(lambda store: _read(store, session, redacts=redacts))
    carried = carry(events, turns=turn)
    if turn is not None and turn > carried.turns:
        raise click.UsageError(f"The session has {counted(carried.turns, 'turn')}.")
    if not carried.items:
        raise NotContinued("there are no messages to carry")
    title = redact_name(stored.title) if redacts and stored.title else stored.title
    new = NewTranscript(uuid4(), stored.id, _folder(stored, folder), int(time.time() * 1000), title)
    try:
        written = _Written(agent, new, carried, WRITERS[agent](carried.items, new))
    except ValueError as error:
        raise NotContinued(str(error)) from None
    target = _target(written, output)
    _show(written, target)
    if not dry_run:
        _write(target, written.native.text)
        click.echo(f"\n{visible(_next_command(written, target))}")


async def _read(store: ReadStore, reference: str, *, redacts: bool) -> tuple[Session, list[dict[str, Any]]]:
    session = await session_named(store, reference)
    pieces = bytearray()
    async with aclosing(store.read_lines(session.id, "events", redacts=redacts)) as chunks:
        async for chunk in chunks:
            pieces += chunk
    return session, [json.loads(line) for line in pieces.splitlines() if line.strip()]


def _folder(session: Session, named: str | None) -> str:
    """Return the folder where the agent will work, as the agent itself will name it. Raises NotContinued."""
    stated = named or session.folder
    if stated is None:
        raise NotContinued("no record states the folder of the session; name one with --folder")
    if not Path(stated).is_dir():
        raise NotContinued(f"there is no folder {stated} on this machine; name another one with --folder")
    folder = str(Path(stated).resolve())
    if not is_plain(folder):
        raise NotContinued("the name of the folder contains control or bidirectional characters")
    return folder


class _Target(NamedTuple):
    """Where a session is written."""

    path: Path
    root: Path | None
    """The folder of the agent; None for a path that the person named."""


def _target(written: _Written, output: Path | None) -> _Target:
    if output is not None:
        return _Target(output.absolute(), None)
    if written.agent in _DOCUMENTS:
        return _Target(Path(written.native.path[-1]).absolute(), None)
    homes = find_homes(os.environ, Path.home())
    root = next(home.path for home in homes if home.agent.id == written.agent)
    if not root.is_dir():
        raise NotContinued(f"there is no folder {root}: start the agent once, or use --output")
    return _Target(root.joinpath(*written.native.path), root)


def _write(target: _Target, text: str) -> None:
    """Write a new file. Raises NotContinued if a link leads out of the folder of the agent."""
    folder = target.path.parent
    if target.root is not None:
        _check_below(folder, target.root)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_below(folder, target.root)
    create_file(target.path, text)


def _check_below(folder: Path, root: Path) -> None:
    if not folder.resolve().is_relative_to(root.resolve()):
        raise NotContinued(f"{folder} is a link out of {root}")


def _show(written: _Written, target: _Target) -> None:
    text, carried = written.native.text, written.carried
    left_out = [f"{count:,} {kind}" for kind, count in carried.left_out.items()]
    rows = [
        ("file", str(target.path)),
        ("size", f"{counted(len(text.encode()), 'byte')}, {counted(len(carried.items), 'message')}"),
        ("folder", written.session.folder),
        ("left out", "; ".join([*left_out, *NOT_CARRIED])),
        *(("secret", f"{label}, {places}") for label, places in _secrets(text)),
    ]
    for name, value in rows:
        click.echo(f"{name:<9} {visible(value)}")


def _secrets(text: str) -> list[tuple[str, str]]:
    """Return the kinds of the secrets in a text, with the lines that contain them."""
    places = defaultdict[str, list[int]](list)
    for number, line in enumerate(text.split("\n"), 1):
        for label in {secret.label for secret in find_secrets(line, is_json=True)}:
            places[label].append(number)
    return [(label, f"line {', '.join(map(str, numbers))}") for label, numbers in sorted(places.items())]


def _next_command(written: _Written, target: _Target) -> str:
    """Return the line for a shell that continues the session."""
    folder, native_id = written.session.folder, written.native.id
    start = shell_command(folder, arguments_for(written.agent, native_id))
    if written.agent not in _DOCUMENTS:
        return start
    load = shlex.join([written.agent, "import", str(target.path)])
    return f"cd {shlex.quote(folder)} && {load} && {shlex.join(arguments_for(written.agent, native_id))}"
