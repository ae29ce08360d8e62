"""`ash events`: show the event log of a session, or rebuild it."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Unpack
from uuid import UUID

import msgspec
import rich_click as click
from rich.text import Text

from ash_server.cli.common.options import json_option, session_argument, sessions_argument
from ash_server.cli.common.output.event_lines import headline
from ash_server.cli.common.output.terminal import (
    counted,
    print_next_page,
    stdout_console,
    visible,
    visible_json,
)
from ash_server.cli.common.page_options import after_option, page_limit_option
from ash_server.cli.common.store import resolve_session, select_sessions, with_store
from ash_server.errors import SessionNotFound
from ash_server.store import Store
from ash_server.store.log.events import EventFilter, StoredEvent, page_json, parse_types
from ash_server.store.pagination import may_have_more


class _EventsGroup(click.RichGroup):
    """Runs `show` if the first argument is not a subcommand: `ash events SESSION`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


def _parse_types(_ctx: click.Context, _param: click.Parameter, types: str | None) -> list[str] | None:
    return None if types is None else parse_types(types)


@click.group("events", cls=_EventsGroup)
def command() -> None:
    """Show the event log of a session: `ash events SESSION`.

    \b
    ash events 0d5c0a1e --collapse
    ash events rebuild
    """


@command.command()
@session_argument
@after_option
@page_limit_option
@click.option("--collapse", is_flag=True, help="Omit chunks whose complete event follows.")
@click.option(
    "--type", "types", metavar="TYPES", callback=_parse_types, help="Only these event types, comma-separated."
)
@json_option
def show(session: str, *, as_json: bool, **page: Unpack[EventFilter]) -> None:
    """List the events of a session, one per line.

    SESSION is an id, the beginning of one, or a name (external id).
    """
    events, next_after = with_store(lambda store: _get_page(store, session, **page))
    (_show_json if as_json else _show_view)(events, next_after)


@command.command()
@sessions_argument
@click.option(
    "--all", "everything", is_flag=True, help="All sessions, even if this version derived their events."
)
def rebuild(sessions: tuple[str, ...], everything: bool) -> None:
    """Derive events again from the stored lines, with this version's normalizer.

    Rebuilds the given sessions; by default those whose events another version of Ash derived. Stored lines and posted
    events are kept. Clients that follow a session receive a `reset` event, then all new events.
    """
    if sessions and everything:
        raise click.UsageError("A SESSION and --all exclude each other.")
    rebuilt = with_store(partial(_rebuild, references=sessions, everything=everything))
    click.echo(
        f"{counted(rebuilt.sessions, 'session')}, {counted(rebuilt.messages, 'message')} read, "
        f"{counted(rebuilt.events, 'event')} written"
    )


class _Rebuilt(NamedTuple):
    sessions: int
    messages: int
    events: int


async def _get_page(
    store: Store, reference: str, **page: Unpack[EventFilter]
) -> tuple[list[StoredEvent], int | None]:
    session = await resolve_session(store, reference)
    events = await store.events.get_stored_events(session.id, **page)
    return events, events[-1].sequence if may_have_more(events, page["limit"]) else None


def _show_json(events: list[StoredEvent], next_after: int | None) -> None:
    cursor = {} if next_after is None else {"nextAfter": next_after}
    click.echo(visible_json(page_json(events, cursor).decode()))


def _show_view(events: list[StoredEvent], next_after: int | None) -> None:
    console = stdout_console()
    for stored in events:
        line = _format_line(stored.sequence, msgspec.json.decode(stored.content))
        console.print(line, no_wrap=True, overflow="ellipsis")
    print_next_page(next_after)


async def _rebuild(store: Store, references: Sequence[str], *, everything: bool) -> _Rebuilt:
    """Rebuild each session in its own transaction."""
    count = messages = events = 0
    for session_id in await _select_sessions(store, references, everything):
        try:
            rebuilt = await store.events.rebuild(session_id)
        except SessionNotFound:  # deleted in the meantime
            continue
        count, messages, events = count + 1, messages + rebuilt.messages, events + rebuilt.events
    return _Rebuilt(count, messages, events)


async def _select_sessions(store: Store, references: Sequence[str], everything: bool) -> list[UUID]:
    if references or everything:
        return [session_id async for session_id in select_sessions(store, references)]
    return await store.events.list_outdated()


def _format_line(sequence: int, event: dict[str, Any]) -> Text:
    time = datetime.fromtimestamp(event["timestamp"] / 1000).astimezone().strftime("%H:%M:%S")
    indent = "  " if event["payload"].keys() & {"parentToolCallId", "sidechain"} else ""
    return Text.assemble(
        (f"#{sequence:<5} {time}  ", "dim"),
        (f"{visible(event['type']):<17} ", "bold"),
        indent + visible(headline(event)),
    )
