"""`ash reparse` and `ash reindex`: what the parser of this version makes of stored messages."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import click
import msgspec
from psycopg import AsyncConnection
from rich.table import Table
from rich.text import Text

from ash_server.cli.output.terminal import output, visible, visible_json
from ash_server.cli.store import one_session
from ash_server.db.reindex import Renewed, Reread, renew, reread, session_ids
from ash_server.db.search.index import renew_words
from ash_server.errors import SessionNotFound

_MOST_SAMPLES = 5


@dataclass
class _Group:
    count: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Comparison:
    """What reads differently now than when it was derived, by source and by what changed."""

    compared: int = 0
    without_digest: int = 0
    """Of those: stored by an older Ash, so that a change inside of their blocks alone cannot be seen."""
    groups: defaultdict[tuple[str, tuple[str, ...]], _Group] = field(
        default_factory=lambda: defaultdict(_Group)
    )

    def add(self, session_id: UUID, message: Reread) -> None:
        self.compared += 1
        self.without_digest += message.stored.digest is None
        if changed := message.changed():
            group = self.groups[message.stored.source, changed]
            group.count += 1
            if len(group.samples) < _MOST_SAMPLES:
                group.samples.append(_sample(session_id, message))

    @property
    def changed(self) -> int:
        return sum(group.count for group in self.groups.values())


async def compare(conn: AsyncConnection, references: Sequence[str]) -> Comparison:
    """Writes nothing."""
    comparison = Comparison()
    async for session_id in _sessions(conn, references):
        async for page in reread(conn, session_id):
            for message in page:
                comparison.add(session_id, message)
    return comparison


async def reindex(conn: AsyncConnection, references: Sequence[str]) -> Renewed:
    read = written = 0
    async for session_id in _sessions(conn, references):
        try:
            renewed = await renew(conn, session_id)
            await renew_words(conn, session_id)
        except SessionNotFound:  # deleted meanwhile
            continue
        read, written = read + renewed.read, written + renewed.written
    return Renewed(read, written)


def show_json(comparison: Comparison) -> None:
    summary = {
        "compared": comparison.compared,
        "withoutDigest": comparison.without_digest,
        "changed": comparison.changed,
        "groups": [
            {"source": source, "changed": changed, "count": group.count, "samples": group.samples}
            for (source, changed), group in _ordered(comparison)
        ],
    }
    click.echo(visible_json(msgspec.json.encode(summary).decode()))


def show_view(comparison: Comparison) -> None:
    if comparison.changed:
        output().print(_table(comparison))
    click.echo(f"{comparison.compared} messages compared, {comparison.changed} read differently now")
    if comparison.without_digest:
        click.echo(
            f"{comparison.without_digest} of them were stored by an older Ash: changes inside of their blocks "
            "alone are not seen"
        )
    if comparison.changed:
        click.echo("`ash reindex` writes what is derived from them anew; the stored texts stay as they are")


def _sample(session_id: UUID, message: Reread) -> dict[str, Any]:
    stored, now = message.stored, message.now
    before = {"source": stored.source, "kind": stored.kind, "role": stored.role, "types": stored.block_types}
    after = {"source": now.source, "kind": now.kind, "role": now.role, "types": list(now.block_types)}
    return {"sessionId": str(session_id), "sequence": stored.sequence, "before": before, "now": after}


def _ordered(comparison: Comparison) -> list[tuple[tuple[str, tuple[str, ...]], _Group]]:
    return sorted(comparison.groups.items(), key=lambda item: (-item[1].count, item[0]))


def _table(comparison: Comparison) -> Table:
    table = Table("source", "changed", box=None, pad_edge=False, header_style="dim")
    table.add_column("messages", justify="right")
    for name in ("before", "now", "for example"):
        table.add_column(name, overflow="fold")
    for (source, changed), group in _ordered(comparison):
        sample = group.samples[0]
        place = f"{sample['sessionId']} #{sample['sequence']}"
        readings = [_reading(sample[when], changed) for when in ("before", "now")]
        texts = (source, ", ".join(changed), str(group.count), *readings, place)
        table.add_row(*(Text(visible(text)) for text in texts))
    return table


def _reading(values: dict[str, Any], changed: tuple[str, ...]) -> str:
    """Those that changed, as `ash messages` would show them."""
    shown = (values[name] for name in changed if name in values)
    return " · ".join(", ".join(value) if isinstance(value, list) else value for value in shown)


async def _sessions(conn: AsyncConnection, references: Sequence[str]) -> AsyncGenerator[UUID, None]:
    if references:
        for session in [await one_session(conn, reference) for reference in references]:
            yield session.id
    else:
        async for session_id in session_ids(conn):
            yield session_id
