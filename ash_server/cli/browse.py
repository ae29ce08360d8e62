"""`ash sessions` and `ash messages`."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from textwrap import shorten
from typing import Unpack
from uuid import UUID

import click
from psycopg import AsyncConnection
from rich.table import Table
from rich.text import Text

from ash_server.cli.output.message_view import show_message
from ash_server.cli.output.terminal import complain, errors, output, visible, visible_json
from ash_server.cli.store import one_session
from ash_server.db.messages import MessageFilter, StoredMessage, list_messages, to_message
from ash_server.db.pagination import may_go_on
from ash_server.db.sessions import Session, active_at, list_sessions
from ash_server.queries.standard_pages import get_conversation
from ash_shared import parse_message_content

_PAGE = 1000
_SHORTEST_ID = 8
_LONGEST_TITLE = 80
_IN_PATHS = ("/", "\\")

ShowMessages = Callable[[UUID, list[StoredMessage], int | None], None]
"""Given the session, a page of it, and the cursor of the next one if there is one."""


async def print_sessions(conn: AsyncConnection, limit: int, as_json: bool) -> None:
    page = await list_sessions(conn, limit=limit)
    if as_json:
        click.echo(visible_json(page.model_dump_json()))
    elif page.sessions:
        output().print(_table(page.sessions))
        if page.next_after is not None:
            complain(f"these are the newest {limit}; --limit lists up to 1000")
    else:
        complain("no sessions yet: `ash import --discover` shows what could be brought in")


def _table(sessions: list[Session]) -> Table:
    table = Table("session", "source", "last activity", box=None, pad_edge=False, header_style="dim")
    table.add_column("messages", justify="right")
    table.add_column("name", overflow="fold")
    shown = _id_length(sessions)
    for session in sessions:
        moment = active_at(session).astimezone().strftime("%Y-%m-%d %H:%M")
        name = Text(visible(_name(session)).replace("\n", " "))
        table.add_row(
            str(session.id)[:shown], visible(session.source), moment, str(session.message_count), name
        )
    return table


def _id_length(sessions: list[Session]) -> int:
    """As much of the ids as tells them apart, which is all that commands need."""
    ids = [str(session.id) for session in sessions]
    return next(length for length in range(_SHORTEST_ID, 37) if len({id[:length] for id in ids}) == len(ids))


def _name(session: Session) -> str:
    """What somebody called it, and its title, as far as a line takes it; without one also the path it came from."""
    name = "" if session.external_id is None else session.external_id
    if session.title is None:
        return name
    title = shorten(session.title, _LONGEST_TITLE, placeholder=" …")
    is_given = name and name != title and not any(each in name for each in _IN_PATHS)
    return f"{name} · {title}" if is_given else title


async def print_messages(
    conn: AsyncConnection, reference: str, show: ShowMessages, **page: Unpack[MessageFilter]
) -> None:
    session = await one_session(conn, reference)
    messages = await list_messages(conn, session.id, **page)
    full = may_go_on(messages, page["limit"]) and messages[-1].sequence < session.message_count
    show(session.id, messages, messages[-1].sequence if full else None)


async def print_standard(conn: AsyncConnection, reference: str, *, after: int, limit: int | None) -> None:
    """One JSON document for each standard message, as the API answers it; all of them, if there is no limit."""
    session = await one_session(conn, reference)
    next_after: int | None = after
    while next_after is not None:
        page = await get_conversation(
            lambda: nullcontext(conn), session.id, after=next_after, limit=limit or _PAGE
        )
        for message in page.messages:
            click.echo(visible_json(message.model_dump_json()))
        next_after = page.next_after
        if limit is not None:
            break
    _point_to(next_after)


def show_json(session_id: UUID, messages: list[StoredMessage], next_after: int | None) -> None:
    """As the API answers."""
    items = ",".join(to_message(session_id, message).model_dump_json() for message in messages)
    more = "" if next_after is None else f',"nextAfter":{next_after}'
    click.echo(visible_json(f'{{"messages":[{items}]{more}}}'))


def show_raw(_: UUID, messages: list[StoredMessage], next_after: int | None) -> None:
    """Exactly what is stored, one after the other; a terminal gets symbols for what would steer it."""
    for message in messages:
        click.echo(visible(message.content) if sys.stdout.isatty() else message.content.encode())
    _point_to(next_after)


def show_view(session_id: UUID, messages: list[StoredMessage], next_after: int | None) -> None:
    console = output()
    for message in messages:
        moment = message.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        heading = (f"#{message.sequence}", message.role, message.kind, message.source, f"stored {moment}")
        show_message(console, heading, parse_message_content(message.content, message.source))
    _point_to(next_after)


def _point_to(next_after: int | None) -> None:
    if next_after is not None:
        errors().print(f"more: --after {next_after}", style="dim")
