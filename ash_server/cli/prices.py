"""`ash prices`: the prices that costs are calculated with."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

import rich_click as click
from rich.table import Table

from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.output.terminal import counted, stdout_console, visible
from ash_server.prices import PriceFiles, Prices
from ash_server.prices.errors import PricesError
from ash_server.prices.prices import UPDATED_FILE
from ash_server.settings import Settings
from ash_shared.model.usage.costs import NANO_DOLLARS

if TYPE_CHECKING:
    from ash_server.prices.rates import PricedModel, Rates

_UNITS = "dollars per million tokens; searches: per thousand"
_RATES = ("INPUT", "CACHE READ", "WRITE 5M", "WRITE 1H", "OUTPUT", "SEARCHES")
_NANO_PER_MILLION = Fraction(10**6, NANO_DOLLARS)
_NANO_PER_THOUSAND = Fraction(10**3, NANO_DOLLARS)


def _read_day(_: click.Context, __: click.Parameter, value: str | None) -> datetime:
    """Return the time of a date or a time; in UTC without a zone, as the days of prices are."""
    if value is None:
        return datetime.now(UTC)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter("it is a date, or a time such as 2026-11-02T09:00") from None
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


@click.group("prices", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Show and update the prices that costs are calculated with.

    They are the public prices of the package genai-prices, with their history, and your own in the file ASH_PRICES.
    Without a command, it lists them.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_all, words=())


@command.command("list")
@click.argument("words", nargs=-1)
def list_all(words: Sequence[str]) -> None:
    """List the present prices of models; with WORDS, of providers and models that contain them all.

    \b
    ash prices list anthropic opus
    """
    prices = PriceFiles(Settings.load()).load()
    now = datetime.now(UTC)
    table = Table("PROVIDER", "MODEL", *_RATES, box=None, pad_edge=False)
    for model in _all_models(prices):
        if all(word.lower() in f"{model.provider}/{model.id}".lower() for word in words):
            rates = model.find_rates(now, {}, 0).rates
            table.add_row(model.provider, visible(model.id), *(_cells(rates) if rates else ()))
    if not table.row_count:
        raise PricesError("no model with a price contains these words")
    stdout_console().print(table)
    click.echo(f"{counted(table.row_count, 'model')}, {prices.revision}; {_UNITS}")


@command.command()
@click.argument("model", callback=reject_empty)
@click.option("--source", default="", metavar="NAME", help="The format of the records, such as copilot_cli.")
@click.option("--at", "at", metavar="DATE", callback=_read_day, help="The prices at this time. Default: now.")
def show(model: str, source: str, at: datetime) -> None:
    """Show all prices of a model, named as in records.

    \b
    ash prices show claude-sonnet-4-5-20250929 --at 2026-01-01
    """
    prices = PriceFiles(Settings.load()).load()
    found = prices.model_at(source, model, at)
    if found is None:
        raise PricesError(
            f"no price list has {visible(model)}: its usage is unpriced. Set ASH_PRICES to a file with your own prices."
        )
    rows = list(_rows(found, at))
    if not rows:
        raise PricesError(
            f"{visible(found.id)} of {found.provider} has no price on {at:%Y-%m-%d}: its usage is unpriced. "
            "Set ASH_PRICES to a file with your own prices."
        )
    table = Table("REQUESTS", *_RATES, box=None, pad_edge=False)
    for name, rates in rows:
        table.add_row(name, *_cells(rates))
    click.echo(
        f"{visible(found.id)} of {found.provider}, {at:%Y-%m-%d %H:%M} UTC, {prices.revision}; {_UNITS}"
    )
    stdout_console().print(table)


@command.command()
@click.option("--url", help="An https address with the same data. Default: the repository of genai-prices.")
def update(url: str | None) -> None:
    """Fetch the newest public prices and store them in ASH_HOME.

    They are used until genai-prices is updated. The former file is kept.
    """
    # Imported late: the HTTP client takes longer than all else.
    from ash_server.prices.update import URL, update_prices

    result = update_prices(Settings.load().home / UPDATED_FILE, url or URL)
    click.echo(f"stored the prices of {counted(result.models, 'model')} in {result.path}")
    if result.previous:
        click.echo(f"the former ones are in {result.previous}")


def _all_models(prices: Prices) -> Iterator["PricedModel"]:
    from ash_server.prices.rates import OWN, PricedModel

    catalogue = prices.catalogue
    yield from (PricedModel(OWN, info) for info in catalogue.own)
    for provider, models in catalogue.lists.items():
        yield from (PricedModel(provider, info) for info in models)


def _rows(model: "PricedModel", at: datetime) -> Iterator[tuple[str, "Rates"]]:
    sizes = (0, *(start + 1 for start in model.thresholds))
    for conditions in model.conditions():
        before = None
        for size in sizes:
            rates = model.find_rates(at, conditions, size).rates
            if rates and rates != before:
                above = f"above {size - 1:,} tokens" if size else ""
                kind = ", ".join(f"{name} {value}" for name, value in conditions.items())
                yield ", ".join(filter(None, (kind.replace("_", " "), above))) or "standard", rates
            before = rates


def _cells(rates: "Rates") -> list[str]:
    tokens = (rates.input, rates.cache_read, rates.cache_write_5m, rates.cache_write_1h, rates.output)
    return [
        *(_amount(each, _NANO_PER_MILLION) for each in tokens),
        _amount(rates.web_search, _NANO_PER_THOUSAND),
    ]


def _amount(rate: Fraction | None, factor: Fraction) -> str:
    return "" if rate is None else f"{float(rate * factor):.6g}"
