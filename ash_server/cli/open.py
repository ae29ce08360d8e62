"""`ash open`: open a session in the browser, from the running server or one that is started for it."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile, gettempdir
from threading import Event
from urllib.parse import quote, urlsplit

import rich_click as click

from ash_client import ApiError, AshClient
from ash_client.errors import NO_ANSWER
from ash_client.requests import Request
from ash_server.api.http.server.serve import address, listen, serve
from ash_server.app import create_app
from ash_server.cli.common.client import own_url, server_at, server_to_read
from ash_server.cli.common.local_store import LocalStore
from ash_server.cli.common.options import own_server_option, reject_empty, url_option
from ash_server.cli.common.output.browser import open_browser
from ash_server.cli.common.output.phone import NotReachable, show_code
from ash_server.cli.common.output.terminal import warn
from ash_server.cli.common.read_store import session_named
from ash_server.cli.common.store import run_with_store, with_store
from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.cli.import_.report import warn_of_problems
from ash_server.cli.serve import check_keys
from ash_server.errors import AshError, SessionNotFound
from ash_server.prices import PriceFiles
from ash_server.prices.errors import PricesError
from ash_server.settings import Settings, is_loopback
from ash_server.store import Store
from ash_server.store.embedded.open import open_database
from ash_server.store.usage.priced_groups import price_answers
from ash_server.transfer.exporting.html import ExportedPage, build_page, escape_script, join_events
from ash_server.transfer.exporting.in_memory import InMemorySession, load_in_memory
from ash_server.transfer.importing.databases.sessions import database_of
from ash_server.transfer.importing.transcript_files import declared_at, external_id, find_homes

_PAGE_PREFIX = "ash-page-"
_PAGE_SECONDS = 24 * 60 * 60

_OF_ANOTHER_MACHINE = (
    "{} is the server of another machine: `ash push FILE` sends a file to it, and `ash open --no-store FILE` shows one "
    "without a store."
)


class NotImported(AshError):
    status, code, title = 409, "not_imported", "The server uses another store than this command."


@click.command("open")
@click.argument("reference", metavar="[SESSION|FILE]", required=False, callback=reject_empty)
@click.option(
    "--no-store",
    "stores",
    flag_value=False,
    default=True,
    help="Only show the FILE: as one self-contained HTML file, without a database. Ctrl-C deletes it; without a "
    "terminal it stays for a day.",
)
@click.option(
    "--qr",
    "shows_code",
    is_flag=True,
    help="Show a QR code for a phone instead. It signs the phone in to read, once, within five minutes.",
)
@url_option
@own_server_option
def command(reference: str | None, url: str | None, *, is_local: bool, stores: bool, shows_code: bool) -> int:
    """Open a session in the browser, or the list of all sessions.

    SESSION is an id or its first characters, or a name (external id). A FILE is a transcript, which is imported first;
    of a database, name a session: opencode.db/ID.
    If no server is running, this command runs one until Ctrl-C. It also prints the address; without a desktop, or with
    ASH_NO_BROWSER set, it opens no browser.

    \b
    ash open                          the list of all sessions
    ash open 0d5c0a1e
    ash open session.jsonl
    ash open session.jsonl --no-store
    ash open 0d5c0a1e --qr
    """
    if not stores and (reference is None or url is not None or shows_code):
        raise click.UsageError("--no-store needs a FILE and no server.")
    if not stores:
        return _open_file(Path(str(reference)))
    return _open_page(reference, server_to_read(url, is_local=is_local), shows_code=shows_code)


def _open_page(reference: str | None, url: str | None, *, shows_code: bool) -> int:
    """Open the page of a session, of a file that is imported, or of all sessions."""
    path = _transcript_at(reference) if reference is not None else None
    with server_at(url or own_url()) as server:
        if _is_running(server, is_explicit=bool(url)):
            page = _find_page(server, reference, path)
            if page is None:
                return 1
            if shows_code:
                show_code(server, page)
            else:
                _print_and_open(server.url + page)
            return 0
    if shows_code:
        raise NotReachable("no server is running; start it with `ash serve`")
    return _serve_page(reference, path)


def _transcript_at(reference: str) -> Path | None:
    """Return the path of a file, a folder or a session in a database; None for any other reference."""
    path = Path(reference)
    return path if os.path.exists(reference) or database_of(path) is not None else None


def _open_file(path: Path) -> int:
    """Write a self-contained page to a temporary file and open it, without a database."""
    homes = find_homes(os.environ, Path.home())
    loaded = load_in_memory(path, external_id(path, homes), declared_at(path, homes).source)
    for problem in loaded.result.problems:
        warn(f"{path}:{problem.line}: not shown: {problem.reason} (at byte {problem.offset})")
    _delete_old_pages()
    with NamedTemporaryFile(
        "w", prefix=_PAGE_PREFIX, suffix=".html", delete=False, encoding="utf-8", newline=""
    ) as file:
        _write_page(file.write, build_page(loaded.session), loaded)
    _print_and_open(Path(file.name).as_uri())
    if sys.stdin is not None and sys.stdin.isatty():
        _delete_when_interrupted(Path(file.name))
    return 1 if loaded.result.problems else 0


def _delete_when_interrupted(page: Path) -> None:
    try:
        with suppress(KeyboardInterrupt):
            click.echo("Ctrl-C deletes this page.")
            Event().wait()
    finally:
        page.unlink(missing_ok=True)


def _delete_old_pages() -> None:
    """Delete the pages of earlier commands without a terminal, which leave them for their reader."""
    for page in Path(gettempdir()).glob(f"{_PAGE_PREFIX}*.html"):
        with suppress(OSError):  # of another user
            if time.time() - page.stat().st_mtime > _PAGE_SECONDS:
                page.unlink()


def _write_page(write: Callable[[str], object], page: ExportedPage, loaded: InMemorySession) -> None:
    write(page.head)
    write(join_events(loaded.events))
    write(page.after_events)
    write(escape_script(loaded.summary.model_dump_json()))
    write(page.after_summary)
    write(_usage_json(loaded))
    write(page.after_usage)
    write(escape_script(loaded.changes.json()))
    write(page.ending(has_formulas=loaded.changes.has_formulas))


def _usage_json(loaded: InMemorySession) -> str:
    """Return the usage with its cost as JSON; `null` without prices."""
    try:
        prices = PriceFiles(Settings.load()).load()
    except PricesError as error:
        warn(f"costs are missing: {error.detail}")
        return "null"
    return price_answers(loaded.answers, loaded.session.source or "", prices).model_dump_json()


def _is_running(server: AshClient, *, is_explicit: bool) -> bool:
    """True if the server answers. Raises NoServer if it does not and its address was configured."""
    try:
        server.health()
    except ApiError as error:
        if is_explicit or error.code != NO_ANSWER:
            raise
        return False
    return True


def _find_page(server: AshClient, reference: str | None, path: Path | None) -> str | None:
    if reference is None:
        return "/"
    if path is None:
        return _get_redirect(server, reference)
    if not is_loopback(urlsplit(server.url).hostname or ""):
        raise NotImported(_OF_ANOTHER_MACHINE.format(server.url))
    page = with_store(partial(_import, path=path))
    if page is not None:
        _check_server_has(server, page)
    return page


def _get_redirect(server: AshClient, reference: str) -> str:
    """Return the path that the server redirects to for a reference."""
    path = f"/sessions/{quote(reference)}"
    try:
        with server.open(Request("GET", path, bytes), accept="*/*") as response:
            return urlsplit(str(response.headers.get("Location", path))).path
    except ApiError as error:
        if error.code == "session_not_found":
            raise SessionNotFound(
                f"no file and no session matches {reference!r}; `ash sessions` lists the sessions"
            ) from None
        raise


def _check_server_has(server: AshClient, page: str) -> None:
    try:
        _get_redirect(server, page.removeprefix("/sessions/"))
    except SessionNotFound:
        raise NotImported(
            f"{server.url} uses another store than this command and does not have the imported session. "
            "`ash open --no-store FILE` shows a file without a store."
        ) from None


def _serve_page(reference: str | None, path: Path | None) -> int:
    """Run a server until it is stopped, and open the page on it."""
    settings = Settings.load()
    with listen(settings.host, settings.port) as listener, open_database(settings) as database_url:
        check_keys(settings, database_url)
        page = asyncio.run(
            run_with_store(database_url, partial(_find_stored_page, reference=reference, path=path))
        )
        if page is None:
            return 1
        base_url = address(listener)

        def on_ready() -> None:
            _print_and_open(base_url + page)
            click.echo(
                "No server was running, so this command runs one. Ctrl-C stops it; stored sessions are kept."
            )

        app = create_app(settings, database_url=database_url, checks_home=settings.is_of_one_user)
        serve(app, listener, on_ready)
    return 0


async def _find_stored_page(store: Store, reference: str | None, path: Path | None) -> str | None:
    if reference is None:
        return "/"
    if path is not None:
        return await _import(store, path)
    return f"/sessions/{(await session_named(LocalStore(store), reference)).id}"


async def _import(store: Store, path: Path) -> str | None:
    """Import a file or folder and return the page of its session; the list if there are several."""
    report = await import_paths(store, [path], ImportOptions())
    warn_of_problems(report)
    sessions = report.session_ids
    if not sessions:
        return None
    return f"/sessions/{sessions[0]}" if len(sessions) == 1 else "/"


def _print_and_open(address: str) -> None:
    click.echo(address)
    open_browser(address)
