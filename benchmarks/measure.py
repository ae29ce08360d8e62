"""Times of things that are compared, taken in turns, so that whatever else the machine does hits all of them."""

import gc
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from statistics import median
from typing import Any

Run = Callable[[], float | None]
"""One run; where it answers, with the seconds that it measured itself."""
AsyncRun = Callable[[], Awaitable[float | None]]


class Times:
    """The seconds of every round of every case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._seconds: dict[str, list[float]] = {name: [] for name in names}
        self.names = frozenset(self._seconds)

    def add(self, name: str, seconds: float) -> None:
        self._seconds[name].append(seconds)

    def best(self, name: str) -> float:
        return min(self._seconds[name])

    def speed(self, name: str, against: str) -> float:
        """How many times as fast as another, each in its best round: for work that waits for nothing."""
        return self.best(against) / self.best(name)

    def typical_speed(self, name: str, against: str) -> float:
        """The median of the rounds' ratios: for work that waits for a disk, now less and now more."""
        return median(
            other / own for own, other in zip(self._seconds[name], self._seconds[against], strict=True)
        )


def take_turns(cases: Mapping[str, Run], rounds: int) -> Times:
    """Every round runs every case once, beginning with another one each time, after a first round that does not count.

    The cyclic garbage collector is emptied before each run and left on while it lasts.
    """
    times = Times(cases)
    for number in range(-1, rounds):
        for name in _rotated(list(cases), number):
            gc.collect()
            began = time.perf_counter()
            own = cases[name]()
            _add(times, number, name, time.perf_counter() - began if own is None else own)
    return times


async def take_turns_async(cases: Mapping[str, AsyncRun], rounds: int) -> Times:
    """The same, for coroutines."""
    times = Times(cases)
    for number in range(-1, rounds):
        for name in _rotated(list(cases), number):
            gc.collect()
            began = time.perf_counter()
            own = await cases[name]()
            _add(times, number, name, time.perf_counter() - began if own is None else own)
    return times


def over(function: Callable[[Any], object], items: Iterable[Any], passes: int = 1) -> Run:
    """Calls the function with every item and forgets what it gives, without a loop in Python."""

    def run() -> None:
        for _ in range(passes):
            deque(map(function, items), maxlen=0)

    return run


def passes_for(seconds: float, function: Callable[[Any], object], items: Iterable[Any]) -> int:
    """How often to go over the items for a run to last about so long."""
    run = over(function, items)
    run()
    began = time.perf_counter()
    run()
    return max(1, round(seconds / (time.perf_counter() - began)))


def _add(times: Times, number: int, name: str, seconds: float) -> None:
    if number >= 0:
        times.add(name, seconds)


def _rotated(names: list[str], number: int) -> list[str]:
    start = number % len(names)
    return names[start:] + names[:start]
