"""`ash events`: show the event log of a session."""

from datetime import datetime
from typing import Any, Unpack

import msgspec
import rich_click as click
from rich.text import Text

from ash_server.cli.common.moved import moved_command
from ash_server.cli.common.options import json_option, session_argument
from ash_server.cli.common.output.event_lines import headline
from ash_server.cli.common.output.terminal import (
    print_next_page,
    stdout_console,
    visible,
    visible_json,
)
from ash_server.cli.common.page_options import after_option, page_limit_option
from ash_server.cli.common.store import resolve_session, with_store
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
    """


@command.command()
@session_argument
@after_option
@page_limit_option
@click.option("--collapse", is_flag=True, help="Omit chunks followed by their complete event.")
@click.option(
    "--type", "types", metavar="TYPES", callback=_parse_types, help="Only these event types, comma-separated."
)
@json_option
def show(session: str, *, as_json: bool, **page: Unpack[EventFilter]) -> None:
    """List the events of a session, one per line.

    SESSION is an id or its first characters, or a name (external id).
    """
    events, next_after = with_store(lambda store: _get_page(store, session, **page))
    (_show_json if as_json else _show_view)(events, next_after)


command.add_command(moved_command("ash events rebuild", "ash reindex"))


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


def _format_line(sequence: int, event: dict[str, Any]) -> Text:
    time = datetime.fromtimestamp(event["timestamp"] / 1000).astimezone().strftime("%H:%M:%S")
    indent = "  " if event["payload"].keys() & {"parentToolCallId", "sidechain"} else ""
    return Text.assemble(
        (f"#{sequence:<5} {time}  ", "dim"),
        (f"{visible(event['type']):<17} ", "bold"),
        indent + visible(headline(event)),
    )
