"""`ash doctor`: sizes of the database, and findings."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec
import rich_click as click
from pydantic.alias_generators import to_camel
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from ash_server.cli.common.options import json_option, local_only
from ash_server.cli.common.output.terminal import counted, local_time, stdout_console, visible, visible_json
from ash_server.settings import Settings
from ash_server.store.connections.pool import connect_command
from ash_server.store.embedded.open import open_without_schema
from ash_server.store.maintenance.doctor import (
    Diagnosis,
    Finding,
    Follower,
    IndexSize,
    Statement,
    TableSize,
    diagnose,
)

_LARGE_INDEXES = 10
_QUERY_CHARACTERS = 80


@click.command("doctor")
@json_option
@local_only("run this command on the machine of the server")
def command(as_json: bool) -> int:
    """Check the database, and show its sizes.

    Finds deleted rows that take space, missing or old statistics, sessions read by older versions, a search index or
    followers (replicas) that are behind, and dangerous settings. With the embedded store, it also finds transcripts
    that an agent deletes within 7 days and that are not imported. Each finding names the command that mends it. The
    exit code is 1 if there are findings. It only reads, and the server may run meanwhile.

    \b
    ash doctor --json
    """
    settings = Settings.load()
    with (
        open_without_schema(settings) as url,
        connect_command(url) as conn,
    ):
        diagnosis = diagnose(conn, read_url=settings.read_url)
        if settings.database_url is None and diagnosis.tables:
            diagnosis = _with_losses(diagnosis)
    (_show_json if as_json else _show_view)(diagnosis)
    return 1 if diagnosis.findings else 0


def _with_losses(diagnosis: Diagnosis) -> Diagnosis:
    """Add the transcripts that agents on this machine delete before they are stored."""
    from ash_server.cli.import_.discovery import count_lost, describe_expiring, describe_lost, discover

    discovered = discover(only_expiring=True)
    expiring = [
        Finding("expiring_transcripts", describe_expiring(each, each.retention), _IMPORT)
        for each in discovered
        if each.expiring and each.retention
    ]
    prompts = [
        Finding("new_prompts", describe_lost(each), _IMPORT) for each in discovered if each.new_prompts
    ]
    lost = [count_lost(each) for each in discovered if each.lost and not each.new_prompts]
    return diagnosis._replace(findings=[*diagnosis.findings, *expiring, *prompts], lost_transcripts=lost)


_IMPORT = "ash import --all"


def _show_json(diagnosis: Diagnosis) -> None:
    click.echo(visible_json(msgspec.json.encode(_to_object(diagnosis)).decode()))


def _to_object(value: object) -> object:
    """Return named tuples as objects with the names of JSON."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {to_camel(name): _to_object(each) for name, each in value._asdict().items()}
    return [_to_object(each) for each in value] if isinstance(value, list | tuple) else value


def _show_view(diagnosis: Diagnosis) -> None:
    console = stdout_console()
    for table in _tables(diagnosis):
        console.print(table)
        console.print()
    for line in _notes(diagnosis):
        click.echo(line)
    click.echo()
    for finding in diagnosis.findings:
        click.echo(_describe(finding))
    click.echo(counted(len(diagnosis.findings), "finding") if diagnosis.findings else "no findings")


def _tables(diagnosis: Diagnosis) -> Iterator[Table]:
    if diagnosis.tables:
        yield _sizes_of_tables(diagnosis.tables)
        yield _sizes_of_indexes(diagnosis.indexes[:_LARGE_INDEXES])
    if diagnosis.statements:
        yield _slowest_statements(diagnosis.statements)
    if diagnosis.followers:
        yield _lags_of_followers(diagnosis.followers)


def _sizes_of_tables(tables: Iterable[TableSize]) -> Table:
    rows = (
        (
            each.name,
            _format_moment(each.vacuumed_at),
            _format_moment(each.analyzed_at),
            f"{max(each.rows, each.live_rows):,}",
            decimal(each.bytes),
            decimal(each.index_bytes),
            f"{each.dead_rows:,}",
        )
        for each in tables
    )
    return _table(("table", "vacuumed", "analyzed"), ("rows", "size", "indexes", "deleted rows"), rows)


def _sizes_of_indexes(indexes: Iterable[IndexSize]) -> Table:
    rows = ((each.name, each.table, decimal(each.bytes), f"{each.scans:,}") for each in indexes)
    return _table(("index", "of"), ("size", "scans"), rows)


def _slowest_statements(statements: Iterable[Statement]) -> Table:
    rows = (
        (each.query[:_QUERY_CHARACTERS], f"{each.calls:,}", f"{each.mean_ms:,.1f}") for each in statements
    )
    return _table(("slowest statements",), ("calls", "mean, ms"), rows)


def _lags_of_followers(followers: Iterable[Follower]) -> Table:
    rows = ((each.name, each.state, decimal(each.lag_bytes)) for each in followers)
    return _table(("follower", "state"), ("behind",), rows)


def _notes(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"the database takes {decimal(diagnosis.bytes)}"
    if diagnosis.statements is None:
        yield "slow statements are not known: PostgreSQL has no extension pg_stat_statements (docs/operations.md)"
    if not diagnosis.followers:
        yield "no followers"
    yield f"events that searches do not find yet: {diagnosis.pending_events:,}"
    yield from diagnosis.lost_transcripts


def _describe(finding: Finding) -> str:
    return visible(f"! {finding.text}\n  {finding.remedy}")


def _table(texts: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(*texts, box=None, pad_edge=False, header_style="dim")
    for name in numbers:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(Text(visible(text)) for text in row))
    return table


def _format_moment(moment: datetime | None) -> str:
    return local_time(moment) or "never"
