"""Retries of failed requests."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ash_client.errors import NO_ANSWER, WRITE_UNCONFIRMED, ApiError

_MIN_SECONDS, _MAX_SECONDS = 0.1, 2.0
_MAX_RETRY_AFTER = 60.0

_NOT_PROCESSED = frozenset({429, 503})
"""Statuses of requests that the server has not begun to process."""


def _ignore(_: ApiError) -> None:
    pass


def _ignore_answer() -> None:
    pass


class Retry(NamedTuple):
    """Repeat requests that fail for a while, with exponential backoff."""

    seconds: float | None = 30.0
    """How long to repeat a request; None: until it succeeds; 0: never."""
    statuses: frozenset[int] = frozenset({429, 502, 503, 504})
    """Statuses of errors that may be temporary. A server that does not answer is always temporary."""
    on_failure: Callable[[ApiError], None] = _ignore
    """Called with each temporary error that is retried."""
    on_answer: Callable[[], None] = _ignore_answer
    """Called with each answer that is not a temporary error."""

    def is_temporary(self, error: ApiError) -> bool:
        return error.code == NO_ANSWER or error.status in self.statuses


NEVER = Retry(seconds=0)


class Attempts:
    """Attempts to send a request, or to connect a stream."""

    def __init__(self, retry: Retry, *, is_repeatable: bool = True) -> None:
        """A request that is not repeatable is repeated only if the server cannot have processed it."""
        self._retry = retry
        self._is_repeatable = is_repeatable
        self._failing_since: float | None = None
        self._delays = retry_delays()

    def succeed(self) -> None:
        """Forget earlier failures after an answer."""
        self._retry.on_answer()
        self._failing_since = None
        self._delays = retry_delays()

    def delay_after(self, error: ApiError) -> float:
        """Return the seconds to wait before the next attempt. Raises the error if there is none."""
        if not self._retry.is_temporary(error):
            self._retry.on_answer()
            raise error
        is_not_processed = error.status in _NOT_PROCESSED and error.code != WRITE_UNCONFIRMED
        is_safe = self._is_repeatable or not error.was_sent or is_not_processed
        delay = max(next(self._delays), min(error.retry_after or 0, _MAX_RETRY_AFTER))
        if not is_safe or not self._has_time(delay):
            raise error
        self._retry.on_failure(error)
        return delay

    def _has_time(self, delay: float) -> bool:
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        waited = time.monotonic() - self._failing_since
        return self._retry.seconds is None or waited + delay <= self._retry.seconds


def retry_delays(first: float = _MIN_SECONDS, longest: float = _MAX_SECONDS) -> Iterator[float]:
    """Yield the seconds to wait before each retry."""
    delay = first
    while True:
        yield delay
        delay = min(2 * delay, longest)
