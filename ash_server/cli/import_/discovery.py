"""`ash import --discover`: list the transcripts of the agents on this machine, without importing them."""

import json
import math
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from ash_server.cli.common.output.terminal import counted, local_time, stdout_console, visible, warn
from ash_server.cli.common.store import with_store
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.transfer.agents import AGENTS
from ash_server.transfer.importing.databases.sessions import share_snapshots
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import Home, external_id, find_homes, find_transcripts
from ash_server.transfer.retention import Retention, read_retention

WARN_AGE = timedelta(days=7)


@dataclass
class Discovered:
    """The transcripts in the home of an agent."""

    home: Home
    files: list[Path] = field(default_factory=list)
    size: int = 0
    """In bytes on disk."""
    newest: float = 0
    """Time of the last modification, in seconds since 1970; 0 without files."""
    changed: dict[Path, float] = field(default_factory=dict)
    """Times of the last modification, by transcript."""
    retention: Retention | None = None
    imported: int | None = None
    """Number of transcripts that were imported; None without a store."""
    expiring: int = 0
    """Number of transcripts that are not imported, and that the agent will delete within `WARN_AGE`."""
    unread: list[OSError] = field(default_factory=list)


def discover() -> list[Discovered]:
    """Return the agents with folders on this machine."""
    homes = find_homes(os.environ, Path.home())
    with share_snapshots():
        discovered = [_scan(home) for home in homes if _folders(home)]
    if any(each.files for each in discovered) and _has_store(Settings.load()):
        with_store(lambda store: _find_imported(store, discovered))
    else:
        for each in discovered:
            each.expiring = _count_expiring(each, each.files)
    return discovered


def print_discovered(discovered: list[Discovered]) -> None:
    if not discovered:
        warn(f"no transcripts of these agents on this machine: {', '.join(each.name for each in AGENTS)}")
        return
    table = Table("agent", box=None, pad_edge=False, header_style="dim")
    for name in ("transcripts", "size", "newest", "imported"):
        table.add_column(name, justify="right")
    table.add_column("folder", overflow="fold")
    for each in discovered:
        newest = local_time(_newest_time(each)) if each.newest else ""
        imported = "" if each.imported is None else str(each.imported)
        folders = Text(visible("\n".join(map(str, _folders(each.home)))))
        row = (each.home.agent.name, str(len(each.files)), decimal(each.size), newest, imported, folders)
        table.add_row(*row)
    stdout_console().print(table)
    for each in discovered:
        if each.expiring and each.retention:
            warn(_describe_expiring(each, each.retention))
    if any(each.files for each in discovered):
        warn("`ash import --all` imports all of them, `ash import FOLDER` those in a folder")


def _describe_expiring(discovered: Discovered, retention: Retention) -> str:
    count = counted(discovered.expiring, "transcript")
    return (
        f"{discovered.home.agent.name} deletes {count} within {WARN_AGE.days} days, not imported yet; "
        f"it keeps them for {retention.age.days} days ({retention.setting})"
    )


def print_discovered_json(discovered: list[Discovered]) -> None:
    click.echo(json.dumps({"found": [_to_json(each) for each in discovered]}))


def warn_of_unread(discovered: Iterable[Discovered]) -> int:
    """Warn about unreadable files, and return the exit code."""
    errors = [error for each in discovered for error in each.unread]
    for error in errors:
        warn(f"{error.filename}: {error.strerror}")
    return 1 if errors else 0


def _scan(home: Home) -> Discovered:
    discovered = Discovered(home, retention=read_retention(home))
    discovered.files = list(find_transcripts(home, discovered.unread.append))
    stats: dict[Path, os.stat_result] = {}  # a database has several transcripts
    for path in discovered.files:
        try:
            files = tuple(open_transcript(path).files())
            stats |= {file: file.stat() for file in files if file not in stats}
            discovered.changed[path] = max((stats[file].st_mtime for file in files), default=0)
        except OSError as error:
            discovered.unread.append(error)
    discovered.size = sum(stat.st_size for stat in stats.values())
    discovered.newest = max((stat.st_mtime for stat in stats.values()), default=0)
    return discovered


def _has_store(settings: Settings) -> bool:
    """Check without creating a store."""
    return settings.database_url is not None or (settings.home / "postgres").exists()


async def _find_imported(store: Store, discovered: list[Discovered]) -> None:
    for each in discovered:
        names = {external_id(path, [each.home]): path for path in each.files}
        imported = await store.transcripts.list_imported(each.home.agent.source, list(names))
        each.imported = len(imported)
        each.expiring = _count_expiring(each, (path for name, path in names.items() if name not in imported))


def _count_expiring(discovered: Discovered, paths: Iterable[Path]) -> int:
    if discovered.retention is None:
        return 0
    oldest = time.time() - (discovered.retention.age - WARN_AGE).total_seconds()
    return sum(discovered.changed.get(path, math.inf) < oldest for path in paths)


def _to_json(discovered: Discovered) -> dict[str, Any]:
    agent = discovered.home.agent
    optional = {
        "newest": _newest_time(discovered).isoformat() if discovered.newest else None,
        "imported": discovered.imported,
        "retentionDays": discovered.retention and discovered.retention.age.days,
        "expiring": discovered.expiring if discovered.retention else None,
    }
    return {
        "name": agent.name,
        "agent": agent.id,
        "source": agent.source,
        "folders": [visible(str(folder)) for folder in _folders(discovered.home)],
        "transcripts": len(discovered.files),
        "bytes": discovered.size,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _folders(home: Home) -> list[Path]:
    """Return the folders of transcripts, and the database, that exist."""
    names = (*home.agent.folders, *filter(None, (home.agent.database,)))
    return [path for name in names if (path := home.path / name).exists()]


def _newest_time(discovered: Discovered) -> datetime:
    return datetime.fromtimestamp(discovered.newest, UTC)
