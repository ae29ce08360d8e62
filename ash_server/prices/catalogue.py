"""The models with prices: of genai-prices or its update, and one's own. Importing it loads genai-prices."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from genai_prices import types

from ash_server.prices.matching import find_model
from ash_server.prices.names import normalize, places
from ash_server.prices.own_prices import OwnPrices, read_own_prices
from ash_server.prices.price_data import read_update
from ash_server.prices.rates import INPUT_KEYS, OWN, PricedModel
from ash_server.prices.rules import LONG_CONTEXT

PACKAGE = "genai-prices"


class Catalogue(NamedTuple):
    lists: Mapping[str, list[types.ModelInfo]]
    """The models of each provider."""
    own: OwnPrices
    revision: str
    fetched: datetime | None = None
    """When the lists were updated; None for the lists of genai-prices."""

    def known_at(self, now: datetime) -> datetime | None:
        """Return when the lists were current: when they were fetched, or the last change of a price before `now`."""
        models = (PricedModel(provider, info) for provider, infos in self.lists.items() for info in infos)
        changes = (at for model in models for at in model.changes if at <= now)
        return self.fetched or max(changes, default=None)

    def find(self, source: str, model: str) -> PricedModel | None:
        """Return the public prices of a model, named as in records of a source."""
        for provider, name in places(source, normalize(model)):
            if found := find_model(self.lists.get(provider, ()), name):
                return PricedModel(provider, _with_long_context(provider, found))
        return None

    def find_own(self, model: str) -> PricedModel | None:
        """Return one's own prices of a model."""
        info = self.own.find(normalize(model))
        return PricedModel(OWN, info) if info else None


EMPTY = Catalogue({}, OwnPrices({}), "")


def read_catalogue(override: Path | None, updated: Path | None) -> Catalogue:
    """Raises PricesError."""
    package = version(PACKAGE)
    update = read_update(updated, package) if updated else None
    own = read_own_prices(override) if override else OwnPrices({})
    revision = f"{PACKAGE} {package}"
    if update:
        revision += f", updated {update.fetched:%Y-%m-%d %H:%M} ({update.digest})"
    if override:
        revision += f", own prices {own.digest}"
    lists, fetched = (update.lists, update.fetched) if update else (_package_lists(), None)
    return Catalogue(lists, own, revision, fetched)


def _with_long_context(provider: str, model: types.ModelInfo) -> types.ModelInfo:
    """Add the prices of long requests that the data lacks."""
    rule, prices = LONG_CONTEXT.get((provider, model.id)), model.prices
    if rule is None or not isinstance(prices, types.ModelPrice):
        return model
    tiered = {
        key: types.TieredPrices(price, [types.Tier(rule.threshold, price * factor)])
        for key, factor in {**dict.fromkeys(INPUT_KEYS, rule.input), "output_mtok": rule.output}.items()
        if isinstance(price := getattr(prices, key), Decimal)
    }
    return replace(model, prices=types.ModelPrice(**{**vars(prices), **tiered}))


def _package_lists() -> dict[str, list[types.ModelInfo]]:
    from genai_prices.data import providers

    return {provider.id: provider.models for provider in providers}
