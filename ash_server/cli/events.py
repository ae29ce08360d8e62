"""`ash events`: the log of a session, and its derivation anew."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Unpack
from uuid import UUID

import click
import msgspec
from psycopg import AsyncConnection
from rich.text import Text

from ash_server.cli.output.event_lines import headline
from ash_server.cli.output.terminal import errors, output, visible, visible_json
from ash_server.cli.store import one_session
from ash_server.db.events import EventFilter, StoredEvent, get_events, page_json
from ash_server.db.notify import notify
from ash_server.db.pagination import may_go_on
from ash_server.db.rebuild_events import outdated_sessions, rebuild_events
from ash_server.db.reindex import session_ids
from ash_server.errors import SessionNotFound

ShowEvents = Callable[[list[StoredEvent], int | None], None]
"""Given a page of events, and the cursor of the next one if there may be one."""


class Derived(NamedTuple):
    sessions: int
    messages: int
    events: int


async def print_events(
    conn: AsyncConnection, reference: str, show: ShowEvents, **page: Unpack[EventFilter]
) -> None:
    session = await one_session(conn, reference)
    found = await get_events(conn, session.id, **page)
    show(found, found[-1].sequence if may_go_on(found, page["limit"]) else None)


def show_json(found: list[StoredEvent], next_after: int | None) -> None:
    """As the API answers."""
    ends = {} if next_after is None else {"nextAfter": next_after}
    click.echo(visible_json(page_json(found, ends)))


def show_view(found: list[StoredEvent], next_after: int | None) -> None:
    console = output()
    for stored in found:
        console.print(
            _line(stored.sequence, msgspec.json.decode(stored.content)), no_wrap=True, overflow="ellipsis"
        )
    if next_after is not None:
        errors().print(f"more: --after {next_after}", style="dim")


async def rebuild(conn: AsyncConnection, references: Sequence[str], *, everything: bool) -> Derived:
    """Each session in a transaction of its own; who follows one is woken behind it."""
    count = messages = events = 0
    for session_id in await _chosen(conn, references, everything):
        try:
            rebuilt = await rebuild_events(conn, session_id)
        except SessionNotFound:  # deleted meanwhile
            continue
        await notify(conn, [session_id])
        count, messages, events = count + 1, messages + rebuilt.messages, events + rebuilt.events
    return Derived(count, messages, events)


async def _chosen(conn: AsyncConnection, references: Sequence[str], everything: bool) -> list[UUID]:
    if references:
        return [(await one_session(conn, reference)).id for reference in references]
    if everything:
        return [each async for each in session_ids(conn)]
    return await outdated_sessions(conn)


def _line(sequence: int, event: dict[str, Any]) -> Text:
    moment = datetime.fromtimestamp(event["timestamp"] / 1000).astimezone().strftime("%H:%M:%S")
    indent = "  " if event["payload"].keys() & {"parentToolCallId", "sidechain"} else ""
    return Text.assemble(
        (f"#{sequence:<5} {moment}  ", "dim"),
        (f"{visible(event['type']):<17} ", "bold"),
        indent + visible(headline(event)),
    )
