"""`ash sessions`: list sessions."""

from functools import partial
from textwrap import shorten

import rich_click as click
from rich.table import Table
from rich.text import Text

from ash_server.cli.options import json_option, page_limit_option
from ash_server.cli.output.terminal import stdout_console, visible, visible_json, warn
from ash_server.cli.store import with_store
from ash_server.db.sessions import Session, active_at
from ash_server.store import Store

_MIN_ID_LENGTH = 8
_MAX_TITLE_LENGTH = 80
_PATH_SEPARATORS = ("/", "\\")


@click.command("sessions")
@page_limit_option
@json_option
def command(limit: int, as_json: bool) -> None:
    """List sessions, newest activity first."""
    with_store(partial(_print_sessions, limit=limit, as_json=as_json))


async def _print_sessions(store: Store, limit: int, as_json: bool) -> None:
    page = await store.sessions.list_sessions(limit=limit)
    if as_json:
        click.echo(visible_json(page.model_dump_json()))
    elif page.sessions:
        stdout_console().print(_table(page.sessions))
        if page.next_after is not None:
            warn(f"only the newest {limit} are listed; --limit lists up to 1000")
    else:
        warn("no sessions yet; `ash import --discover` lists transcripts to import")


def _table(sessions: list[Session]) -> Table:
    table = Table("session", "source", "last activity", box=None, pad_edge=False, header_style="dim")
    table.add_column("messages", justify="right")
    table.add_column("name", overflow="fold")
    id_length = _unique_id_length(sessions)
    for session in sessions:
        time = active_at(session).astimezone().strftime("%Y-%m-%d %H:%M")
        name = Text(visible(_display_name(session)).replace("\n", " "))
        table.add_row(
            str(session.id)[:id_length], visible(session.source), time, str(session.message_count), name
        )
    return table


def _unique_id_length(sessions: list[Session]) -> int:
    """Return the shortest length of unique id prefixes, which commands accept."""
    ids = [str(session.id) for session in sessions]
    return next(
        length for length in range(_MIN_ID_LENGTH, 37) if len({id[:length] for id in ids}) == len(ids)
    )


def _display_name(session: Session) -> str:
    """Return the external id and the title; the title alone if the external id is a path."""
    name = "" if session.external_id is None else session.external_id
    if session.title is None:
        return name
    title = shorten(session.title, _MAX_TITLE_LENGTH, placeholder=" …")
    shows_both = name and name != title and not any(each in name for each in _PATH_SEPARATORS)
    return f"{name} · {title}" if shows_both else title
