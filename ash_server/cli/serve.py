"""`ash serve`: run the server."""

import asyncio
import os
from dataclasses import replace
from typing import Any

import rich_click as click

from ash_server.api.http.server import address, listen, serve
from ash_server.api.http.tracing import configured_tracing
from ash_server.app import create_app
from ash_server.cli.options import host_option, port_option
from ash_server.cli.output.terminal import counted, warn
from ash_server.cli.store import run_with_store
from ash_server.db.embedded.open import open_database
from ash_server.db.tenants import DEFAULT
from ash_server.settings import Settings, check_exposure
from ash_server.store import Store


@click.command("serve")
@host_option
@port_option
def command(host: str | None, port: int | None) -> None:
    """Start the server.

    Until the first key exists (`ash keys create`), it answers everyone on this machine, and listens on no address that
    others reach. From then on, each request needs a key.

    \b
    ash serve --port 8080
    """
    settings = settings_with(host, port)
    with (
        listen(settings.host, settings.port) as listener,
        configured_tracing(os.environ) as tracing,
        open_database(settings) as url,
    ):
        base_url = address(listener)
        check_keys(settings, url)
        asyncio.run(run_with_store(url, warn_outdated))
        app = create_app(settings, database_url=url, tracing=tracing)
        serve(
            app,
            listener,
            lambda: click.echo(f"Ash serves at {base_url} (its API: {base_url}/docs). Ctrl-C stops it."),
        )


def settings_with(host: str | None, port: int | None) -> Settings:
    """Return the settings of the environment, overridden by options. Raises SettingsError."""
    overrides: dict[str, Any] = {
        name: value for name, value in (("host", host), ("port", port)) if value is not None
    }
    return replace(Settings.load(), **overrides)


def check_keys(settings: Settings, url: str) -> None:
    """Raise SettingsError if other machines can reach a server whose database has no keys."""
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
                f"`{setting}ash events rebuild` derives them"
            )
