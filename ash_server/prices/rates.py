"""The prices of one model, at a time and under given conditions."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from genai_prices import types

from ash_server.prices import rules
from ash_shared.model.usage.costs import NANO_DOLLARS
from ash_shared.model.usage.reasons import CostReason

OWN = "own"
"""In place of a provider, for one's own prices."""

_PRICE_KEYS = {
    "input": "input_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write_5m": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
    "reasoning": "output_reasoning_mtok",
    "web_search": "web_searches_kcount",
}
INPUT_KEYS = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")
_MIDNIGHT = time(tzinfo=UTC)

Flat = dict[str, Fraction]
"""Dollars per token or search, by field of Rates."""


class Rates(NamedTuple):
    """Nano-dollars per token or search; None without a price. Caches without a price cost as much as input."""

    input: Fraction | None
    cache_read: Fraction | None
    cache_write_5m: Fraction | None
    cache_write_1h: Fraction | None
    output: Fraction | None
    reasoning: Fraction | None
    web_search: Fraction | None


class FoundRates(NamedTuple):
    rates: Rates | None
    reason: CostReason | None = None


class PricedModel:
    """A model of a price list, or one's own prices of a model."""

    def __init__(self, provider: str, info: types.ModelInfo) -> None:
        self.provider = provider
        """The price list."""
        self.info = info

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def start(self) -> datetime | None:
        """Since when the model has these prices; None for always."""
        first = None if isinstance(self.info.prices, types.ModelPrice) else self.info.prices[0].constraint
        return (
            datetime.combine(first.start_date, _MIDNIGHT)
            if isinstance(first, types.StartDateConstraint)
            else None
        )

    @cached_property
    def thresholds(self) -> tuple[int, ...]:
        """Input tokens above which a single request has other prices, in ascending order."""
        tiered = [price for prices in self._all_prices() for price in _stated(prices).values()]
        return tuple(
            sorted(
                {
                    tier.start
                    for price in tiered
                    if isinstance(price, types.TieredPrices)
                    for tier in price.tiers
                }
            )
        )

    @cached_property
    def changes(self) -> tuple[datetime, ...]:
        """The times since which other prices apply, in ascending order."""
        return tuple(
            datetime.combine(day, _MIDNIGHT)
            for day in sorted(
                {
                    each.start_date
                    for each in self._constraints()
                    if isinstance(each, types.StartDateConstraint)
                }
            )
        )

    @cached_property
    def daily_changes(self) -> tuple[time, ...]:
        """The times of day, in UTC, when prices change, in ascending order."""
        windows = [each for each in self._constraints() if isinstance(each, types.TimeOfDateConstraint)]
        return tuple(
            sorted({_in_utc(each) for window in windows for each in (window.start_time, window.end_time)})
        )

    def conditions(self) -> list[Mapping[str, str]]:
        """Return the conditions with rates of their own, each alone, after the standard one."""
        listed = [each.when for each in self.info.price_variants or ()]
        by_rule = [dict([each]) for each in rules.conditions_for(self.provider, self.id)]
        distinct = {
            tuple(each.items()): each for each in (*listed, *by_rule) if each != {"service_tier": "default"}
        }
        return [{}, *distinct.values()]

    def period_of(self, at: datetime) -> tuple[int, int]:
        """Return the same value for times with the same prices."""
        return bisect_right(self.changes, at), bisect_right(self.daily_changes, at.timetz())

    def sample_times(self) -> Iterator[datetime]:
        """Yield a time of each period."""
        first = self.changes[0] - timedelta(days=1) if self.changes else datetime(2026, 1, 1, tzinfo=UTC)
        for day in (first, *self.changes):
            yield day
            yield from (datetime.combine(day.date(), each) for each in self.daily_changes)

    def find_rates(self, at: datetime, conditions: Mapping[str, str], whole_input: int) -> FoundRates:
        """Return the rates of a request with so many input tokens."""
        listed = self._listed_conditions(at, conditions)
        flat = self._flat(at, listed, whole_input)
        if not flat:
            return FoundRates(None, "no_price")
        reason: CostReason | None = None
        for condition in conditions.items() - listed.items():
            factors, doubt = self._factors(condition, at, whole_input)
            if factors is None:
                return FoundRates(None, "unknown_rate")
            flat = {name: price * factors.get(name, 1) for name, price in flat.items()}
            reason = reason or doubt
        return FoundRates(self._to_rates(flat), reason)

    def _listed_conditions(self, at: datetime, conditions: Mapping[str, str]) -> dict[str, str]:
        """Return the conditions with rates in the price list."""
        names = {
            name
            for each in self.info.price_variants or ()
            if each.when.items() <= conditions.items()
            and (each.constraint is None or each.constraint.active(at))
            for name in each.when
        }
        return {name: value for name, value in conditions.items() if name in names}

    def _factors(
        self, condition: tuple[str, str], at: datetime, whole_input: int
    ) -> tuple[Flat | None, CostReason | None]:
        """Return the factors of standard prices under a condition without listed rates; None if they are unknown."""
        if (factor := rules.factor_of(self.provider, self.id, condition)) is not None:
            return {name: factor for name in _PRICE_KEYS if name != "web_search"}, None
        if (start := self._first_start(condition, at)) is None:
            return None, None
        changed, standard = (self._flat(start, context, whole_input) for context in (dict([condition]), {}))
        return {name: changed[name] / price for name, price in standard.items() if price}, "later_rate"

    def _first_start(self, condition: tuple[str, str], at: datetime) -> datetime | None:
        """Return the first later time with rates for the condition in the price list."""
        starts = [
            datetime.combine(each.constraint.start_date, _MIDNIGHT)
            for each in self.info.price_variants or ()
            if each.when == dict([condition]) and isinstance(each.constraint, types.StartDateConstraint)
        ]
        return min((start for start in starts if start > at), default=None)

    def _flat(self, at: datetime, context: Mapping[str, str], whole_input: int) -> Flat:
        """Return the stated prices for a request with so many input tokens."""
        stated = _stated(self.info.get_prices(at, context))
        return {
            name: Fraction(_at_threshold(stated[key], whole_input))
            / (1000 if name == "web_search" else 10**6)
            for name, key in _PRICE_KEYS.items()
            if key in stated
        }

    def _to_rates(self, flat: Flat) -> Rates:
        input_, write = flat.get("input"), flat.get("cache_write_5m", flat.get("input"))
        write_1h, search = flat.get("cache_write_1h"), flat.get("web_search")
        if self.provider != OWN and rules.CLAUDE.search(self.id):
            write_1h = write_1h or (input_ and input_ * rules.CACHE_WRITE_1H)
            search = search or rules.WEB_SEARCH
        each = (
            input_,
            flat.get("cache_read", input_),
            write,
            write if write_1h is None else write_1h,
            flat.get("output"),
            flat.get("reasoning", flat.get("output")),
            search,
        )
        return Rates(*(None if price is None else price * NANO_DOLLARS for price in each))

    def _all_prices(self) -> Iterator[types.ModelPrice]:
        if isinstance(self.info.prices, types.ModelPrice):
            yield self.info.prices
        else:
            yield from (each.prices for each in self.info.prices)
        yield from (each.prices for each in self.info.price_variants or ())

    def _constraints(self) -> Iterator[types.StartDateConstraint | types.TimeOfDateConstraint | None]:
        if not isinstance(self.info.prices, types.ModelPrice):
            yield from (each.constraint for each in self.info.prices)
        yield from (each.constraint for each in self.info.price_variants or ())


def _stated(prices: types.ModelPrice) -> dict[str, Decimal | types.TieredPrices]:
    values = {key: getattr(prices, key) for key in _PRICE_KEYS.values()}
    return {key: value for key, value in values.items() if value is not None}


def _at_threshold(price: Decimal | types.TieredPrices, whole_input: int) -> Decimal:
    if not isinstance(price, types.TieredPrices):
        return price
    exceeded = [tier.price for tier in price.tiers if whole_input > tier.start]
    return exceeded[-1] if exceeded else price.base


def _in_utc(moment: time) -> time:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return datetime.combine(date(2000, 1, 1), moment).astimezone(UTC).timetz()
