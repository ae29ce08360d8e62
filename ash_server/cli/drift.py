"""`ash drift`: what no table of Ash covers, in the store or in files."""

import os
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from psycopg import AsyncConnection
from rich.table import Table
from rich.text import Text

from ash_server.cli.output.terminal import complain, counted, output, visible, visible_json
from ash_server.db.drift import MOST_SAMPLES, client_version_of, raw_type_of, report_drift
from ash_server.db.session_facts import moment
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import find_files, find_homes
from ash_shared.reading.parse import describe_message

_MOST_GROUPS = 1000

Group = dict[str, Any]
"""As the API answers it; of files, the samples name a `path` and a `line`, and times are those of the lines alone."""


class _Kind(NamedTuple):
    """What the blocks of a group have in common."""

    source: str
    version: str | None
    raw_type: str
    reason: str


@dataclass
class _Tally:
    count: int = 0
    first: datetime | None = None
    last: datetime | None = None
    samples: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))

    def add(self, other: "_Tally") -> None:
        self.count += other.count
        self.first = min(filter(None, (self.first, other.first)), default=None)
        self.last = max(filter(None, (self.last, other.last)), default=None)
        self.samples.extend(other.samples)


class Found(NamedTuple):
    groups: list[Group]
    looked_at: str
    """What was searched, in words."""
    complete: bool = True
    """Whether all of it could be read."""


async def find_in_store(conn: AsyncConnection) -> Found:
    report = await report_drift(conn, limit=_MOST_GROUPS)
    if len(report.drift) == _MOST_GROUPS:
        complain(f"these are the last seen {_MOST_GROUPS} groups")
    return Found(report.model_dump()["drift"], "in the store")


def find_in_files(paths: Iterable[Path]) -> Found:
    """Goes on behind whatever cannot be read, and tells it."""
    errors: list[OSError] = []
    kinds: defaultdict[_Kind, _Tally] = defaultdict(_Tally)
    homes, lines, files = find_homes(os.environ, Path.home()), 0, 0
    for file in (file for path in paths for file in find_files(path, homes, errors.append)):
        try:
            lines += _read(file, kinds)
            files += 1
        except OSError as error:
            errors.append(error)
    for unread in errors:
        complain(f"{unread.filename}: {unread.strerror or unread}")
    groups = [_group(kind, tally) for kind, tally in kinds.items()]
    groups.sort(key=lambda group: (group.get("lastSeen") is not None, group.get("lastSeen")), reverse=True)
    return Found(groups, f"in {counted(lines, 'line')} of {counted(files, 'file')}", not errors)


def show_json(found: Found) -> None:
    click.echo(visible_json(msgspec.json.encode({"drift": found.groups}).decode()))


def show_view(found: Found) -> None:
    if not found.groups:
        click.echo(f"no drift {found.looked_at}: nothing was unknown or malformed")
        return
    output().print(_table(found.groups))
    count = sum(group["count"] for group in found.groups)
    click.echo(f"{counted(count, 'block')} of {counted(len(found.groups), 'kind')} {found.looked_at}")


def _read(file: Path, kinds: defaultdict[_Kind, _Tally]) -> int:
    """Adds what drifts in a file; answers how many lines it has.

    The client's version is that of the line, or else the last that the file names.
    """
    own: defaultdict[_Kind, _Tally] = defaultdict(_Tally)
    version, number = None, 0
    for number, line in enumerate(open_transcript(file).lines(), 1):  # noqa: B007  # the last one is the count
        described = describe_message(line.data or b"")
        told, seen = client_version_of(described.facts), moment(described.facts.timestamp)
        version = told or version
        for drift in described.drift:
            kind = _Kind(described.source, told, raw_type_of(drift), drift.reason)
            sample = {"path": str(file), "line": line.place.number}
            own[kind].add(_Tally(drift.times, seen, seen, deque([sample])))
    for kind, tally in own.items():
        kinds[kind._replace(version=kind.version or version)].add(tally)
    return number


def _group(kind: _Kind, tally: _Tally) -> Group:
    group = {
        "source": kind.source,
        "clientVersion": kind.version,
        "rawType": kind.raw_type or None,
        "reason": kind.reason,
        "count": tally.count,
        "firstSeen": tally.first,
        "lastSeen": tally.last,
        "samples": list(tally.samples)[::-1],
    }
    return {name: value for name, value in group.items() if value is not None}


def _table(groups: Sequence[Group]) -> Table:
    names = ("source", "client", "type", "reason")
    table = Table(*names, box=None, pad_edge=False, header_style="dim")
    table.add_column("count", justify="right")
    for name in ("first seen", "last seen", "for example"):
        table.add_column(name, overflow="fold")
    for group in groups:
        texts = (
            group["source"],
            group.get("clientVersion", ""),
            group.get("rawType", ""),
            group["reason"],
            str(group["count"]),
            _day(group.get("firstSeen")),
            _day(group.get("lastSeen")),
            _place(group["samples"][0]),
        )
        table.add_row(*(Text(visible(text).replace("\n", " ")) for text in texts))
    return table


def _day(seen: datetime | None) -> str:
    return seen.astimezone().strftime("%Y-%m-%d") if seen else ""


def _place(sample: dict[str, Any]) -> str:
    if "path" in sample:
        return f"{sample['path']}:{sample['line']}"
    return f"{sample['sessionId']} #{sample['sequence']}"
