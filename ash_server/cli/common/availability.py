"""Retries of a command while its server does not answer, with a report of each change."""

import time
from collections.abc import Callable
from http import HTTPStatus

from ash_client import ApiError, Retry
from ash_server.cli.common.client import RETRYABLE_STATUSES


class Availability:
    """Reports once that the server does not answer, and once that it answers again."""

    def __init__(self, print_line: Callable[[str], None], advice: str) -> None:
        """`advice` tells users how the command continues in the meantime."""
        self.url = ""
        self.last_answer = time.monotonic()
        self._print_line = print_line
        self._advice = advice
        self._is_unavailable = False

    def retry(self, seconds: float | None, statuses: frozenset[int] = RETRYABLE_STATUSES) -> Retry:
        """Return the retries of a client; None: without a limit."""
        return Retry(seconds, statuses, self._note_failure, self._note_answer)

    def _note_failure(self, error: ApiError) -> None:
        if error.status == 429:  # an answer: the key has sent too many requests
            self._note_answer()
            return
        if not self._is_unavailable:
            self._is_unavailable = True
            is_full = error.status == HTTPStatus.INSUFFICIENT_STORAGE
            problem = (
                f"the server at {self.url} has no room" if is_full else f"no server answers at {self.url}"
            )
            self._print_line(f"{problem} ({error.detail}); {self._advice}")

    def _note_answer(self) -> None:
        self.last_answer = time.monotonic()
        if self._is_unavailable:
            self._is_unavailable = False
            self._print_line(f"the server at {self.url} answers")
