"""`ash serve` and `ash demo`."""

import asyncio
import os
import shutil
import sys
from collections.abc import Collection
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import click
from psycopg import AsyncConnection

from ash_server.app import create_app
from ash_server.commands.terminal import complain, counted
from ash_server.database import open_database
from ash_server.db.engine import connect
from ash_server.db.rebuild import outdated_sessions, rebuild_events
from ash_server.db.wake import notify
from ash_server.serve import address, listen, serve
from ash_server.settings import Settings, check_exposure
from ash_server.transfer.jsonl import import_file

TOUR = "tide-clock.jsonl"
"""The sample whose messages show every type of block."""


class Samples(NamedTuple):
    sessions: int
    messages: int
    tour: UUID


def settings_with(host: str | None, port: int | None) -> Settings:
    """Those of the environment, but for what the command line says. Raises SettingsError."""
    given: dict[str, Any] = {
        name: value for name, value in (("host", host), ("port", port)) if value is not None
    }
    settings = replace(Settings.from_environment(os.environ), **given)
    check_exposure(settings)
    return settings


def run_server(settings: Settings) -> None:
    with listen(settings.host, settings.port) as listener, open_database(settings) as url:
        where = address(listener)
        asyncio.run(_tell_outdated(url))
        app = create_app(settings, database_url=url)
        serve(
            app,
            listener,
            lambda: click.echo(f"Ash serves at {where} (its API: {where}/docs). Ctrl-C stops it."),
        )


def run_demo(settings: Settings) -> None:
    with listen(settings.host, settings.port) as listener, open_database(settings, migrate=True) as url:
        samples = asyncio.run(_import_samples(url))
        asyncio.run(_tell_outdated(url))
        app = create_app(settings, database_url=url)
        serve(app, listener, lambda: click.echo(_welcome(settings, address(listener), samples)))


async def _tell_outdated(url: str) -> None:
    async with await connect(url) as conn:
        if outdated := len(await outdated_sessions(conn)):
            have = "has" if outdated == 1 else "have"
            complain(
                f"{counted(outdated, 'session')} {have} events of an older Ash, or none: "
                "`ash events rebuild` derives them"
            )


async def _import_samples(url: str) -> Samples:
    with as_file(files("ash_server") / "samples") as folder:
        async with await connect(url) as conn:
            imported = {
                path.name: await import_file(conn, path, f"samples/{path.name}") for path in _samples(folder)
            }
            await _renew(conn, [each.session_id for each in imported.values()])
    messages = sum(each.tally.counts.total() for each in imported.values())
    return Samples(len(imported), messages, imported[TOUR].session_id)


async def _renew(conn: AsyncConnection, sessions: Collection[UUID]) -> None:
    """Those that an older Ash had imported."""
    for session_id in await outdated_sessions(conn):
        if session_id in sessions:
            await rebuild_events(conn, session_id)
            await notify(conn, [session_id])


def _samples(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _welcome(settings: Settings, where: str, samples: Samples) -> str:
    tour, ash = str(samples.tour), _own_name()
    store = (
        f"embedded PostgreSQL below {settings.home}"
        if settings.database_url is None
        else "the PostgreSQL of ASH_DATABASE_URL"
    )
    return f"""\
Ash is running, with {samples.sessions} sample sessions of {samples.messages} messages.

  server    {where}
  API       {where}/docs
  store     {store}

One of them shows all seven types of blocks:

  curl '{where}/api/sessions/{tour}/messages?parsed=true'

In another terminal:

  {ash} messages {tour[:8]}     the same session, for people
  {ash} sessions              what is there
  {ash} import --discover     your own sessions, of five CLIs

Ctrl-C stops Ash; what is stored stays."""


def _own_name() -> str:
    """As this command is called from here, which is `ash` where it is on the PATH."""
    return "ash" if shutil.which("ash") else os.path.relpath(sys.argv[0])
