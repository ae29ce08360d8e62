"""`ash serve`: run the server."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import rich_click as click

from ash_server.api.http.server.serve import address, listen_for_workers, serve
from ash_server.api.http.server.workers import run_workers
from ash_server.api.http.tracing import configured_tracing
from ash_server.app import create_app
from ash_server.cli.common.options import host_option, port_option
from ash_server.cli.common.output.terminal import counted, warn
from ash_server.cli.common.store import run_with_store
from ash_server.logs import configure_logging
from ash_server.settings import Settings, check_exposure, parse_setting
from ash_server.store import Store
from ash_server.store.connections.tenants import DEFAULT
from ash_server.store.embedded.open import open_database


@click.command("serve")
@host_option
@port_option
@click.option(
    "--workers",
    metavar="N",
    help="Processes that answer requests, or `cores`: one per core; default: ASH_WORKERS, else 1.",
)
def command(host: str | None, port: int | None, workers: str | None) -> None:
    """Start the server.

    Until the first key exists (`ash keys create`), it answers everyone on this machine, and listens on no address that
    others reach. From then on, each request needs a key.

    \b
    ash serve --port 8080
    """
    settings = settings_with(host, port, workers)
    with ExitStack() as stack:
        listeners = listen_for_workers(settings.host, settings.port, settings.workers)
        for listener in listeners:
            stack.enter_context(listener)
        url = stack.enter_context(open_database(settings))
        base_url = address(listeners[0])
        check_keys(settings, url)
        asyncio.run(run_with_store(url, warn_outdated))

        def on_ready() -> None:
            click.echo(f"Ash serves at {base_url} (its API: {base_url}/docs). Ctrl-C stops it.")

        if settings.workers == 1:
            serve_app(settings, url, listeners[0], on_ready)
        else:
            configure_logging(settings)
            run_workers(listeners, serve_app, settings, url, on_ready=on_ready)


def serve_app(settings: Settings, url: str, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve in this process."""
    with configured_tracing(os.environ) as tracing:
        app = create_app(settings, database_url=url, tracing=tracing, checks_home=settings.is_of_one_user)
        serve(app, listener, on_ready)


def settings_with(host: str | None, port: int | None, workers: str | None = None) -> Settings:
    """Return the settings of the environment, overridden by options. Raises SettingsError."""
    options = {"host": host, "port": port, "workers": workers and parse_setting("workers", workers)}
    overrides: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return replace(Settings.load(), **overrides)


def check_keys(settings: Settings, url: str) -> None:
    """Raise SettingsError if other machines can reach the server and the database has no keys."""
    has_keys = settings.is_exposed and asyncio.run(run_with_store(url, _has_keys))
    check_exposure(settings, has_keys=has_keys)


async def _has_keys(store: Store) -> bool:
    return await store.keys.has_keys()


async def warn_outdated(store: Store) -> None:
    """Warn if events of sessions of any tenant were derived by another version of Ash, or not at all."""
    for tenant in await store.list_tenants():
        if outdated := len(await store.for_tenant(tenant).events.list_outdated()):
            have = "has" if outdated == 1 else "have"
            setting = "" if tenant == DEFAULT else f"ASH_TENANT={tenant.name} "
            warn(
                f"{counted(outdated, 'session')} {have} no events, or events of an older Ash: "
                f"`{setting}ash reindex` derives them"
            )
