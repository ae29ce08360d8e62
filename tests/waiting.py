"""Wait for a condition in tests."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

from psycopg import AsyncConnection

TIMEOUT = 120.0
"""Seconds, far more than any condition takes on an idle machine."""
_INTERVAL = 0.01


async def until(condition: Callable[[], object | Awaitable[object]]) -> None:
    """Wait until the condition, a function or a coroutine function, returns a true value."""
    async with asyncio.timeout(TIMEOUT):
        while not await _evaluate(condition):  # noqa: ASYNC110  # the condition has no event
            await asyncio.sleep(_INTERVAL)


async def _evaluate(condition: Callable[[], object | Awaitable[object]]) -> object:
    result = condition()
    return await result if inspect.isawaitable(result) else result


def wait_until(condition: Callable[[], object], interval: float = _INTERVAL) -> None:
    """Wait until the condition returns a true value. A condition that takes long is evaluated less often."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(interval)


async def until_blocked(task: asyncio.Task[object], connection: AsyncConnection) -> None:
    """Wait until the task waits for a lock, or is done because it needed none."""

    async def is_blocked() -> bool:
        waiting = await connection.execute("SELECT FROM pg_locks WHERE NOT granted")
        return task.done() or waiting.rowcount > 0

    await until(is_blocked)
