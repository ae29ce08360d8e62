"""A limit on the requests per key: token buckets in the memory of the process.

The framework's middleware runs before the key is known, and knows fixed windows only.
"""

import math
from uuid import UUID

from ash_server.errors import RateLimited

BURST_SECONDS = 10
"""An idle key can save up requests for this many seconds."""


class RateLimit:
    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._capacity = max(1.0, per_second * BURST_SECONDS)
        self._buckets: dict[UUID, tuple[float, float]] = {}
        """Saved requests, and the time of the last one. Only valid keys have one, so there are few."""

    def take(self, key: UUID, now: float) -> None:
        """Count a request; a stream counts once. Raises RateLimited."""
        saved, last = self._buckets.get(key, (self._capacity, now))
        saved = min(self._capacity, saved + (now - last) * self._per_second)
        if saved < 1:
            self._buckets[key] = saved, now
            seconds = math.ceil((1 - saved) / self._per_second)
            raise RateLimited(
                f"A key may send {self._per_second:g} requests per second.", retry_after=seconds
            )
        self._buckets[key] = saved - 1, now
