"""`ash self`: the installation, and where its data is."""

import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import msgspec
import rich_click as click
from psycopg.conninfo import conninfo_to_dict

import ash_server
from ash_server.cli.common.options import json_option, local_only
from ash_server.cli.common.output.terminal import visible
from ash_server.cli.hooks.outdated import hooked_agents, outdated_hooks, outdated_plugins
from ash_server.cli.service.units import manager_here
from ash_server.prices import PriceFiles, Prices
from ash_server.settings import Settings
from ash_server.store.connections.pool import connect_command
from ash_server.store.embedded.open import open_without_schema
from ash_server.store.schema.migrations import REVISION, current_revision_of, known_revisions

MAX_PRICE_AGE = timedelta(days=90)

_EXTRAS = {"otel": "opentelemetry.sdk"}
"""A module of each extra."""


@click.command("self")
@json_option
@local_only("run this command on that machine")
def command(as_json: bool) -> int:
    """Show the version, the paths and the store, and warn of outdated parts.

    Outdated parts are a store, hooks or a plugin of another version, and prices older than 90 days. The exit code is
    then 1. It uses no network. `ash doctor` checks the database.

    The store, the hooks and the service remain when Ash is uninstalled; run `ash hooks remove AGENT` and
    `ash service remove` before.
    """
    settings = Settings.load()
    prices = PriceFiles(settings).load()
    facts = {name: text for name, text in _facts(settings, prices) if text}
    outdated = [
        *_outdated(facts),
        *outdated_hooks(),
        *outdated_plugins(facts["version"]),
        *_old_prices(prices, datetime.now(UTC)),
    ]
    if as_json:
        click.echo(msgspec.json.encode({**facts, "outdated": outdated}).decode())
    else:
        for name, text in facts.items():
            click.echo(f"{name:<9} {visible(text)}")
        for line in outdated:
            click.echo(f"! {visible(line)}")
    return 1 if outdated else 0


def _facts(settings: Settings, prices: Prices) -> Iterator[tuple[str, str]]:
    yield "version", version("ash-messages")
    yield "parser", _version("ash-parser")
    yield "python", platform.python_version()
    yield "package", str(Path(ash_server.__file__).parent)
    yield "extras", ", ".join(name for name, module in _EXTRAS.items() if _is_installed(module))
    yield "home", str(settings.home)
    yield "store", _store(settings)
    yield "schema", _revision(settings) or ""
    yield "hooks", ", ".join(hooked_agents())
    yield "service", _service()
    yield "server", os.environ.get("ASH_URL", "")
    yield "prices", prices.revision


def _outdated(facts: dict[str, str]) -> Iterator[str]:
    parser = facts.get("parser", facts["version"])
    if parser != facts["version"]:
        yield f"ash-parser {parser} has the same modules: uninstall it, and install ash-messages again"
    schema = facts.get("schema")
    if schema is None or schema == REVISION:
        return
    if schema in known_revisions():
        yield f"the schema of the store is {schema}, this version needs {REVISION}: run `ash db upgrade`"
    else:
        yield f"a newer version has migrated the store to schema {schema}: update this installation"


def _old_prices(prices: Prices, now: datetime) -> Iterator[str]:
    known_at = prices.catalogue.known_at(now)
    if known_at is not None and now - known_at > MAX_PRICE_AGE:
        yield f"the newest prices are of {known_at:%Y-%m-%d}: run `ash prices update`"


def _store(settings: Settings) -> str:
    """Describe the store, without the password of its URL."""
    if settings.database_url is None:
        folder = settings.home / "postgres"
        return f"embedded PostgreSQL in {folder}" if folder.exists() else "none yet"
    place = conninfo_to_dict(settings.database_url)
    return f"PostgreSQL at {place.get('host', 'the default address')}, database {place.get('dbname', 'of the user')}"


def _service() -> str:
    """Return the path of its file; empty if none is installed."""
    manager = manager_here()
    path = manager and Path.home() / manager.path
    return str(path) if path and path.exists() else ""


def _revision(settings: Settings) -> str | None:
    """Return the revision of the schema; None without a store."""
    if settings.database_url is None and not (settings.home / "postgres").exists():
        return None
    with open_without_schema(settings) as url, connect_command(url) as conn:
        return current_revision_of(conn)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
