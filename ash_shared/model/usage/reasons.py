"""Why usage has no computed cost, or an estimated one."""

from typing import Literal, TypeAlias

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
