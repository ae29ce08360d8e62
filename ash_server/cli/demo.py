"""`ash demo`: run a server with sample sessions, and write one while you watch."""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import rich_click as click
from litestar import Litestar
from litestar.types import ASGIApp, Receive, Scope, Send

from ash_server.api.http.server.serve import address, listen, serve
from ash_server.app import create_app
from ash_server.cli.common.options import host_option, port_option
from ash_server.cli.common.output.browser import open_browser
from ash_server.cli.common.store import run_with_store
from ash_server.cli.replay import RECORDING, with_due_times
from ash_server.cli.serve import check_keys, settings_with, warn_outdated
from ash_server.errors import DatabaseUnavailable, SessionNotFound
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.embedded.open import open_database
from ash_server.store.prepare import prepare_message
from ash_server.store.sessions import session_id_for
from ash_server.tasks import cancel_tasks
from ash_server.transfer.importing.file_import import import_file

TOUR = "tide-clock.jsonl"
"""The sample with blocks of every type."""

LIVE = "demo/live"
"""External id of the session that is written while you watch."""

_LIVE_SOURCE = "claude"
_LIVE_SECONDS = 50
_RETRY_SECONDS = 0.5


class Samples(NamedTuple):
    sessions: int
    messages: int
    tour: UUID


@click.command("demo")
@host_option
@port_option
def command(host: str | None, port: int | None) -> None:
    """Start Ash with sample sessions, open the viewer, and print the addresses.

    Creates the store if there is none, and serves until Ctrl-C. When run again, it only restarts the session that is
    written while you watch.
    """
    run_demo(settings_with(host, port))


def run_demo(settings: Settings) -> None:
    with listen(settings.host, settings.port) as listener, open_database(settings, migrate=True) as url:
        check_keys(settings, url)
        samples, live = asyncio.run(run_with_store(url, _prepare))
        app = create_app(settings, database_url=url, background=live.running)
        app.asgi_handler = live.watched(app.asgi_handler)

        def on_ready() -> None:
            base_url = address(listener)
            click.echo(_welcome(settings, base_url, samples))
            if sys.stdout.isatty():
                open_browser(f"{base_url}/")

        serve(app, listener, on_ready)


class LiveSession:
    """Plays a recording into a session at reading speed, from the first request for its page or log."""

    def __init__(self, session_id: UUID) -> None:
        self._session_id = session_id
        self._requested = asyncio.Event()

    def watched(self, next_app: ASGIApp) -> ASGIApp:
        """Return an application that detects the first request for the session."""
        log = f"/api/sessions/{self._session_id}/events"
        paths = frozenset({"/", f"/sessions/{self._session_id}", log, f"{log}/stream", f"{log}/ws"})

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("path") in paths:
                self._requested.set()
            await next_app(scope, receive, send)

        return app

    @asynccontextmanager
    async def running(self, app: Litestar) -> AsyncGenerator[None, None]:
        task = asyncio.create_task(self._play(app))
        try:
            yield
        finally:
            await cancel_tasks(task)

    async def _play(self, app: Litestar) -> None:
        await self._requested.wait()
        time = asyncio.get_running_loop().time
        start, lines = time(), list(_recorded_lines())
        with suppress(SessionNotFound):  # deleted by a user
            for number, (due, line) in enumerate(lines, 1):
                await asyncio.sleep(max(0.0, start + due - time()))
                if app.state.store.hub.is_stopped():
                    return
                await self._append(app.state.store, _with_current_time(line), end=number == len(lines))

    async def _append(self, store: Store, line: str, *, end: bool) -> None:
        """Append a line and retry while the database is unavailable."""
        prepared = [prepare_message(self._session_id, line)]
        while True:
            try:
                await store.messages.append_prepared(self._session_id, prepared, end=end)
            except DatabaseUnavailable:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return


def _recorded_lines() -> Iterator[tuple[float, bytes]]:
    """Yield each line of the recording with its due time in seconds."""
    with (files("ash_server") / "recordings" / RECORDING).open("rb") as file:
        lines = list(with_due_times(file))
    slowdown = _LIVE_SECONDS / lines[-1][0]
    return ((due * slowdown, line) for due, line in lines)


def _with_current_time(line: bytes) -> str:
    record: dict[str, Any] = msgspec.json.decode(line)
    if "timestamp" in record:
        record["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds")
    return msgspec.json.encode(record).decode()


async def _prepare(store: Store) -> tuple[Samples, LiveSession]:
    with as_file(files("ash_server") / "samples") as folder:
        imported = {
            path.name: await import_file(store, path, f"samples/{path.name}") for path in _samples(folder)
        }
    await _rebuild_outdated(store, [each.session_id for each in imported.values()])
    live = await _recreate_live_session(store)
    await warn_outdated(store)
    messages = sum(each.result.counts.total() for each in imported.values())
    return Samples(len(imported), messages, imported[TOUR].session_id), LiveSession(live)


async def _rebuild_outdated(store: Store, sessions: Collection[UUID]) -> None:
    """Rebuild the sample sessions that another version of Ash imported."""
    for session_id in await store.events.list_outdated():
        if session_id in sessions:
            await store.events.rebuild(session_id)


async def _recreate_live_session(store: Store) -> UUID:
    session_id = session_id_for(_LIVE_SOURCE, LIVE)
    with suppress(SessionNotFound):
        await store.sessions.delete(session_id)
    await store.sessions.create(source=_LIVE_SOURCE, external_id=LIVE, title="Written while you watch")
    return session_id


def _samples(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _welcome(settings: Settings, base_url: str, samples: Samples) -> str:
    tour, ash = str(samples.tour)[:8], _command_name()
    store = (
        f"embedded PostgreSQL below {settings.home}"
        if settings.database_url is None
        else "the PostgreSQL of ASH_DATABASE_URL"
    )
    return f"""\
Ash is running, with {samples.sessions} sample sessions of {samples.messages} messages.

  viewer    {base_url}/
  API       {base_url}/docs
  store     {store}

Two sessions to begin with:

  {base_url}/sessions/{LIVE}    is written while you watch
  {base_url}/sessions/{tour}     shows all seven types of blocks

In another terminal:

  {ash} messages {tour}     the same session, in the terminal
  {ash} sessions              list all sessions
  {ash} import --discover     find the sessions of all your agents

Ctrl-C stops Ash; stored sessions are kept."""


def _command_name() -> str:
    """Return `ash` if it is on the PATH, else the path of the running command."""
    return "ash" if shutil.which("ash") else shlex.quote(os.path.relpath(sys.argv[0]))
