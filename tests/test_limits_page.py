"""docs/limits.md: its values match the code, and it lists every problem of a limit."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ash_server import errors
from ash_server.settings import Settings

PAGE = (Path(__file__).parents[1] / "docs" / "limits.md").read_text(encoding="utf-8")
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "s": 1, "levels": 1}
PROBLEMS = {error.code: error.status for error in vars(errors).values() if hasattr(error, "code")}
STATUSES_OF_LIMITS = {408, 413, 429, 431}


class Row(NamedTuple):
    what: str
    limit: str
    otherwise: str
    source: str


ROWS = [
    Row(*cells) for cells in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| `(\S+)` \|$", PAGE, re.MULTILINE)
]


def defined(source: str) -> Any:
    """Return the value of a setting or of a constant."""
    if source.startswith("ASH_"):
        return getattr(Settings(), source.removeprefix("ASH_").lower())
    module, _, name = source.rpartition(".")
    return getattr(import_module(module), name)


def documented(limit: str) -> float | None:
    if limit == "none":
        return None
    number, _, unit = limit.partition(" ")
    return int(number.replace(",", "")) * UNITS[unit]


def test_each_row_is_checked() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]

    assert len(ROWS) == sum(not line.startswith("| what |") for line in lines)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.what} {row.source}")
def test_values(row: Row) -> None:
    assert documented(row.limit) == defined(row.source)


def problems() -> Iterator[tuple[str, int]]:
    for status, code in re.findall(r"\b(\d{3}) `(\w+)`", PAGE):
        yield code, int(status)


def test_problems_exist_with_their_status() -> None:
    assert dict(problems()).items() <= PROBLEMS.items()


def test_every_problem_of_a_limit_is_listed() -> None:
    of_limits = {code for code, status in PROBLEMS.items() if status in STATUSES_OF_LIMITS}

    assert of_limits | {"too_deep", "session_too_large"} <= dict(problems()).keys()


def test_settings_of_limits_are_listed() -> None:
    of_limits = {"ASH_MAX_BODY_BYTES", "ASH_MAX_MESSAGE_BYTES", "ASH_POOL_SIZE", "ASH_RATE_LIMIT"}

    assert of_limits | {"ASH_STATEMENT_TIMEOUT"} == {
        row.source for row in ROWS if row.source.startswith("ASH_")
    }
