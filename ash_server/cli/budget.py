"""`ash budget`: limits of the cost of a day, week or month."""

import re
from functools import partial

import rich_click as click
from rich.table import Table

from ash_server.budgets.budgets import NewBudget, list_budgets, set_budget
from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.output.terminal import stdout_console, visible
from ash_server.cli.common.store import with_store
from ash_server.cli.sessions import read_project
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.usage.budgets import BudgetNotFound
from ash_shared.model.usage.budgets import BUDGET_PERIODS, MAX_BUDGET_USD, MIN_BUDGET_USD, Budget

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

    The server compares budgets with costs every minute: as reported in the transcripts, or else at API prices. These
    commands use the database, like `ash import`.
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
    default="UTC",
    show_default=True,
    help="The time zone where periods begin, such as Europe/Berlin.",
)
@click.option(
    "--webhook",
    "webhook_url",
    metavar="URL",
    help="Where the server sends a signed request when the budget is passed: https, or on its own machine.",
)
def set_(limit: tuple[float, str], project: str | None, timezone: str, webhook_url: str | None) -> None:
    """Set the budget of a period, instead of an earlier one for the same period and project.

    \b
    ash budget set 50/month
    ash budget set 5/day --project ~/work/site --webhook https://hooks.example.com/ash
    """
    amount, period = limit
    new = NewBudget(amount, period, timezone, project, webhook_url)  # type: ignore[arg-type]  # matched above
    budget = with_store(lambda store: set_budget(store, Settings.load(), new))
    click.echo(describe_budget(budget))
    if budget.webhook_secret:
        click.echo(f"the secret of its webhook, shown only now: {budget.webhook_secret}")


@command.command("list")
def list_all() -> None:
    """List the budgets, with the cost of their current periods."""
    budgets = with_store(list_budgets).budgets
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
def delete(budget: str) -> None:
    """Delete a budget, named by the beginning of its id."""
    with_store(partial(_delete, reference=budget))
    click.echo("deleted")


async def _delete(store: Store, reference: str) -> None:
    matches = [
        each.id
        for each in await store.budgets.list_budgets(store.tenant)
        if str(each.id).startswith(reference)
    ]
    if len(matches) != 1:
        number = "no budget has" if not matches else "several budgets have"
        raise BudgetNotFound(f"{number} an id that begins with {reference!r}; `ash budget list` lists them")
    await store.budgets.delete(store.tenant, matches[0])


def describe_budget(budget: Budget) -> str:
    of = f" of {visible(budget.project)}" if budget.project else ""
    return (
        f"the budget{of} is ${budget.limit_usd:,.2f} per {budget.period}; "
        f"${budget.spent_usd:,.2f} since {budget.period_start:%Y-%m-%d} ({_share(budget)})"
    )


def _share(budget: Budget) -> str:
    percent = f"{100 * budget.spent_usd / budget.limit_usd:.0f}%"
    return f"{percent}, passed" if budget.is_passed else percent
