"""`ash events`: show the event log of a session."""

from datetime import datetime
from functools import partial
from typing import Any, Unpack

import msgspec
import rich_click as click
from rich.text import Text

from ash_client.requests import EventQuery
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
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.store.log.events import parse_types


class _EventsGroup(click.RichGroup):
    """Runs `show` if the first argument is not a subcommand: `ash events SESSION`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


def _check_types(_ctx: click.Context, _param: click.Parameter, types: str | None) -> str | None:
    return None if types is None else ",".join(parse_types(types))


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
    "--type", metavar="TYPES", callback=_check_types, help="Only these event types, comma-separated."
)
@json_option
@reads_store
def show(session: str, *, store: StoreToRead, as_json: bool, **query: Unpack[EventQuery]) -> None:
    """List the events of a session, one per line.

    SESSION is an id or its first characters, or a name (external id).
    """
    page = store.read(partial(_read_page, reference=session, query=query))
    (_show_json if as_json else _show_view)(page)


command.add_command(moved_command("ash events rebuild", "ash reindex"))


async def _read_page(store: ReadStore, reference: str, query: EventQuery) -> bytes:
    return await store.events_page((await session_named(store, reference)).id, **query)


def _show_json(page: bytes) -> None:
    click.echo(visible_json(page.decode()))


def _show_view(page: bytes) -> None:
    console, decoded = stdout_console(), msgspec.json.decode(page)
    for event in decoded["events"]:
        console.print(_format_line(event["sequence"], event), no_wrap=True, overflow="ellipsis")
    print_next_page(decoded.get("nextAfter"))


def _format_line(sequence: int, event: dict[str, Any]) -> Text:
    time = datetime.fromtimestamp(event["timestamp"] / 1000).astimezone().strftime("%H:%M:%S")
    indent = "  " if event["payload"].keys() & {"parentToolCallId", "sidechain"} else ""
    return Text.assemble(
        (f"#{sequence:<5} {time}  ", "dim"),
        (f"{visible(event['type']):<17} ", "bold"),
        indent + visible(headline(event)),
    )
