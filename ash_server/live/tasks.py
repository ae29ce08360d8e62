"""Tasks that wait, and tasks that are to end."""

import asyncio
from typing import Any

_PATIENCE = 5.0
"""Seconds a task has to end in before it is told again."""


async def wait(event: asyncio.Event, seconds: float) -> bool:
    """Until it is set, which this gives, or for so long.

    `asyncio.wait_for` would lose a cancellation that comes together with the event (before Python 3.12), and whoever
    cancelled would wait for ever.
    """
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancels them until they have ended: some library that they wait in may lose a cancellation."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_PATIENCE)
