"""Prices of models, and the cost of usage."""

import asyncio
import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from ash_server.prices.costs import BANDS, Cost, PricedUsage
from ash_server.prices.rules import ASSUMED, conditions_of
from ash_server.settings import Settings
from ash_shared.model.usage.reasons import CostReason

if TYPE_CHECKING:
    from ash_server.prices.catalogue import Catalogue
    from ash_server.prices.rates import PricedModel, Rates

UPDATED_FILE = "prices.json"
"""Written by `ash prices update`, in ASH_HOME."""

_SYNTHETIC = "<synthetic>"
_MAX_CACHED = 10_000
_ANY_TIME = datetime.max.replace(tzinfo=UTC)


class _Scaled(NamedTuple):
    """Rates as integers."""

    numerators: tuple[int | None, ...]
    denominator: int


class _Rated(NamedTuple):
    rates: _Scaled | None
    reason: CostReason | None


_Options = tuple[tuple[_Rated, ...], ...]
"""By possible time, then by possible input, the smallest first."""


class Prices:
    """Prices of one revision. Loading takes about 0.3 s: `PriceFiles` does it in a thread."""

    def __init__(self, catalogue: "Catalogue") -> None:
        self._catalogue = catalogue
        self._models: dict[tuple[str, str], tuple[PricedModel | None, PricedModel | None]] = {}
        self._rates: dict[object, _Options] = {}

    @classmethod
    def load(cls, override: Path | None = None, *, updated: Path | None = None) -> Self:
        """Raises PricesError, for a file that is missing or invalid."""
        # Imported late: genai-prices takes longer than all else that a command imports.
        from ash_server.prices.catalogue import read_catalogue

        return cls(read_catalogue(override, updated))

    @classmethod
    def none(cls) -> Self:
        """Return prices of no model."""
        from ash_server.prices.catalogue import EMPTY

        return cls(EMPTY)

    @property
    def revision(self) -> str:
        """The version of genai-prices, the time and a digest of an update, and a digest of one's own prices."""
        return self._catalogue.revision

    @property
    def catalogue(self) -> "Catalogue":
        return self._catalogue

    def cost(self, usage: PricedUsage) -> Cost:
        """Return the cost at the prices of `quarter`: a sum must not contain usage from after a change of prices."""
        counts = _counts(usage)
        if not any(counts) or usage.model == _SYNTHETIC:
            return Cost(0)
        if not usage.model:
            return Cost(None, "no_model")
        options = self._find_rates(usage, usage.model)
        by_time = [[_multiply(counts, rated) for rated in by_input] for by_input in options]
        cost = by_time[0][0]
        if any(costs[0] != cost for costs in by_time):
            return Cost(None, "unknown_time")
        if any(each.nano_dollars != cost.nano_dollars for each in by_time[0]):
            return (
                Cost(None, "unknown_threshold")
                if usage.is_request
                else cost._replace(reason="several_requests")
            )
        return cost

    def changes(
        self, models: Iterable[tuple[str, str | None]], since: datetime, until: datetime
    ) -> list[datetime]:
        """Return when prices of these models (with their sources) change between two times, in ascending order."""
        found = [each for source, model in models if model for each in self._find(source, model) if each]
        times = {at for each in found for at in each.changes}
        daily = {at for each in found for at in each.daily_changes}
        days = (until - since).days + 2 if daily else 0
        first = since.astimezone(UTC).date()
        times |= {datetime.combine(first + timedelta(days=day), at) for day in range(days) for at in daily}
        return sorted(at for at in times if since < at < until)

    def model_at(self, source: str, model: str, at: datetime) -> "PricedModel | None":
        """Return one's own prices of a model, or the public ones."""
        own, public = self._find(source, model)
        return own if own and not (own.start and at < own.start) else public

    def _find(self, source: str, model: str) -> tuple["PricedModel | None", "PricedModel | None"]:
        """Return one's own prices of a model, and the public ones."""
        key = source, model
        if (found := self._models.get(key)) is None:
            if len(self._models) >= _MAX_CACHED:
                self._models.clear()
            found = self._catalogue.find_own(model), self._catalogue.find(source, model)
            self._models[key] = found
        return found

    def _find_rates(self, usage: PricedUsage, name: str) -> _Options:
        own = self._find(usage.source, name)[0]
        at = usage.quarter.astimezone(UTC) if usage.quarter else None
        if own and own.start and not at:
            return ((_Rated(None, "unknown_time"),),)
        model = self.model_at(usage.source, name, at or _ANY_TIME)
        if model is None:
            return ((_Rated(None, "unknown_model"),),)
        inputs = _possible_inputs(model.thresholds, usage)
        period = model.period_of(at) if at else None
        key = (
            usage.source,
            name,
            usage.service_tier,
            usage.speed,
            usage.region,
            inputs,
            usage.is_request,
            period,
        )
        if (found := self._rates.get(key)) is None:
            if len(self._rates) >= _MAX_CACHED:
                self._rates.clear()
            times = [at] if at else list(model.sample_times())
            found = self._rates[key] = _resolve(model, usage, inputs, times, is_own=model is own)
        return found


class PriceFiles:
    """The prices that `settings` select, loaded on first use and again after a file has changed."""

    def __init__(self, settings: Settings) -> None:
        self._override = settings.prices
        self._updated = settings.home / UPDATED_FILE
        self._lock = threading.Lock()
        self._loaded: tuple[object, Prices] | None = None

    def load(self) -> Prices:
        """Raises PricesError."""
        with self._lock:
            state = _state(self._override), _state(self._updated)
            if not self._loaded or self._loaded[0] != state:
                updated = self._updated if state[1] else None
                self._loaded = state, Prices.load(self._override, updated=updated)
            return self._loaded[1]

    async def get(self) -> Prices:
        """Like `load`, in a thread."""
        return await asyncio.to_thread(self.load)


def _state(path: Path | None) -> tuple[int, int] | None:
    try:
        stat = path.stat() if path else None
    except OSError:
        return None
    return stat and (stat.st_mtime_ns, stat.st_size)


def _counts(usage: PricedUsage) -> tuple[int, ...]:
    """Return the counts in the order of Rates."""
    return (
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_5m_tokens,
        usage.cache_write_1h_tokens,
        usage.output_tokens - usage.reasoning_tokens,
        usage.reasoning_tokens,
        usage.web_searches,
    )


def _possible_inputs(thresholds: Sequence[int], usage: PricedUsage) -> tuple[int, ...]:
    """Return an input size for each step of the price that the requests may be in, the smallest first."""
    steps = (0, *(start + 1 for start in thresholds))
    if not thresholds:
        return steps
    total = sum(_counts(usage)[:4])
    if not usage.is_request:
        return steps[:1] if 0 <= total <= thresholds[0] else steps
    if usage.answers == 1:
        low = high = total
    else:
        low = BANDS[usage.band - 1] + 1 if usage.band else 0
        high = BANDS[usage.band] if usage.band < len(BANDS) else thresholds[-1] + 1
    return steps[bisect_left(thresholds, low) : bisect_left(thresholds, high) + 1]


def _resolve(
    model: "PricedModel",
    usage: PricedUsage,
    inputs: Sequence[int],
    times: Sequence[datetime],
    *,
    is_own: bool,
) -> _Options:
    """Return the rates for all times and inputs that the usage leaves open."""
    conditions = {} if is_own else conditions_of(usage.service_tier, usage.speed, usage.region)
    doubt: CostReason | None = "assumed_rate" if usage.service_tier in ASSUMED and not is_own else None

    def rated(at: datetime, size: int) -> _Rated:
        rates, reason = model.find_rates(at, conditions, size)
        return _Rated(rates and _scale(rates), reason or doubt)

    return tuple({tuple(rated(at, size) for size in inputs): None for at in times})


def _scale(rates: "Rates") -> _Scaled:
    denominator = lcm(*(rate.denominator for rate in rates if rate is not None))
    return _Scaled(tuple(None if rate is None else int(rate * denominator) for rate in rates), denominator)


def _multiply(counts: Sequence[int], rated: _Rated) -> Cost:
    rates, reason = rated
    if rates is None:
        return Cost(None, reason)
    total = 0
    for count, rate in zip(counts[:-1], rates.numerators[:-1], strict=True):
        if rate is None:
            if count:
                return Cost(None, "no_price")
        else:
            total += count * rate
    searches, rate = counts[-1], rates.numerators[-1]
    if searches and rate is None:
        reason = reason or "no_search_price"
    total += searches * (rate or 0)
    return Cost(_rounded(total, rates.denominator), reason)


def _rounded(numerator: int, denominator: int) -> int:
    """Return `round(Fraction(numerator, denominator))`, faster."""
    whole, rest = divmod(numerator, denominator)
    is_half = 2 * rest == denominator  # rounded to an even number
    rounds_up = whole % 2 == 1 if is_half else 2 * rest > denominator
    return whole + rounds_up
