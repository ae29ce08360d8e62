"""Marks for parametrized tests."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def slow_unless(is_fast: Callable[[Any], bool], cases: Iterable[Any]) -> list[ParameterSet]:
    """Return the cases as parameters, with a slow mark on those that are not fast."""
    return [pytest.param(case, marks=() if is_fast(case) else pytest.mark.slow) for case in cases]


def slow_after(number: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """Return the cases as parameters, with a slow mark on all but the first ones."""
    return [
        pytest.param(case, marks=() if index < number else pytest.mark.slow)
        for index, case in enumerate(cases)
    ]
