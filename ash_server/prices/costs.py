"""Usage that has a price, and its cost."""

from bisect import bisect_left
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias

BANDS = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
"""Input tokens above which prices of single requests change. `band` counts how many of them a request exceeds."""

CostReason: TypeAlias = Literal[
    "no_model",
    "unknown_model",
    "no_price",
    "unknown_rate",
    "unknown_time",
    "unknown_threshold",
    "several_requests",
    "assumed_rate",
    "later_rate",
    "no_search_price",
]

REASONS: dict[CostReason, str] = {
    # Unpriced.
    "no_model": "the record does not name a model",
    "unknown_model": "no price list has this model under the provider that its source and name state",
    "no_price": "the price list has no price for some of these tokens",
    "unknown_rate": "the provider publishes no rate for this service tier, speed or region",
    "unknown_time": "the time is unknown, and the price has changed",
    "unknown_threshold": "the price depends on a number of input tokens that the stored sums do not distinguish",
    # An estimate.
    "several_requests": "a total of several requests, priced as if each were below the price's threshold",
    "assumed_rate": "the record names the requested service tier only; the standard price is assumed",
    "later_rate": "rates of this service tier are known from a later day only, and are applied in proportion",
    "no_search_price": "web searches are not included, because the price list has no price for them",
}


class PricedUsage(Protocol):
    """The usage of an answer, or the sum over answers that differ in nothing but their counts."""

    @property
    def source(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def service_tier(self) -> str | None: ...
    @property
    def speed(self) -> str | None: ...
    @property
    def region(self) -> str | None: ...
    @property
    def quarter(self) -> datetime | None:
        """The time, or the start of its quarter of an hour. None if unknown."""

    @property
    def band(self) -> int:
        """How many of BANDS the whole input of each request exceeds."""

    @property
    def is_request(self) -> bool:
        """True if each answer is a single request."""

    @property
    def answers(self) -> int: ...
    @property
    def input_tokens(self) -> int:
        """Without tokens read from or written to a cache."""

    @property
    def cache_read_tokens(self) -> int: ...
    @property
    def cache_write_5m_tokens(self) -> int: ...
    @property
    def cache_write_1h_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int:
        """Including reasoning."""

    @property
    def reasoning_tokens(self) -> int: ...
    @property
    def web_searches(self) -> int: ...


class Cost(NamedTuple):
    nano_dollars: int | None
    """None if unpriced."""
    reason: CostReason | None = None
    """Why it is unpriced or, beside a number, why it is an estimate."""


def band_of(whole_input: int) -> int:
    """Return how many of BANDS this number of input tokens exceeds."""
    return bisect_left(BANDS, whole_input)
