"""`ash projects`: list projects."""

from functools import partial
from typing import Any

import rich_click as click
from rich.table import Table

from ash_server.cli.common.options import json_option, reject_empty
from ash_server.cli.common.output.terminal import (
    local_time,
    print_next_page,
    stdout_console,
    visible,
    visible_json,
    warn,
)
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store
from ash_server.store.lists.projects import MAX_PROJECTS
from ash_shared.model.reports.projects import Project


@click.command("projects")
@click.option("--usage", is_flag=True, help="With tokens and costs.")
@click.option(
    "--after", metavar="CURSOR", callback=reject_empty, help="Next page: the cursor of the last one."
)
@click.option("--limit", type=click.IntRange(1, MAX_PROJECTS), default=100, show_default=True)
@json_option
@reads_store
def command(*, store: StoreToRead, as_json: bool, **query: Any) -> None:
    """List projects, newest activity first.

    \b
    ash projects --usage
    ash sessions --project site
    """
    store.read(partial(_print_projects, as_json=as_json, **query))


async def _print_projects(store: ReadStore, *, as_json: bool, **query: Any) -> None:
    page = await store.list_projects(**query)
    if as_json:
        click.echo(visible_json(page.model_dump_json()))
        return
    if page.projects:
        stdout_console().print(_table(page.projects, with_usage=query["usage"]))
    else:
        warn("no session has a project; run `ash reindex` for sessions of earlier versions")
    print_next_page(page.next_after)


def _table(projects: list[Project], *, with_usage: bool) -> Table:
    table = Table("last activity", box=None, pad_edge=False, header_style="dim")
    table.add_column("sessions", justify="right")
    table.add_column("messages", justify="right")
    if with_usage:
        table.add_column("cost", justify="right")
    table.add_column("project", overflow="fold")
    for project in projects:
        cost = [_cost(project)] if with_usage else []
        time = local_time(project.last_active_at)
        counts = str(project.session_count), str(project.message_count)
        table.add_row(time, *counts, *cost, visible(project.path))
    return table


def _cost(project: Project) -> str:
    cost = project.usage and project.usage.cost_usd
    return "" if cost is None else f"${cost:,.2f}"
