"""`ash serve`."""

import asyncio
import os
from dataclasses import replace
from typing import Any

import click

from ash_server.api.http.server import address, listen, serve
from ash_server.app import create_app
from ash_server.cli.output.terminal import complain, counted
from ash_server.db.connection import connect
from ash_server.db.embedded.open import open_database
from ash_server.db.rebuild_events import outdated_sessions
from ash_server.settings import Settings, check_exposure


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
        asyncio.run(tell_outdated(url))
        app = create_app(settings, database_url=url)
        serve(
            app,
            listener,
            lambda: click.echo(f"Ash serves at {where} (its API: {where}/docs). Ctrl-C stops it."),
        )


async def tell_outdated(url: str) -> None:
    async with await connect(url) as conn:
        if outdated := len(await outdated_sessions(conn)):
            have = "has" if outdated == 1 else "have"
            complain(
                f"{counted(outdated, 'session')} {have} events of an older Ash, or none: "
                "`ash events rebuild` derives them"
            )
