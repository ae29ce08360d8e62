"""`ash demo`: a server with sample sessions, one of which is written while somebody watches."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import click
import msgspec
from litestar import Litestar
from litestar.types import ASGIApp, Receive, Scope, Send
from psycopg import AsyncConnection

from ash_server.api.http.server import address, listen, serve
from ash_server.app import create_app
from ash_server.cli.output.browser import show
from ash_server.cli.replay import RECORDING, timed
from ash_server.cli.serve import tell_outdated
from ash_server.db.connection import connect
from ash_server.db.embedded.open import open_database
from ash_server.db.notify import notify
from ash_server.db.rebuild_events import outdated_sessions, rebuild_events
from ash_server.db.sessions import create_session, delete_session, session_id_for
from ash_server.errors import DatabaseUnavailable, SessionNotFound
from ash_server.ingest import prepare_message
from ash_server.live.tasks import cancel_tasks
from ash_server.settings import Settings
from ash_server.transfer.importing.file_import import import_file

TOUR = "tide-clock.jsonl"
"""The sample whose messages show every type of block."""

LIVE = "demo/live"
"""What the session is called that is written while somebody watches."""

_LIVE_SOURCE = "claude"
_LIVE_SECONDS = 50
_AGAIN = 0.5
"""Seconds before a database that did not answer is asked again."""


class Samples(NamedTuple):
    sessions: int
    messages: int
    tour: UUID


def run_demo(settings: Settings) -> None:
    with listen(settings.host, settings.port) as listener, open_database(settings, migrate=True) as url:
        samples, live = asyncio.run(_prepare(url))
        app = create_app(settings, database_url=url, background=live.running)
        app.asgi_handler = live.seen_by(app.asgi_handler)

        def welcome() -> None:
            where = address(listener)
            click.echo(_welcome(settings, where, samples))
            if sys.stdout.isatty():
                show(f"{where}/")

        serve(app, listener, welcome)


class Live:
    """A recording that becomes a session, as slowly as a person reads, from when somebody first looks."""

    def __init__(self, session_id: UUID) -> None:
        self._session_id = session_id
        self._seen = asyncio.Event()

    def seen_by(self, next_app: ASGIApp) -> ASGIApp:
        """The application, whose pages and logs are where somebody looks."""
        log = f"/api/sessions/{self._session_id}/events"
        places = frozenset({"/", f"/sessions/{self._session_id}", log, f"{log}/stream", f"{log}/ws"})

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("path") in places:
                self._seen.set()
            await next_app(scope, receive, send)

        return watched

    @asynccontextmanager
    async def running(self, app: Litestar) -> AsyncGenerator[None, None]:
        task = asyncio.create_task(self._write(app))
        try:
            yield
        finally:
            await cancel_tasks(task)

    async def _write(self, app: Litestar) -> None:
        await self._seen.wait()
        time = asyncio.get_running_loop().time
        begun, lines = time(), list(_recorded())
        with suppress(SessionNotFound):  # somebody has deleted it
            for number, (due, line) in enumerate(lines, 1):
                await asyncio.sleep(max(0.0, begun + due - time()))
                if app.state.store.hub.is_stopped():
                    return
                await self._append(app, _as_of_now(line), ends=number == len(lines))

    async def _append(self, app: Litestar, line: str, *, ends: bool) -> None:
        """As the lines of any stream are: `POST …/chunks` does the same."""
        new = [prepare_message(self._session_id, line)]
        while True:
            try:
                await app.state.store.messages.append_prepared(self._session_id, new, end=ends)
            except DatabaseUnavailable:
                await asyncio.sleep(_AGAIN)
            else:
                return


def _recorded() -> Iterator[tuple[float, bytes]]:
    """Each line with the second in which it is due."""
    with (files("ash_server") / "recordings" / RECORDING).open("rb") as file:
        lines = list(timed(file))
    slower = _LIVE_SECONDS / lines[-1][0]
    return ((due * slower, line) for due, line in lines)


def _as_of_now(line: bytes) -> str:
    record: dict[str, Any] = msgspec.json.decode(line)
    if "timestamp" in record:
        record["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds")
    return msgspec.json.encode(record).decode()


async def _prepare(url: str) -> tuple[Samples, Live]:
    with as_file(files("ash_server") / "samples") as folder:
        async with await connect(url) as conn:
            imported = {
                path.name: await import_file(conn, path, f"samples/{path.name}") for path in _samples(folder)
            }
            await _renew(conn, [each.session_id for each in imported.values()])
            live = await _make_anew(conn)
    await tell_outdated(url)
    messages = sum(each.result.counts.total() for each in imported.values())
    return Samples(len(imported), messages, imported[TOUR].session_id), Live(live)


async def _renew(conn: AsyncConnection, sessions: Collection[UUID]) -> None:
    """Those that an older Ash had imported."""
    for session_id in await outdated_sessions(conn):
        if session_id in sessions:
            await rebuild_events(conn, session_id)
            await notify(conn, [session_id])


async def _make_anew(conn: AsyncConnection) -> UUID:
    session_id = session_id_for(_LIVE_SOURCE, LIVE)
    with suppress(SessionNotFound):
        await delete_session(conn, session_id)
    await create_session(conn, source=_LIVE_SOURCE, external_id=LIVE, title="Written while you watch")
    return session_id


def _samples(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _welcome(settings: Settings, where: str, samples: Samples) -> str:
    tour, ash = str(samples.tour)[:8], _own_name()
    store = (
        f"embedded PostgreSQL below {settings.home}"
        if settings.database_url is None
        else "the PostgreSQL of ASH_DATABASE_URL"
    )
    return f"""\
Ash is running, with {samples.sessions} sample sessions of {samples.messages} messages.

  viewer    {where}/
  API       {where}/docs
  store     {store}

Two sessions to begin with:

  {where}/sessions/{LIVE}    is written while you watch
  {where}/sessions/{tour}     shows all seven types of blocks

In another terminal:

  {ash} messages {tour}     the same session, for people
  {ash} sessions              what is there
  {ash} import --discover     your own sessions, of five CLIs

Ctrl-C stops Ash; what is stored stays."""


def _own_name() -> str:
    """As this command is called from here, which is `ash` where it is on the PATH."""
    return "ash" if shutil.which("ash") else os.path.relpath(sys.argv[0])
