"""Interleaved timing of cases, so that background load affects each case."""

import gc
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from statistics import median
from typing import Any

Run = Callable[[], float | None]
"""One run; may return the seconds that it measured itself."""
AsyncRun = Callable[[], Awaitable[float | None]]


class Times:
    """The seconds of every round, by case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._seconds: dict[str, list[float]] = {name: [] for name in names}
        self.names = frozenset(self._seconds)

    def add(self, name: str, seconds: float) -> None:
        self._seconds[name].append(seconds)

    def best(self, name: str) -> float:
        return min(self._seconds[name])

    def typical(self, name: str) -> float:
        return median(self._seconds[name])

    def speed(self, name: str, against: str) -> float:
        """Speed relative to another case, by the best rounds: for CPU-bound work."""
        return self.best(against) / self.best(name)

    def typical_speed(self, name: str, against: str) -> float:
        """Median of the ratios per round: for work that waits for a disk."""
        return median(
            other / own for own, other in zip(self._seconds[name], self._seconds[against], strict=True)
        )


def take_turns(cases: Mapping[str, Run], rounds: int) -> Times:
    """Run every case once per round, in rotating order, after one warm-up round.

    The garbage collector runs before each case and stays enabled. It skips the objects of imported systems.
    """
    times = Times(cases)
    gc.freeze()
    for number in range(-1, rounds):
        for name in _rotated(list(cases), number):
            gc.collect()
            began = time.perf_counter()
            own = cases[name]()
            _add(times, number, name, time.perf_counter() - began if own is None else own)
    return times


async def take_turns_async(cases: Mapping[str, AsyncRun], rounds: int) -> Times:
    """`take_turns` for coroutines."""
    times = Times(cases)
    gc.freeze()
    for number in range(-1, rounds):
        for name in _rotated(list(cases), number):
            gc.collect()
            began = time.perf_counter()
            own = await cases[name]()
            _add(times, number, name, time.perf_counter() - began if own is None else own)
    return times


def over(function: Callable[[Any], object], items: Iterable[Any], passes: int = 1) -> Run:
    """Call the function with every item and discard the results, without a Python loop."""

    def run() -> None:
        for _ in range(passes):
            deque(map(function, items), maxlen=0)

    return run


def in_cpu_time(run: Run) -> Run:
    """Measure a run without the time of other processes: for absolute times."""

    def timed() -> float:
        began = time.process_time()
        run()
        return time.process_time() - began

    return timed


def passes_for(seconds: float, function: Callable[[Any], object], items: Iterable[Any]) -> int:
    """Return the number of passes for a run of about this duration."""
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
