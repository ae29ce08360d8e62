"""`ash open`: a session in the browser, of the server that runs, or of one that is started for it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import quote, urlsplit

import click
from psycopg import AsyncConnection

from ash_server.api.http.server import address, listen, serve
from ash_server.app import create_app
from ash_server.cli.client import AWAY, NoServer, Refused, Server, server_at, why
from ash_server.cli.output.browser import show
from ash_server.cli.output.terminal import complain
from ash_server.cli.store import one_session, with_store
from ash_server.cli.transfer import Wishes, complain_of, import_paths
from ash_server.db.connection import connect
from ash_server.db.embedded.open import open_database
from ash_server.errors import AshError, SessionNotFound
from ash_server.settings import Settings, check_exposure
from ash_server.transfer.exporting.html import Page, build_page, escape_script, join_events
from ash_server.transfer.exporting.in_memory import InMemorySession, load_in_memory
from ash_server.transfer.importing.transcript_files import external_id, find_homes, source_at


class NotImported(AshError):
    status, code, title = 409, "not_imported", "The server has another store than this command."


def open_page(reference: str | None, url: str | None) -> int:
    """Of a session, of a file that becomes one, or of all sessions."""
    server = server_at(url)
    path = Path(reference) if reference is not None and os.path.exists(reference) else None
    if not _answers(server, is_named=bool(url or os.environ.get("ASH_URL"))):
        return _open_own(reference, path)
    page = _found_by(server, reference, path)
    if page is None:
        return 1
    _tell(server.url + page)
    return 0


def open_alone(path: Path) -> int:
    """A page of its own in a file, without any database."""
    homes = find_homes(os.environ, Path.home())
    unstored = load_in_memory(path, external_id(path, homes), source_at(path, homes))
    for problem in unstored.result.problems:
        complain(f"{path}:{problem.line}: not shown: {problem.reason} (at byte {problem.offset})")
    with NamedTemporaryFile(
        "w", prefix="ash-", suffix=".html", delete=False, encoding="utf-8", newline=""
    ) as file:
        _write(file.write, build_page(unstored.session), unstored)
    _tell(Path(file.name).as_uri())
    return 1 if unstored.result.problems else 0


def _write(write: Callable[[str], object], page: Page, unstored: InMemorySession) -> None:
    write(page.head)
    write(join_events(unstored.events))
    write(page.between)
    write(escape_script(unstored.summary.model_dump_json()))
    write(page.end)


def _answers(server: Server, *, is_named: bool) -> bool:
    try:
        server.ask("GET", "/health/live")
    except AWAY as error:
        if is_named:
            raise NoServer(f"{server.url} does not answer: {why(error)}") from None
        return False
    return True


def _found_by(server: Server, reference: str | None, path: Path | None) -> str | None:
    if reference is None:
        return "/"
    if path is None:
        return _page_of(server, reference)
    page = with_store(lambda conn: _import(conn, path))
    if page is not None:
        _check_has(server, page)
    return page


def _page_of(server: Server, reference: str) -> str:
    """Where the server leads who asks for a session by this name."""
    try:
        with server.open("GET", f"/sessions/{quote(reference)}", accept="*/*") as response:
            return urlsplit(response.getheader("Location") or f"/sessions/{quote(reference)}").path
    except Refused as refused:
        if refused.code == "session_not_found":
            raise _unknown(reference) from None
        raise


def _check_has(server: Server, page: str) -> None:
    try:
        _page_of(server, page.removeprefix("/sessions/"))
    except SessionNotFound:
        raise NotImported(
            f"{server.url} has another store than this command: it does not know what was imported. "
            "`ash open --no-store FILE` shows a file without any."
        ) from None


def _open_own(reference: str | None, path: Path | None) -> int:
    """Serves until it is stopped, since nobody else does."""
    settings = Settings.from_environment(os.environ)
    check_exposure(settings)

    with listen(settings.host, settings.port) as listener, open_database(settings) as database_url:
        page = asyncio.run(_page_in(database_url, reference, path))
        if page is None:
            return 1
        where = address(listener)

        def on_ready() -> None:
            _tell(where + page)
            click.echo("No server was running, so this is one. Ctrl-C stops it; what is stored stays.")

        serve(create_app(settings, database_url=database_url), listener, on_ready)
    return 0


async def _page_in(database_url: str, reference: str | None, path: Path | None) -> str | None:
    if reference is None:
        return "/"
    async with await connect(database_url) as conn:
        return await (_import(conn, path) if path else _stored(conn, reference))


async def _stored(conn: AsyncConnection, reference: str) -> str:
    return f"/sessions/{(await one_session(conn, reference)).id}"


async def _import(conn: AsyncConnection, path: Path) -> str | None:
    """Of several files the list of all."""
    report = await import_paths(conn, [path], Wishes())
    complain_of(report)
    sessions = [each.session_id for each in report.imported.values()]
    if not sessions:
        return None
    return f"/sessions/{sessions[0]}" if len(sessions) == 1 else "/"


def _unknown(reference: str) -> SessionNotFound:
    return SessionNotFound(
        f"no file and no session goes by {reference!r}: `ash sessions` lists those that are there"
    )


def _tell(address: str) -> None:
    click.echo(address)
    show(address)
