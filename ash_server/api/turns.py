"""Reading many texts without keeping every other request waiting meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from time import perf_counter
from typing import TypeVar

_TURN = 0.02
_PAUSE = 0.002
"""Seconds: what takes less than a turn is done at once, what takes longer pauses, and others are answered."""

LARGE = 64 * 1024
"""Characters: a longer text is better read in a thread, since one text alone cannot pause."""

T = TypeVar("T")


async def in_turns(texts: Iterable[T]) -> AsyncGenerator[T, None]:
    began = perf_counter()
    for text in texts:
        yield text
        if perf_counter() - began > _TURN:
            await asyncio.sleep(_PAUSE)
            began = perf_counter()
