"""Parse many or large texts without blocking the event loop."""

import asyncio
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Protocol, TypeVar

_SLICE_SECONDS = 0.02
"""Time after which a loop over many texts yields to the event loop."""
_PAUSE_SECONDS = 0.002

_MAX_INLINE = 64 * 1024
"""Characters; a longer text is read in a thread."""


class HasContent(Protocol):
    @property
    def content(self) -> str | bytes: ...


T = TypeVar("T")
Text = TypeVar("Text", bound=HasContent)


async def offload(read: Callable[[Text], T], text: Text) -> T:
    """Return `read(text)`; a large text is read in a thread."""
    return await asyncio.to_thread(read, text) if _is_large(text) else read(text)


async def offload_each(read: Callable[[Text], T], texts: Iterable[Text]) -> list[T]:
    """Return `read` of each text, yielding to the event loop between them."""
    results, started = list[T](), perf_counter()
    for text in texts:
        results.append(await asyncio.to_thread(read, text) if _is_large(text) else read(text))
        if perf_counter() - started > _SLICE_SECONDS:
            await asyncio.sleep(_PAUSE_SECONDS)
            started = perf_counter()
    return results


def _is_large(text: HasContent) -> bool:
    return len(text.content) > _MAX_INLINE
