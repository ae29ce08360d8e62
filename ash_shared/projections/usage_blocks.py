"""The five-hour windows of subscriptions."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from ash_shared.model.usage.report import UsageBlock, UsageBurn

BLOCK = timedelta(hours=5)
_MINUTE = timedelta(minutes=1)


def block_starts(quarters: Iterable[datetime]) -> dict[datetime, datetime]:
    """Return the start of the block of each quarter of an hour, in ascending order.

    A block begins with the hour, in UTC, of the first answer after the end of the block before it.
    """
    starts = dict[datetime, datetime]()
    start: datetime | None = None
    for quarter in sorted(set(quarters)):
        if start is None or quarter >= start + BLOCK:
            start = quarter.replace(minute=0, second=0, microsecond=0)
        starts[quarter] = start
    return starts


class Blocks:
    """The blocks with activity, at a time."""

    def __init__(self, quarters: Iterable[datetime], now: datetime) -> None:
        self._starts = block_starts(quarters)
        self._now = now
        self._first: Mapping[datetime, datetime] = _first_quarters(self._starts)

    def start(self, quarter: datetime) -> datetime:
        return self._starts[quarter]

    def fields(self, quarter: datetime, tokens: int, cost_usd: float | None) -> dict[str, Any]:
        """Return the fields of a row in the block of this quarter."""
        start = self._starts[quarter]
        is_active = start <= self._now < start + BLOCK
        window = UsageBlock(start=start, end=start + BLOCK, is_active=is_active)
        return {"window": window, "burn": self._burn(start, tokens, cost_usd) if is_active else None}

    def _burn(self, start: datetime, tokens: int, cost_usd: float | None) -> UsageBurn:
        minutes = max(1.0, (self._now - self._first[start]) / _MINUTE)
        remaining = (start + BLOCK - self._now) / _MINUTE
        growth = 1 + remaining / minutes
        return UsageBurn(
            minutes=minutes,
            tokens_per_minute=tokens / minutes,
            cost_usd_per_minute=None if cost_usd is None else cost_usd / minutes,
            projected_tokens=round(tokens * growth),
            projected_cost_usd=None if cost_usd is None else cost_usd * growth,
        )


def _first_quarters(starts: Mapping[datetime, datetime]) -> dict[datetime, datetime]:
    """Return the first quarter of an hour with an answer, by the start of the block."""
    first = dict[datetime, datetime]()
    for quarter, start in starts.items():
        first.setdefault(start, quarter)
    return first
