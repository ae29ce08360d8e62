"""Options of `ash forward`."""

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import rich_click as click

from ash_server.cli.common.options import reject_empty
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store
from ash_server.cli.common.server_store import ServerStore
from ash_server.cli.sessions import OF_SESSIONS, read_moment, session_options

if TYPE_CHECKING:
    from ash_server.cli.forward.destination import Destination
    from ash_server.cli.forward.forwarder import ForwardOptions
    from ash_server.settings import Settings

_WAIT = 60.0
"""Seconds to wait for an unavailable backend with --once."""


@click.command("forward")
@click.argument("destination", metavar="[URL]", required=False)
@click.option("--once", is_flag=True, help="Send new spans, and exit.")
@click.option(
    "--session",
    "sessions",
    metavar="SESSION",
    multiple=True,
    callback=reject_empty,
    help="Only this session. Repeatable.",
)
@session_options
@click.option(
    "--since",
    metavar="TIME",
    callback=read_moment,
    help="Only sessions with activity since a date or a time, or in the last days: 7d.",
)
@click.option(
    "--header", "headers", metavar="KEY=VALUE", multiple=True, help="A header for each request. Repeatable."
)
@click.option("--no-redact", "shows_secrets", is_flag=True, help="Send tokens, keys and passwords unchanged.")
@click.option(
    "--idle",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time without a change after which the last answer and its turn are sent.",
)
@click.option("--allow-http", is_flag=True, help="Send without encryption to another machine.")
@click.option("--restart", is_flag=True, help="Forget which spans were sent, and send all.")
@reads_store
def command(  # noqa: PLR0913  # one argument per option
    destination: str | None,
    *,
    store: StoreToRead,
    once: bool,
    sessions: tuple[str, ...],
    since: datetime | None,
    headers: tuple[str, ...],
    shows_secrets: bool,
    idle: float,
    allow_http: bool,
    restart: bool,
    **filters: Any,
) -> int:
    """Send redacted sessions as traces to an OpenTelemetry backend, and follow them until Ctrl-C.

    URL is the backend's address for OTLP over HTTP, with or without /v1/traces. Default: OTEL_EXPORTER_OTLP_ENDPOINT,
    with the headers in OTEL_EXPORTER_OTLP_HEADERS. Accepted spans are not sent again, even by a later
    command, unless --restart is passed.

    \b
    ash forward http://localhost:4318
    ash forward https://collector.example.com --source claude --since 7d
    ash forward --once
    """
    # Imported when needed: the client takes many times as long as the help.
    from ash_server.cli.forward.destination import is_same_server, read_destination
    from ash_server.cli.forward.forwarder import ForwardOptions

    backend = read_destination(destination, headers, os.environ, is_http_allowed=allow_http)
    if store.url is not None and is_same_server(store.url, backend.url):
        raise click.UsageError("A server cannot forward its sessions to itself.")
    query: Any = {name: filters[name] for name in OF_SESSIONS if filters.get(name)}
    if since is not None:
        query["since"] = since
    options = ForwardOptions(query, sessions, idle, not shows_secrets)
    return store.read(lambda opened: _run(opened, backend, options, is_once=once, restarts=restart))


async def _run(
    store: ReadStore, destination: "Destination", options: "ForwardOptions", *, is_once: bool, restarts: bool
) -> int:
    from ash_server.cli.common.output.terminal import counted, warn
    from ash_server.cli.forward.backend import Backend
    from ash_server.cli.forward.forwarder import Forwarder, Sums
    from ash_server.cli.forward.sent_spans import cursor_path, open_cursor
    from ash_server.settings import Settings

    settings = Settings.load()
    name, tenant = await _store_name(store, settings)
    path = cursor_path(settings.home, name, tenant, destination.url)

    def show(sums: Sums) -> None:
        if sums.spans or is_once:
            spans, sessions = counted(sums.spans, "span"), counted(len(sums.sessions), "session")
            click.echo(f"sent {spans} of {sessions} to {destination.url}")

    with open_cursor(path) as sent:
        if restarts:
            sent.forget()
        async with Backend(destination, _WAIT if is_once else None, warn) as backend:
            forwarder = Forwarder(store, backend, sent, options)
            if not is_once:
                await forwarder.run(show)
            sums = Sums()
            try:
                await forwarder.run_once(sums)
            finally:
                show(sums)
        return 1 if sums.rejected or sums.unread else 0


async def _store_name(store: ReadStore, settings: "Settings") -> tuple[str, str]:
    """Return the address of the store without its password, empty for the embedded one, and the tenant."""
    if isinstance(store, ServerStore):
        return store.url, (await store.get_key()).tenant
    if settings.database_url is None:
        return "", settings.tenant
    parts = urlsplit(settings.database_url)
    return f"{parts.hostname}:{parts.port}{parts.path}", settings.tenant
