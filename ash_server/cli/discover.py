"""`ash import --discover`: what the CLIs of this machine have kept, before any of it is imported."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from psycopg import AsyncConnection
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from ash_server.cli.output.terminal import complain, output, visible
from ash_server.cli.store import with_store
from ash_server.db.sessions import session_id_for, stored_sessions
from ash_server.settings import Settings
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import Home, external_id, find_homes
from ash_server.transfer.importing.transcript_files import find_transcripts as list_transcripts


@dataclass
class Found:
    """The transcripts of one CLI."""

    home: Home
    files: list[Path] = field(default_factory=list)
    size: int = 0
    """In bytes, as they lie on the disk."""
    newest: float = 0
    """When one of them was written last, in seconds since 1970; 0 where there is none."""
    imported: int | None = None
    """How many of them have a session; None where there is no store yet."""
    unread: list[OSError] = field(default_factory=list)


def find_transcripts() -> list[Found]:
    found = [_look(home) for home in find_homes(os.environ, Path.home())]
    if any(each.files for each in found) and _has_store(Settings.from_environment(os.environ)):
        with_store(lambda conn: _count_imported(conn, found))
    return found


def print_found(found: list[Found]) -> None:
    table = Table("CLI", box=None, pad_edge=False, header_style="dim")
    for name in ("transcripts", "size", "newest", "imported"):
        table.add_column(name, justify="right")
    table.add_column("kept in", overflow="fold")
    for each in found:
        newest = _moment(each).astimezone().strftime("%Y-%m-%d %H:%M") if each.newest else ""
        imported = "" if each.imported is None else str(each.imported)
        places = Text(visible("\n".join(_folders(each.home))))
        table.add_row(each.home.cli.name, str(len(each.files)), decimal(each.size), newest, imported, places)
    output().print(table)
    for unread in filter(None, map(_not_read, found)):
        complain(f"{unread}: transcripts are kept in it, and Ash does not read it yet")
    if any(each.files for each in found):
        complain("`ash import --all` brings them in, `ash import FOLDER` those of a folder")


def print_found_json(found: list[Found]) -> None:
    click.echo(json.dumps({"found": [_report(each) for each in found]}))


def complain_of(found: Iterable[Found]) -> int:
    """Of what could not be looked into; answers the exit code."""
    errors = [error for each in found for error in each.unread]
    for error in errors:
        complain(f"{error.filename}: {error.strerror}")
    return 1 if errors else 0


def _look(home: Home) -> Found:
    found = Found(home)
    found.files = list(list_transcripts(home, found.unread.append))
    for path in found.files:
        try:
            stats = [file.stat() for file in open_transcript(path).files()]
        except OSError as error:
            found.unread.append(error)
            continue
        found.size += sum(stat.st_size for stat in stats)
        found.newest = max(found.newest, *(stat.st_mtime for stat in stats))
    return found


def _has_store(settings: Settings) -> bool:
    """Looking makes none."""
    return settings.database_url is not None or (settings.home / "postgres").exists()


async def _count_imported(conn: AsyncConnection, found: list[Found]) -> None:
    for each in found:
        names = [external_id(path, [each.home]) for path in each.files]
        stored = await stored_sessions(conn, [session_id_for(each.home.cli.source, name) for name in names])
        each.imported = len(stored)


def _report(found: Found) -> dict[str, Any]:
    cli = found.home.cli
    told = {
        "newest": _moment(found).isoformat() if found.newest else None,
        "imported": found.imported,
        "notRead": _not_read(found),
    }
    return {
        "name": cli.name,
        "source": cli.source,
        "folders": [visible(folder) for folder in _folders(found.home)],
        "transcripts": len(found.files),
        "bytes": found.size,
        **{name: value for name, value in told.items() if value is not None},
    }


def _not_read(found: Found) -> str | None:
    """The file of another version of the CLI, where there is one."""
    name = found.home.cli.unsupported
    path = found.home.path / name if name else None
    return visible(str(path)) if path is not None and path.exists() else None


def _folders(home: Home) -> list[str]:
    return [str(home.path / folder) for folder in home.cli.folders]


def _moment(found: Found) -> datetime:
    return datetime.fromtimestamp(found.newest, UTC)
