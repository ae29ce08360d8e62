"""`ash export`: write sessions to files."""

import os
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import UUID

import rich_click as click

from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.output.terminal import counted, visible
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.cli.common.server_store import ServerStore
from ash_server.transfer.exporting.jsonl import FORMATS
from ash_server.transfer.exporting.to_disk import PutBackRefused, disk_place, put_back
from ash_server.transfer.exporting.trajectory import SUFFIX, write_trajectory
from ash_server.transfer.importing.transcript_files import find_homes

_SESSIONS_PAGE = 1000
_SUFFIXES = {"atif": SUFFIX, "otlp": ".otlp.json"}


@click.command("export")
@click.argument("session", required=False, callback=reject_empty)
@click.option("--all", "everything", is_flag=True, help="All sessions, into the folder given with -o.")
@click.option(
    "-o", "--output", "target", type=click.Path(path_type=Path), help="A file; with --all a folder."
)
@click.option(
    "--format",
    "form",
    type=click.Choice((*FORMATS, "atif", "otlp")),
    default="jsonl",
    show_default=True,
    help="The lines as imported, the session's events, one per line, a trajectory in ATIF, or traces in OTLP/JSON.",
)
@click.option(
    "--to-disk", "puts_back", is_flag=True, help="Put the transcript back where its agent finds it."
)
@click.option("--redact", "redacted", is_flag=True, help="Replace tokens, keys and passwords of known forms.")
@reads_store
def command(  # noqa: PLR0913  # one argument per option
    session: str | None,
    *,
    store: StoreToRead,
    everything: bool,
    target: Path | None,
    form: str,
    redacted: bool,
    puts_back: bool,
) -> None:
    """Write the bytes of an imported file, its events, a trajectory for evaluation tools, or traces for OpenTelemetry.

    SESSION is an id or its first characters, or a name (external id). A file of events can be imported again. With -o,
    the images of a trajectory are written into a folder next to the file (NAME.media).

    \b
    ash export 0d5c0a1e > session.jsonl
    ash export 0d5c0a1e --format events > session.events.jsonl
    ash export 0d5c0a1e --format atif -o trajectory.json
    ash export 0d5c0a1e --format otlp -o traces.otlp.json
    ash export --all -o sessions/
    ash export 0d5c0a1e --redact > to-share.jsonl
    ash export 0d5c0a1e --to-disk            # after the agent has deleted it
    """
    if puts_back:
        if everything or target or redacted or form != "jsonl":
            raise click.UsageError("--to-disk writes one transcript as it was: it needs only a SESSION.")
        click.echo(visible(str(store.read(partial(_put_back, reference=session or "")))))
        return
    if everything == bool(session) or (everything and target is None):
        raise click.UsageError("Name a SESSION, or give --all and a folder with -o.")
    export = _Export(form, redacted=redacted)
    if session:
        store.read(partial(_export_one, reference=session, target=target, export=export))
    elif target:
        count = store.read(partial(_export_all, folder=target, export=export))
        click.echo(f"{counted(count, 'session')} in {target}")


class _Export(NamedTuple):
    form: str
    redacted: bool

    @property
    def suffix(self) -> str:
        return FORMATS[self.form].suffix if self.form in FORMATS else _SUFFIXES[self.form]


async def _export_one(store: ReadStore, reference: str, target: Path | None, export: _Export) -> None:
    """Write to a file, or to standard output."""
    session = await session_named(store, reference)
    await _write(store, session.id, target, export)


async def _put_back(store: ReadStore, reference: str) -> Path:
    """Raises PutBackRefused, also for a key that does not read what is stored."""
    if isinstance(store, ServerStore) and (await store.get_key()).redacts:
        raise PutBackRefused("The key of the server redacts, so the transcript would not be as it was.")
    session = await session_named(store, reference)
    path = disk_place(session, find_homes(os.environ, Path.home()))
    async with aclosing(store.read_lines(session.id, "jsonl", redacts=False)) as chunks:
        await put_back(path, chunks)
    return path


async def _export_all(store: ReadStore, folder: Path, export: _Export) -> int:
    """Write each session to a file named after its id, and return their number."""
    count = 0
    async for session in store.sessions(limit=_SESSIONS_PAGE, archived="include"):
        await _write(store, session.id, folder / f"{session.id}{export.suffix}", export)
        count += 1
    return count


async def _write(store: ReadStore, session_id: UUID, target: Path | None, export: _Export) -> None:
    if export.form == "atif":
        await _write_trajectory(store, session_id, target, redacts=export.redacted)
        return
    if export.form == "otlp":
        await _write_traces(store, session_id, target, redacts=export.redacted)
        return
    lines = store.read_lines(session_id, export.form, redacts=export.redacted)
    with _open_target(target) as file:
        async with aclosing(lines) as chunks:
            async for chunk in chunks:
                file.write(chunk)


async def _write_trajectory(
    store: ReadStore, session_id: UUID, target: Path | None, *, redacts: bool
) -> None:
    """Write a trajectory. Only a file has a folder next to it; otherwise the document contains its images."""
    has_folder = target is not None and not _is_device(target)
    with _open_target(target) as file:
        async with aclosing(store.stream_atif(session_id, redacts=redacts)) as parts:
            await write_trajectory(parts, file, target if has_folder else None)


async def _write_traces(store: ReadStore, session_id: UUID, target: Path | None, *, redacts: bool) -> None:
    """Write traces as one line, which is the body of a request."""
    with _open_target(target) as file:
        async with aclosing(store.stream_otlp(session_id, redacts=redacts)) as parts:
            async for part in parts:
                file.write(part)
        file.write(b"\n")


def _is_device(target: Path) -> bool:
    """True for a pipe or a device."""
    return target.exists() and not target.is_file()


@contextmanager
def _open_target(target: Path | None) -> Iterator[BinaryIO]:
    """Open for writing. An existing file is replaced once everything is written."""
    if target is None:
        yield sys.stdout.buffer
    elif _is_device(target):
        with target.open("wb") as file:
            yield file
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial_file = target.with_name(f".{target.name}.part")
        with partial_file.open("wb") as file:
            yield file
        partial_file.replace(target)
