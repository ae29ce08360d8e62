"""Background tasks, waiting with a timeout, and cancellation."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Self, TypeVar

_CANCEL_RETRY_SECONDS = 0.25
_TURN_SECONDS = 0.25

T = TypeVar("T")


async def wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    """Return True once the event is set, False after this many seconds.

    Unlike `asyncio.wait_for` before Python 3.12, this never swallows a cancellation that arrives together with the
    event.
    """
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def ends_within(task: asyncio.Task[Any], seconds: float) -> bool:
    """Wait for the task for this many seconds, and return True if it has ended.

    Only time while the event loop runs counts, because a stopped or busy process cannot see results either.
    """
    for _ in range(round(seconds / _TURN_SECONDS)):
        done, _ = await asyncio.wait([task], timeout=_TURN_SECONDS)
        if done:
            return True
    return False


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait until they are done; cancel again, since libraries may swallow a cancellation."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_CANCEL_RETRY_SECONDS)


class SharedCalls:
    """Runs a coroutine once for all concurrent callers with the same key."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if key not in self._tasks:
            task = asyncio.create_task(call())
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        result: T = await asyncio.shield(self._tasks[key])
        return result


class BackgroundTask:
    """Runs `_run` in a task while entered (`async with`)."""

    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task:
            await cancel_tasks(self._task)

    async def _run(self) -> None:
        raise NotImplementedError
