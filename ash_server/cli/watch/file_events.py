"""Events of the file system: when to compare files."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from os import fspath
from pathlib import Path
from typing import Any

from ash_server.cli.common.output.terminal import warn

POLL_SECONDS = 60.0
"""Time after which files are compared without an event: file systems of a network send none."""
SETTLE_SECONDS = 3.0
RETRY_SECONDS = 600.0
"""Time without events after which the system is asked for them again."""
_MAX_SHARE = 0.005
"""Part of the time of a core that comparisons without events may need."""
_COLLECT_MS = 500
"""Longest time between the first of several changes and the comparison."""
_STEP_MS = 250
"""Time between two looks at the queue of events."""


async def changes(folders: Callable[[], Iterable[Path]]) -> AsyncGenerator[None, None]:
    """Yield at once, after changes below the folders, and after `POLL_SECONDS` without one.

    Folders that appear later are watched after seconds. If the system cannot watch more folders, yield every three
    seconds, or less often if the comparison takes long.
    """
    loop = asyncio.get_running_loop()
    has_warned = False
    while True:
        try:
            async with aclosing(_events(folders)) as events:
                async for _ in events:
                    yield
        except FileNotFoundError:  # a folder was deleted meanwhile
            yield
            await asyncio.sleep(SETTLE_SECONDS)
        except (OSError, RuntimeError) as error:
            if not has_warned:
                warn(f"the system watches no more folders ({error}): comparing files every few seconds")
            has_warned, end = True, loop.time() + RETRY_SECONDS
            while loop.time() < end:
                start = time.thread_time()
                yield
                spent = time.thread_time() - start
                await asyncio.sleep(max(SETTLE_SECONDS, spent / _MAX_SHARE))


async def _events(folders: Callable[[], Iterable[Path]]) -> AsyncGenerator[None, None]:
    """Yield until other folders have to be watched."""
    from watchfiles import Change, awatch

    watched = _existing(folders)
    roots = {(Change.deleted, fspath(folder)) for folder in watched}
    watcher = awatch(
        *watched,
        watch_filter=None,  # the default one leaves out folders with certain names
        debounce=_COLLECT_MS,
        step=_STEP_MS,
        rust_timeout=int(POLL_SECONDS * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    pending: asyncio.Task[set[Any]] | None = None
    is_due = settles = True
    try:
        while True:
            # Started before the files are compared, so that no change is missed meanwhile.
            pending = pending or asyncio.create_task(_next(watcher))
            await asyncio.sleep(0)
            if is_due:
                yield
            done, _ = await asyncio.wait({pending}, timeout=SETTLE_SECONDS)
            found = pending.result() if done else set()
            if found & roots or _existing(folders) != watched:
                return  # a folder that was replaced is no longer watched
            # A file may be in a new folder before the system watches it: the files are compared once more.
            is_due, settles = bool(done) or settles, bool(found)
            pending = None if done else pending
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        await watcher.aclose()


async def _next(watcher: AsyncGenerator[set[Any], None]) -> set[Any]:
    return await anext(watcher)  # a task needs a coroutine


def _existing(folders: Callable[[], Iterable[Path]]) -> set[Path]:
    return {folder for folder in folders() if folder.exists()}
