"""Waiting for events and cancelling tasks."""

import asyncio

import pytest

from ash_server import tasks
from ash_server.tasks import cancel_tasks, wait_for_event
from tests.waiting import TIMEOUT


async def test_wait_for_event() -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_for_event(event, 60))
    await asyncio.sleep(0)
    event.set()

    assert (await waiting, await wait_for_event(asyncio.Event(), 0)) == (True, False)


@pytest.mark.parametrize("turns", range(5))
async def test_cancellation_together_with_the_event_is_not_lost(turns: int) -> None:
    event, going = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await wait_for_event(event, 60)
        await going.wait()

    working = asyncio.create_task(work())
    await asyncio.sleep(0)
    event.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    working.cancel()
    await asyncio.wait([working], timeout=TIMEOUT)
    going.set()
    await asyncio.wait([working])

    assert working.cancelled()


async def test_cancels_again_if_a_cancellation_is_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_CANCEL_RETRY_SECONDS", 0.01)
    lost: list[asyncio.CancelledError] = []

    async def works() -> None:
        while len(lost) < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError as error:
                lost.append(error)
        await asyncio.sleep(60)

    working, other = asyncio.create_task(works()), asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    await cancel_tasks(working, other)

    assert (working.cancelled(), other.cancelled(), len(lost)) == (True, True, 2)
