"""Reading many texts without keeping every other request waiting meanwhile."""

import asyncio
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TypeVar

from ash_server.db.pagination import HasContent

_TURN = 0.02
_PAUSE = 0.002
"""Seconds: what takes less than a turn is done at once, what takes longer pauses, and others are answered."""

_LARGE = 64 * 1024
"""Characters: a longer text is better read in a thread, since one text alone cannot pause."""


T = TypeVar("T")
Text = TypeVar("Text", bound=HasContent)


async def aside(read: Callable[[Text], T], text: Text) -> T:
    """What reading it gives; others are answered meanwhile where the text is large."""
    return read(text) if len(text.content) < _LARGE else await asyncio.to_thread(read, text)


async def read_each(read: Callable[[Text], T], texts: Iterable[Text]) -> list[T]:
    """What reading each of them gives; others are answered meanwhile."""
    done, began = list[T](), perf_counter()
    for text in texts:
        done.append(await aside(read, text))
        if perf_counter() - began > _TURN:
            await asyncio.sleep(_PAUSE)
            began = perf_counter()
    return done
