"""The error of every request that fails."""

import json
from collections.abc import Mapping
from typing import Any

NO_ANSWER, NOT_ASH, OTHER_VERSION = "no_answer", "not_ash", "other_version"
WRITE_UNCONFIRMED = "write_unconfirmed"
"""The server lost its database during a write, which may have been stored."""

_NOT_ASH = "The server at this address is not Ash."


class ApiError(Exception):
    """A request that the server refused, or did not answer."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        message: str | None = None,
        status: int | None = None,
        problem: Mapping[str, Any] | None = None,
        was_sent: bool = True,
    ) -> None:
        super().__init__(message or detail)
        self.code = code
        """The code of the problem, such as `session_not_found`.

        `no_answer`: the server cannot be reached, or has closed the connection; `not_ash`: another program has
        answered; `other_version`: see `check_version`.
        """
        self.detail = detail
        self.status = status
        """The HTTP status; None without an answer."""
        self.problem = problem or {}
        """The whole problem document."""
        self.was_sent = was_sent
        """False if the request cannot have reached the server."""
        self.retry_after: float | None = None
        """Seconds to wait, if the server names them."""

    @property
    def index(self) -> int | None:
        """The position in the batch of the message or event that was refused."""
        index = self.problem.get("index")
        return index if isinstance(index, int) else None


def not_ash_error() -> ApiError:
    return ApiError(NOT_ASH, _NOT_ASH)


def answer_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error of an answer with an error status. One without a problem document may come from a proxy."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    is_problem = isinstance(problem, dict) and "code" in problem
    error = _read_problem(status, problem) if is_problem else ApiError(NOT_ASH, _NOT_ASH, status=status)
    error.retry_after = _seconds(headers)
    return error


def _read_problem(status: int, problem: Mapping[str, Any]) -> ApiError:
    detail = str(problem.get("detail") or problem.get("title") or f"status {status}")
    return ApiError(str(problem["code"]), detail, status=status, problem=problem)


def _seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`; its other form, a date, is ignored."""
    value = headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None
