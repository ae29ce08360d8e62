"""`ash import --discover`: list the transcripts of the agents on this machine, without importing them."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from ash_server.cli.common.output.terminal import counted, local_time, stdout_console, visible, warn
from ash_server.cli.common.store import with_store
from ash_server.settings import Settings
from ash_server.transfer.agents import AGENTS
from ash_server.transfer.discovered import (
    WARN_AGE,
    Discovered,
    compare_with_nothing,
    compare_with_store,
    existing_folders,
    find_discovered,
)
from ash_server.transfer.retention import Retention


def discover(*, only_expiring: bool = False) -> list[Discovered]:
    """Return the agents with folders on this machine; with `only_expiring`, those that delete transcripts."""
    discovered = find_discovered(only_expiring=only_expiring)
    if any(each.files or each.prompts for each in discovered) and _has_store(Settings.load()):
        with_store(lambda store: compare_with_store(store, discovered))
    else:
        compare_with_nothing(discovered)
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
        folders = Text(visible("\n".join(map(str, existing_folders(each.home)))))
        row = (each.home.agent.name, str(len(each.files)), decimal(each.size), newest, imported, folders)
        table.add_row(*row)
    stdout_console().print(table)
    for each in discovered:
        if each.expiring and each.retention:
            warn(describe_expiring(each, each.retention))
        if each.new_prompts:
            warn(describe_lost(each))
    if any(each.files or each.new_prompts for each in discovered):
        warn("`ash import --all` imports all of them, `ash import FOLDER` those in a folder")


def describe_expiring(discovered: Discovered, retention: Retention) -> str:
    count = counted(discovered.expiring, "transcript")
    verb = "is" if discovered.expiring == 1 else "are"
    return (
        f"{discovered.home.agent.name} deletes {count} that {verb} not imported yet within {WARN_AGE.days} days: "
        f"it keeps them for {retention.age.days} days ({retention.setting})"
    )


def describe_lost(discovered: Discovered) -> str:
    verb = "is" if discovered.new_prompts == 1 else "are"
    return f"{count_lost(discovered)}; the prompts of {discovered.new_prompts} {verb} not imported yet"


def count_lost(discovered: Discovered) -> str:
    count = counted(discovered.lost, "session")
    return f"{discovered.home.agent.name} has deleted the transcripts of {count} that were not imported"


def print_discovered_json(discovered: list[Discovered]) -> None:
    click.echo(json.dumps({"found": [_to_json(each) for each in discovered]}))


def warn_of_unread(discovered: Iterable[Discovered]) -> int:
    """Warn about unreadable files, and return the exit code."""
    errors = [error for each in discovered for error in each.unread]
    for error in errors:
        warn(f"{error.filename}: {error.strerror}")
    return 1 if errors else 0


def _has_store(settings: Settings) -> bool:
    """Check without creating a store."""
    return settings.database_url is not None or (settings.home / "postgres").exists()


def _to_json(discovered: Discovered) -> dict[str, Any]:
    agent = discovered.home.agent
    optional = {
        "newest": _newest_time(discovered).isoformat() if discovered.newest else None,
        "imported": discovered.imported,
        "retentionDays": discovered.retention and discovered.retention.age.days,
        "expiring": discovered.expiring if discovered.retention else None,
        "lost": discovered.lost if agent.prompts else None,
        "newPrompts": discovered.new_prompts if agent.prompts else None,
    }
    return {
        "name": agent.name,
        "agent": agent.id,
        "source": agent.source,
        "folders": [visible(str(folder)) for folder in existing_folders(discovered.home)],
        "transcripts": len(discovered.files),
        "bytes": discovered.size,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _newest_time(discovered: Discovered) -> datetime:
    return datetime.fromtimestamp(discovered.newest, UTC)
