"""`ash reindex --dry-run`: the stored messages that this version reads differently."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec
import rich_click as click
from rich.table import Table
from rich.text import Text

from ash_server.cli.common.output.terminal import counted, stdout_console, visible, visible_json
from ash_server.store.maintenance.reindex import Reread

_MAX_SAMPLES = 5


@dataclass
class _Group:
    count: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Differences:
    """Messages that are read differently now, by source and changed properties."""

    sessions: int = 0
    sessions_with_new_events: int = 0
    """Sessions with events that are derived again."""
    compared: int = 0
    without_digest: int = 0
    """Compared messages stored by an older Ash: changes of block contents alone cannot be detected."""
    groups: defaultdict[tuple[str, tuple[str, ...]], _Group] = field(
        default_factory=lambda: defaultdict(_Group)
    )

    def add(self, session_id: UUID, message: Reread) -> None:
        self.compared += 1
        self.without_digest += message.stored.digest is None
        if changed := message.changed():
            group = self.groups[message.stored.source, changed]
            group.count += 1
            if len(group.samples) < _MAX_SAMPLES:
                group.samples.append(_sample(session_id, message))

    @property
    def changed(self) -> int:
        return sum(group.count for group in self.groups.values())

    def sorted_groups(self) -> list[tuple[tuple[str, tuple[str, ...]], _Group]]:
        return sorted(self.groups.items(), key=lambda item: (-item[1].count, item[0]))


def show_differences(differences: Differences, *, as_json: bool) -> None:
    (_show_json if as_json else _show_view)(differences)


def _show_json(differences: Differences) -> None:
    summary = {
        "sessions": differences.sessions,
        "sessionsWithNewEvents": differences.sessions_with_new_events,
        "compared": differences.compared,
        "withoutDigest": differences.without_digest,
        "changed": differences.changed,
        "groups": [
            {"source": source, "changed": changed, "count": group.count, "samples": group.samples}
            for (source, changed), group in differences.sorted_groups()
        ],
    }
    click.echo(visible_json(msgspec.json.encode(summary).decode()))


def _show_view(differences: Differences) -> None:
    if differences.changed:
        stdout_console().print(_table(differences))
    click.echo(
        f"{counted(differences.sessions, 'session')}: {counted(differences.compared, 'message')} compared, "
        f"{differences.changed} read differently now"
    )
    if differences.without_digest:
        click.echo(
            f"{differences.without_digest} were stored by an older Ash: changes of block contents alone "
            "are not detected"
        )
    if differences.sessions_with_new_events:
        click.echo(
            f"events of {counted(differences.sessions_with_new_events, 'session')} would be derived again"
        )


def _sample(session_id: UUID, message: Reread) -> dict[str, Any]:
    stored, now = message.stored, message.now
    before = {"source": stored.source, "kind": stored.kind, "role": stored.role, "types": stored.block_types}
    after = {"source": now.source, "kind": now.kind, "role": now.role, "types": list(now.block_types)}
    return {"sessionId": str(session_id), "sequence": stored.sequence, "before": before, "now": after}


def _table(differences: Differences) -> Table:
    table = Table("source", "changed", box=None, pad_edge=False, header_style="dim")
    table.add_column("messages", justify="right")
    for name in ("before", "now", "for example"):
        table.add_column(name, overflow="fold")
    for (source, changed), group in differences.sorted_groups():
        sample = group.samples[0]
        place = f"{sample['sessionId']} #{sample['sequence']}"
        values = [_format_changed(sample[when], changed) for when in ("before", "now")]
        texts = (source, ", ".join(changed), str(group.count), *values, place)
        table.add_row(*(Text(visible(text)) for text in texts))
    return table


def _format_changed(values: dict[str, Any], changed: tuple[str, ...]) -> str:
    """Format the changed properties as `ash messages` shows them."""
    shown = (values[name] for name in changed if name in values)
    return " · ".join(", ".join(value) if isinstance(value, list) else value for value in shown)
