"""Prices of models, and the cost of usage."""

from pathlib import Path
from typing import Self

from ash_server.prices.costs import Cost, PricedUsage
from ash_server.settings import Settings


class Prices:
    """Prices of one revision. Loading takes about 0.3 s: `PriceFiles` does it in a thread."""

    revision: str
    """The version of genai-prices or the date of an update, and a digest of one's own prices."""

    @classmethod
    def load(cls, override: Path | None = None, *, updated: Path | None = None) -> Self:
        """Raises PricesError, for a file that is missing or invalid."""
        raise NotImplementedError

    def cost(self, usage: PricedUsage) -> Cost:
        raise NotImplementedError

    def extra_thresholds(self, source: str, model: str | None) -> tuple[int, ...]:
        """Return the thresholds of the model that BANDS does not contain: sums by band do not decide them."""
        raise NotImplementedError


class PriceFiles:
    """The prices that `settings` select, loaded on first use and again after a file has changed."""

    def __init__(self, settings: Settings) -> None:
        raise NotImplementedError

    def load(self) -> Prices:
        """Raises PricesError."""
        raise NotImplementedError

    async def get(self) -> Prices:
        """Like `load`, in a thread."""
        raise NotImplementedError
