"""`ash budget`: limits of the cost of a day, week or month."""

import re
from functools import partial

import rich_click as click
from rich.table import Table

from ash_server.budgets.budgets import NewBudget
from ash_server.cli.common.change_store import StoreToChange, changes_store
from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.output.terminal import stdout_console, visible
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store
from ash_server.cli.sessions import read_project
from ash_server.cli.usage.zones import local_zone_name
from ash_server.store.usage.budgets import BudgetNotFound
from ash_shared.model.usage.budgets import BUDGET_PERIODS, MAX_BUDGET_USD, MIN_BUDGET_USD, Budget, SetBudget

_LIMIT = re.compile(rf"\$?([0-9]{{1,10}}(?:\.[0-9]{{1,9}})?)/({'|'.join(BUDGET_PERIODS)})")


def _read_limit(_: click.Context, __: click.Parameter, value: str) -> tuple[float, str]:
    match = _LIMIT.fullmatch(value)
    amount = float(match[1]) if match else 0.0
    if not match or not MIN_BUDGET_USD <= amount <= MAX_BUDGET_USD:
        raise click.BadParameter("it is an amount in US dollars for a day, week or month, such as 50/month")
    return amount, match[2]


@click.group("budget")
def command() -> None:
    """Set, list and delete budgets.

    The server compares budgets with costs every minute: as reported in the transcripts, or else at API prices.
    """


@command.command("set")
@click.argument("limit", metavar="AMOUNT/PERIOD", callback=_read_limit)
@click.option(
    "--project",
    metavar="FOLDER",
    callback=read_project,
    help="Only the cost of this project: a path or the name of a folder.",
)
@click.option(
    "--timezone",
    metavar="ZONE",
    help="The time zone where periods begin, such as Europe/Berlin; default: the local one.",
)
@click.option(
    "--webhook",
    "webhook_url",
    metavar="URL",
    help="Where the server sends a signed request when the budget is passed: https, or on its own machine.",
)
@changes_store
def set_(
    limit: tuple[float, str],
    *,
    store: StoreToChange,
    project: str | None,
    timezone: str | None,
    webhook_url: str | None,
) -> None:
    """Set the budget of a period, instead of an earlier one for the same period and project.

    \b
    ash budget set 50/month
    ash budget set 5/day --project ~/work/site --webhook https://hooks.example.com/ash
    """
    amount, period = limit
    zone = local_zone_name() if timezone is None else timezone
    new = NewBudget(amount, period, zone, project, webhook_url)  # type: ignore[arg-type]  # matched above
    budget = store.change(partial(_set, change=store, new=new))
    click.echo(describe_budget(budget))
    if budget.webhook_secret:
        click.echo(f"the secret of its webhook, shown only now: {budget.webhook_secret}")


async def _set(store: ReadStore, change: StoreToChange, new: NewBudget) -> SetBudget:
    await change.confirm(store, "Set 1 budget")
    return await store.set_budget(new)


@command.command("list")
@reads_store
def list_all(*, store: StoreToRead) -> None:
    """List the budgets, with the cost of their current periods."""
    budgets = store.read(lambda store: store.list_budgets()).budgets
    table = Table("BUDGET", "SPENT", "", "SINCE", "PROJECT", "WEBHOOK", "ID", box=None, pad_edge=False)
    for each in budgets:
        cells = (f"${each.limit_usd:,.2f}/{each.period}", f"${each.spent_usd:,.2f}", _share(each))
        since = f"{each.period_start:%Y-%m-%d} {each.timezone}"
        table.add_row(
            *cells,
            since,
            visible(each.project or "all"),
            "yes" if each.has_webhook else "",
            str(each.id)[:18],
        )
    if budgets:
        stdout_console().print(table)
    else:
        click.echo("no budgets; set one with `ash budget set 50/month`")


@command.command()
@click.argument("budget", callback=reject_empty)
@changes_store
def delete(budget: str, *, store: StoreToChange) -> None:
    """Delete a budget, named by the beginning of its id."""
    store.change(partial(_delete, change=store, reference=budget))
    click.echo("deleted")


async def _delete(store: ReadStore, change: StoreToChange, reference: str) -> None:
    budgets = (await store.list_budgets()).budgets
    matches = [each.id for each in budgets if str(each.id).startswith(reference)]
    if len(matches) != 1:
        number = "no budget has" if not matches else "several budgets have"
        raise BudgetNotFound(f"{number} an id that begins with {reference!r}; `ash budget list` lists them")
    await change.confirm(store, "Delete 1 budget")
    await store.delete_budget(matches[0])


def describe_budget(budget: Budget) -> str:
    of = f" of {visible(budget.project)}" if budget.project else ""
    return (
        f"the budget{of} is ${budget.limit_usd:,.2f} per {budget.period}; "
        f"${budget.spent_usd:,.2f} since {budget.period_start:%Y-%m-%d} ({_share(budget)})"
    )


def _share(budget: Budget) -> str:
    percent = f"{100 * budget.spent_usd / budget.limit_usd:.0f}%"
    return f"{percent}, passed" if budget.is_passed else percent
