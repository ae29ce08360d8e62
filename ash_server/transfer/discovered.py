"""The transcripts of the agents on this machine, and those that an agent deletes before they are stored."""

import math
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from ash_server.store import Store
from ash_server.transfer.importing import prompt_history
from ash_server.transfer.importing.databases.sessions import share_snapshots
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import Home, external_id, find_homes, find_transcripts
from ash_server.transfer.retention import RULES, Retention, read_retention

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
    prompts: list[Path] = field(default_factory=list)
    """Sessions without a transcript on disk, whose prompts the agent has kept."""
    lost: int = 0
    """Number of `prompts` without a stored transcript."""
    new_prompts: int = 0
    """Number of `lost` sessions without stored prompts."""
    unread: list[OSError] = field(default_factory=list)


def find_discovered(*, only_expiring: bool = False) -> list[Discovered]:
    """Return the agents with files on this machine; with `only_expiring`, those that delete transcripts."""
    homes = [
        home
        for home in find_homes(os.environ, Path.home())
        if not only_expiring or home.agent.id in RULES or home.agent.prompts
    ]
    with share_snapshots():
        return [_scan(home) for home in homes if existing_folders(home)]


def existing_folders(home: Home) -> list[Path]:
    """Return the folders of transcripts, the database and the prompts that exist."""
    agent = home.agent
    names = (*agent.folders, *filter(None, (agent.database, agent.prompts)))
    return [path for name in names if (path := home.path / name).exists()]


async def compare_with_store(store: Store, discovered: Iterable[Discovered]) -> None:
    """Count what is stored of each agent."""
    for each in discovered:
        names = {external_id(path, [each.home]): path for path in each.files}
        imported = await store.transcripts.list_imported(each.home.agent.source, list(names))
        each.imported = len(imported)
        each.expiring = _count_expiring(each, (path for name, path in names.items() if name not in imported))
        if each.prompts:
            await _count_lost(store, each)


def compare_with_nothing(discovered: Iterable[Discovered]) -> None:
    """Count as if nothing were stored."""
    for each in discovered:
        each.expiring = _count_expiring(each, each.files)
        each.lost = each.new_prompts = len(each.prompts)


async def _count_lost(store: Store, discovered: Discovered) -> None:
    ids = {path.name for path in discovered.prompts}
    lost = ids - await store.transcripts.list_stored_names(discovered.home.agent.source, list(ids))
    known = await store.transcripts.list_imported(prompt_history.SOURCE, list(lost))
    discovered.lost, discovered.new_prompts = len(lost), len(lost - known)


def _scan(home: Home) -> Discovered:
    discovered = Discovered(home, retention=read_retention(home))
    paths = list(find_transcripts(home, discovered.unread.append))
    discovered.prompts = [path for path in paths if prompt_history.history_of(path) is not None]
    discovered.files = [path for path in paths if prompt_history.history_of(path) is None]
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


def _count_expiring(discovered: Discovered, paths: Iterable[Path]) -> int:
    if discovered.retention is None:
        return 0
    oldest = time.time() - (discovered.retention.age - WARN_AGE).total_seconds()
    return sum(discovered.changed.get(path, math.inf) < oldest for path in paths)
