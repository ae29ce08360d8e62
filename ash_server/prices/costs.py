"""Usage that has a price, and its cost."""

from bisect import bisect_left
from datetime import datetime
from typing import NamedTuple, Protocol

from ash_shared.model.usage.reasons import CostReason

BANDS = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
"""Input tokens above which prices of single requests change. `band` counts how many of them a request exceeds."""


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
