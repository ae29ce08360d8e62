"""A client of an application in the event loop of the test, without a socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from httpx2 import ASGITransport, AsyncClient
from litestar import Litestar

BASE = "http://127.0.0.1:4100"


@asynccontextmanager
async def app_client(
    app: Litestar, base_url: str = BASE, *, raise_app_exceptions: bool = True
) -> AsyncIterator[AsyncClient]:
    """Start the application and yield a client that follows redirects; then stop the application."""
    transport = ASGITransport(app, raise_app_exceptions)  # type: ignore[arg-type]  # Litestar types its messages
    async with (
        _started(app),
        AsyncClient(transport=transport, base_url=base_url, follow_redirects=True, timeout=None) as client,
    ):
        yield client


@asynccontextmanager
async def _started(app: Litestar) -> AsyncIterator[None]:
    """Run the lifespan in a task of its own: pytest sets a fixture up and tears it down in different tasks."""
    started, stopping = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.lifespan():
            started.set()
            await stopping.wait()

    life = asyncio.create_task(live())
    starting = asyncio.create_task(started.wait())
    await asyncio.wait((life, starting), return_when=asyncio.FIRST_COMPLETED)
    starting.cancel()
    try:
        if not life.done():
            yield
    finally:
        stopping.set()
        await life
