"""`ash drift`: list content that Ash does not recognize, in the store or in files."""

import os
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import rich_click as click
from rich.table import Table
from rich.text import Text

from ash_server.cli.common.options import json_option
from ash_server.cli.common.output.terminal import counted, stdout_console, visible, visible_json, warn
from ash_server.cli.common.private_files import write_file
from ash_server.cli.common.read_store import ReadStore, StoreError, StoreToRead, reads_store
from ash_server.cli.drift.bug_report import Shapes, to_bug_report
from ash_server.errors import MessageDeleted, MessageNotFound, SessionNotFound
from ash_server.store.drift import MAX_SAMPLES, DriftReport, StoredPlace, client_version_of, raw_type_of
from ash_server.store.session_facts import to_datetime
from ash_server.transfer.importing.databases.sessions import share_snapshots
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import find_files, find_homes
from ash_shared import MessageContent, describe_message, parse_message_content
from ash_shared.model.message import UNKNOWN_SOURCE

_MAX_GROUPS = 1000

_DELETED = {MessageDeleted.code, MessageNotFound.code, SessionNotFound.code}

Group = dict[str, Any]
"""A group as the API returns it. For files, samples have a `path` and a `line`, and times are those in the lines."""


@click.command("drift")
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(path_type=Path))
@json_option
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a report for a bug: names of types and fields, counts and versions, without values.",
)
@reads_store
def command(paths: tuple[Path, ...], *, store: StoreToRead, as_json: bool, report_file: Path | None) -> int:
    """List content that Ash does not recognize: unknown types and malformed blocks.

    Such content is stored completely, as raw blocks. Without a PATH, reads all stored messages; with PATHs, reads these
    files or folders and needs no database.

    \b
    ash drift ~/.claude/projects
    ash drift --report drift.json
    """
    if as_json and report_file:
        raise click.UsageError("Give --json or --report, not both.")
    shapes = Shapes() if report_file else None
    report = _read_files(paths, shapes) if paths else store.read(partial(_read_store, shapes=shapes))
    if report_file and shapes and report.groups:
        _write_bug_report(report_file, report, shapes)
    else:
        (_show_json if as_json else _show_view)(report)
    return 0 if report.complete else 1


class _Kind(NamedTuple):
    """The key of a group: the properties that its blocks share."""

    source: str
    version: str | None
    raw_type: str
    reason: str


@dataclass
class _Counts:
    count: int = 0
    first: datetime | None = None
    last: datetime | None = None
    samples: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))

    def add(self, other: "_Counts") -> None:
        self.count += other.count
        self.first = min(filter(None, (self.first, other.first)), default=None)
        self.last = max(filter(None, (self.last, other.last)), default=None)
        self.samples.extend(other.samples)


class _Report(NamedTuple):
    groups: list[Group]
    scope: str
    """Description of what was read."""
    complete: bool = True
    """False if something could not be read."""


async def _read_store(store: ReadStore, shapes: Shapes | None) -> _Report:
    report = await store.read_drift(limit=_MAX_GROUPS)
    if len(report.drift) == _MAX_GROUPS:
        warn(f"only the {_MAX_GROUPS} groups seen last are listed")
    if shapes is not None:
        await _add_stored_shapes(store, report, shapes)
    return _Report(report.model_dump()["drift"], "in the store")


async def _add_stored_shapes(store: ReadStore, report: DriftReport, shapes: Shapes) -> None:
    for group in report.drift:
        for place in group.samples:
            shapes.add(group.source, await _read_stored_blocks(store, place))


async def _read_stored_blocks(store: ReadStore, place: StoredPlace) -> list[MessageContent]:
    """Return the blocks of a message, or none if it was deleted since the groups were read."""
    try:
        message = await store.get_message(place.session_id, place.sequence)
    except StoreError as error:
        if error.code in _DELETED:
            return []
        raise
    return message.parsed or []


def _write_bug_report(file: Path, report: _Report, shapes: Shapes) -> None:
    write_file(file, to_bug_report(report.groups, shapes))
    click.echo(
        f"wrote {file}: {counted(len(report.groups), 'kind')} {report.scope}; it contains names of types and fields, "
        "and no values: read it before you share it"
    )


def _read_files(paths: Iterable[Path], shapes: Shapes | None) -> _Report:
    """Read all files, and warn about files that cannot be read."""
    errors: list[OSError] = []
    kinds: defaultdict[_Kind, _Counts] = defaultdict(_Counts)
    homes, lines, files = find_homes(os.environ, Path.home()), 0, 0
    with share_snapshots():
        for file in (file for path in paths for file in find_files(path, homes, errors.append)):
            try:
                lines += _read_file(file, kinds, shapes)
                files += 1
            except OSError as error:
                errors.append(error)
    for unread in errors:
        warn(f"{unread.filename}: {unread.strerror or unread}")
    groups = [_to_group(kind, counts) for kind, counts in kinds.items()]
    groups.sort(key=lambda group: (group.get("lastSeen") is not None, group.get("lastSeen")), reverse=True)
    return _Report(groups, f"in {counted(lines, 'line')} of {counted(files, 'file')}", not errors)


def _show_json(report: _Report) -> None:
    click.echo(visible_json(msgspec.json.encode({"drift": report.groups}).decode()))


def _show_view(report: _Report) -> None:
    if not report.groups:
        click.echo(f"no drift {report.scope}: nothing was unknown or malformed")
        return
    stdout_console().print(_table(report.groups))
    count = sum(group["count"] for group in report.groups)
    click.echo(f"{counted(count, 'block')} of {counted(len(report.groups), 'kind')} {report.scope}")


def _read_file(file: Path, kinds: defaultdict[_Kind, _Counts], shapes: Shapes | None) -> int:
    """Add the drift of a file to `kinds` and return its number of lines.

    A line that no provider recognizes has the format of the lines before it, and a line without a client version has
    the last version seen in the file.
    """
    kinds_in_file: defaultdict[_Kind, _Counts] = defaultdict(_Counts)
    file_version, file_source, number = None, None, 0
    for number, line in enumerate(open_transcript(file).lines(), 1):  # noqa: B007  # the last one is the count
        text = line.data or b""
        described = describe_message(text)
        if described.source == UNKNOWN_SOURCE:
            described = describe_message(text, file_source)
        else:
            file_source = described.source
        version, seen = client_version_of(described.header), to_datetime(described.header.timestamp)
        file_version = version or file_version
        if described.drift and shapes is not None:
            shapes.add(described.source, parse_message_content(text, file_source))
        for drift in described.drift:
            kind = _Kind(described.source, version, raw_type_of(drift), drift.reason)
            sample = {"path": str(file), "line": line.place.number}
            kinds_in_file[kind].add(_Counts(drift.times, seen, seen, deque([sample])))
    for kind, counts in kinds_in_file.items():
        kinds[kind._replace(version=kind.version or file_version)].add(counts)
    return number


def _to_group(kind: _Kind, counts: _Counts) -> Group:
    group = {
        "source": kind.source,
        "clientVersion": kind.version,
        "rawType": kind.raw_type or None,
        "reason": kind.reason,
        "count": counts.count,
        "firstSeen": counts.first,
        "lastSeen": counts.last,
        "samples": list(counts.samples)[::-1],
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
            _format_day(group.get("firstSeen")),
            _format_day(group.get("lastSeen")),
            _format_place(group["samples"][0]),
        )
        table.add_row(*(Text(visible(text).replace("\n", " ")) for text in texts))
    return table


def _format_day(seen: datetime | None) -> str:
    return seen.astimezone().strftime("%Y-%m-%d") if seen else ""


def _format_place(sample: dict[str, Any]) -> str:
    if "path" in sample:
        return f"{sample['path']}:{sample['line']}"
    return f"{sample['sessionId']} #{sample['sequence']}"
