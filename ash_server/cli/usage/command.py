"""`ash usage`: tokens and costs of all sessions."""

import sys
from collections.abc import Mapping, Sequence, Set
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, get_args
from zoneinfo import ZoneInfo

import rich_click as click

from ash_server.cli.budget import describe_budget
from ash_server.cli.common.options import json_option, reject_empty
from ash_server.cli.common.output.terminal import counted, stdout_console, visible, visible_json, warn
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.cli.sessions import parse_moment, read_project
from ash_server.cli.usage.table import print_report
from ash_server.cli.usage.zones import local_zone_name
from ash_server.errors import InvalidParameter
from ash_server.store.usage.zones import zone_of
from ash_shared.model.usage.budgets import Budget, BudgetPage
from ash_shared.model.usage.report import DIMENSIONS, MAX_DIMENSIONS, CostMode, Dimension, UsageReport
from ash_shared.projections.usage_csv import to_csv
from ash_shared.projections.usage_report import MAX_ROWS

_TABLE_ROWS = 100

_A_DAY = timedelta(days=1)


def _read_dimensions(_: click.Context, __: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for value in values for name in value.split(",")))
    if len(names) > MAX_DIMENSIONS or not set(names) <= set(DIMENSIONS):
        raise click.BadParameter(
            f"{','.join(names)!r}: choose at most {MAX_DIMENSIONS} of {', '.join(DIMENSIONS)}"
        )
    return names


@click.command("usage")
@click.option(
    "--by",
    multiple=True,
    default=["day"],
    metavar="NAMES",
    callback=_read_dimensions,
    help=f"One or two of {', '.join(DIMENSIONS)}; default: day.",
)
@click.option("--breakdown", is_flag=True, help="Also by model.")
@click.option(
    "--since",
    metavar="TIME",
    help="Only since a date, a time, or for a span: 30m, 12h, 7d, 2w.",
)
@click.option("--until", metavar="TIME", help="Only before a time; a date includes its day.")
@click.option(
    "--project",
    metavar="FOLDER",
    callback=read_project,
    help="Only this project: a path or the name of a folder.",
)
@click.option("--model", metavar="NAME", callback=reject_empty, help="Only this model.")
@click.option("--source", metavar="NAME", callback=reject_empty, help="Only this format, for example claude.")
@click.option("--agent", metavar="NAME", callback=reject_empty, help="Only sessions of this program.")
@click.option("--machine", metavar="HOST", callback=reject_empty, help="Only sessions stored by this host.")
@click.option("--key", type=click.UUID, help="Only sessions stored with the key that has this id.")
@click.option("--session", callback=reject_empty, help="Only this session, with its subagents.")
@click.option(
    "--timezone", metavar="ZONE", help="Time zone of days, for example Europe/Berlin; default: the local one."
)
@click.option(
    "--cost",
    type=click.Choice(get_args(CostMode)),
    default="auto",
    show_default=True,
    help="reported: as in the records. computed: from tokens. auto: computed for answers without a reported cost.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_ROWS),
    help=f"At most this many rows, the newest or most expensive; default: {_TABLE_ROWS} in the table.",
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="The rows as CSV.")
@reads_store
def command(  # noqa: PLR0913  # one argument per option
    *,
    store: StoreToRead,
    by: tuple[Dimension, ...],
    breakdown: bool,
    since: str | None,
    until: str | None,
    session: str | None,
    timezone: str | None,
    limit: int | None,
    as_json: bool,
    as_csv: bool,
    **filters: Any,
) -> None:
    """Show tokens and costs by day, or by one or two other dimensions.

    Costs are at API prices; a subscription costs what its plan says. Messages of copied sessions count once. Reads the
    server at --url or ASH_URL, else the local store.

    \b
    ash usage --since 7d --breakdown
    ash usage --by project,month
    ash usage --by block --source claude
    """
    if as_json and as_csv:
        raise click.UsageError("Give --json or --csv, not both.")
    zone = _zone(timezone)
    query = {
        **filters,
        "by": _with_model(by) if breakdown else by,
        "timezone": zone.key,
        "since": _since(since, zone),
        "until": _until(until, zone),
        "limit": limit or (MAX_ROWS if as_json or as_csv else _TABLE_ROWS),
    }
    report, budgets = store.read(partial(_read, session=session, query=query))
    chosen = {name for name, value in {**query, "session": session}.items() if value is not None} & _FILTERS
    if as_json:
        click.echo(visible_json(report.model_dump_json()))
    elif as_csv:
        text = to_csv(report)
        click.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
    elif report.rows or report.totals.answers:
        print_report(stdout_console(), report)
    _warn(report, is_filtered=bool(chosen))
    for budget in () if as_json or as_csv else budgets.budgets:
        if budget.is_passed and _concerns(budget, chosen, query):
            warn(f"passed: {describe_budget(budget)}")


_TIMES = {"since", "until"}
_FILTERS = _TIMES | {"project", "model", "source", "agent", "machine", "key", "session"}


def _concerns(budget: Budget, chosen: Set[str], query: Mapping[str, Any]) -> bool:
    """Return True if the report has all usage of the budget's project in a time that reaches its period."""
    has_whole_project = query["project"] in (None, budget.project)
    is_over = query["until"] is not None and query["until"] <= budget.period_start
    return has_whole_project and not is_over and chosen <= _TIMES | {"project"}


def _with_model(by: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    if len(by) == MAX_DIMENSIONS and "model" not in by:
        raise click.UsageError("--breakdown adds the dimension model to a single other one.")
    return by if "model" in by else (*by, "model")


def _zone(name: str | None) -> ZoneInfo:
    try:
        return zone_of(local_zone_name() if name is None else name)
    except InvalidParameter as error:
        raise click.BadParameter(str(error), param_hint="--timezone") from None


def _since(text: str | None, zone: ZoneInfo) -> datetime | None:
    return None if text is None else _moment("--since", text, zone)


def _until(text: str | None, zone: ZoneInfo) -> datetime | None:
    """Return the end of a day, or the time."""
    if text is None:
        return None
    moment = _moment("--until", text, zone)
    return moment + _A_DAY if _is_date(text) else moment


def _moment(option: str, text: str, zone: ZoneInfo) -> datetime:
    try:
        return parse_moment(text, zone)
    except click.BadParameter as error:
        raise click.BadParameter(error.message, param_hint=option) from None


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


async def _read(
    store: ReadStore, session: str | None, query: dict[str, Any]
) -> tuple[UsageReport, BudgetPage]:
    id = None if session is None else (await session_named(store, session)).id
    return await store.get_usage(session=id, **query), await store.list_budgets()


def _warn(report: UsageReport, *, is_filtered: bool) -> None:
    if not report.rows and not report.totals.answers:
        stored = "no usage is stored yet; `ash import --discover` lists transcripts to import"
        warn("no usage matches" if is_filtered else stored)
    if report.sessions_without_facts:
        missing = counted(report.sessions_without_facts, "session")
        warn(f"the usage of {missing} is missing: an earlier version stored them; `ash reindex` adds it")
