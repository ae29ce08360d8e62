"""`ash reparse`: compare stored messages with how this version reads them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import rich_click as click
from rich.table import Table
from rich.text import Text

from ash_server.cli.common.options import json_option, sessions_argument
from ash_server.cli.common.output.terminal import stdout_console, visible, visible_json
from ash_server.cli.common.store import select_sessions, with_store
from ash_server.store import Store
from ash_server.store.maintenance.reindex import Reread

_MAX_SAMPLES = 5


@click.command("reparse")
@sessions_argument
@click.option("--diff", is_flag=True, expose_value=False, help="Show differences (the only mode).")
@json_option
def command(sessions: tuple[str, ...], as_json: bool) -> None:
    """Show which stored messages this version reads differently.

    Compares the current reading of a message with that at the time it was stored or last reindexed; for all sessions by
    default. Changes nothing: `ash reindex` updates the stored results.

    \b
    ash reparse --diff
    """
    comparison = with_store(partial(_compare, references=sessions))
    (_show_json if as_json else _show_view)(comparison)


@dataclass
class _Group:
    count: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class _Comparison:
    """Messages that are read differently now, by source and changed properties."""

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


async def _compare(store: Store, references: Sequence[str]) -> _Comparison:
    comparison = _Comparison()
    async for session_id in select_sessions(store, references):
        async for page in store.messages.reread(session_id):
            for message in page:
                comparison.add(session_id, message)
    return comparison


def _show_json(comparison: _Comparison) -> None:
    summary = {
        "compared": comparison.compared,
        "withoutDigest": comparison.without_digest,
        "changed": comparison.changed,
        "groups": [
            {"source": source, "changed": changed, "count": group.count, "samples": group.samples}
            for (source, changed), group in comparison.sorted_groups()
        ],
    }
    click.echo(visible_json(msgspec.json.encode(summary).decode()))


def _show_view(comparison: _Comparison) -> None:
    if comparison.changed:
        stdout_console().print(_table(comparison))
    click.echo(f"{comparison.compared} messages compared, {comparison.changed} read differently now")
    if comparison.without_digest:
        click.echo(
            f"{comparison.without_digest} of them were stored by an older Ash: changes of block contents alone "
            "are not detected"
        )
    if comparison.changed:
        click.echo("`ash reindex` updates what is derived from them; stored texts are never changed")


def _sample(session_id: UUID, message: Reread) -> dict[str, Any]:
    stored, now = message.stored, message.now
    before = {"source": stored.source, "kind": stored.kind, "role": stored.role, "types": stored.block_types}
    after = {"source": now.source, "kind": now.kind, "role": now.role, "types": list(now.block_types)}
    return {"sessionId": str(session_id), "sequence": stored.sequence, "before": before, "now": after}


def _table(comparison: _Comparison) -> Table:
    table = Table("source", "changed", box=None, pad_edge=False, header_style="dim")
    table.add_column("messages", justify="right")
    for name in ("before", "now", "for example"):
        table.add_column(name, overflow="fold")
    for (source, changed), group in comparison.sorted_groups():
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
