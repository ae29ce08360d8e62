"""Limits on the requests of a key, or to a share link: token buckets in the memory of the process.

The framework's middleware runs before the key is known, and knows fixed windows only.
"""

import math
from collections import OrderedDict
from collections.abc import Hashable

from ash_server.errors import RateLimited

_MAX_BUCKETS = 10_000

BURST_SECONDS = 10
"""An idle key can save up requests for this many seconds."""


class RateLimit:
    def __init__(self, per_second: float, sender: str = "A key") -> None:
        self._per_second = per_second
        self._sender = sender
        self._capacity = max(1.0, per_second * BURST_SECONDS)
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """Saved requests, and the time of the last one; the longest unused bucket is first."""

    def take(self, key: Hashable, now: float) -> None:
        """Count a request; a stream counts once. Raises RateLimited."""
        saved, last = self._buckets.pop(key, (self._capacity, now))
        if len(self._buckets) >= _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        saved = min(self._capacity, saved + (now - last) * self._per_second)
        if saved < 1:
            self._buckets[key] = saved, now
            seconds = math.ceil((1 - saved) / self._per_second)
            raise RateLimited(
                f"{self._sender} may send {self._per_second:g} requests per second.", retry_after=seconds
            )
        self._buckets[key] = saved - 1, now
