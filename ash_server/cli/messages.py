"""`ash messages`: show the stored messages of a session."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from ash_client.requests import MessageQuery
from ash_server.cli.common.options import session_argument
from ash_server.cli.common.output.message_view import show_message
from ash_server.cli.common.output.terminal import print_next_page, stdout_console, visible, visible_json
from ash_server.cli.common.page_options import after_option, page_limit_option
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_shared.model.blocks import CLASSES
from ash_shared.model.message import Kind, Role
from ash_shared.model.pages import MessagePage

_DEFAULT_KINDS = ("message", "record")
_STANDARD_PAGE = 1000
"""Stored messages per page of standard messages."""

ShowMessages = Callable[[MessagePage], None]


@click.command("messages")
@session_argument
@after_option
@page_limit_option
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(get_args(Kind)),
    multiple=True,
    default=_DEFAULT_KINDS,
    show_default=True,
)
@click.option("--role", type=click.Choice(get_args(Role)))
@click.option("--type", type=click.Choice(tuple(CLASSES)), help="Only messages with this type of block.")
@click.option("--json", "form", flag_value="json", help="One JSON document, as the API returns it.")
@click.option("--raw", "form", flag_value="raw", help="The stored texts.")
@click.option(
    "--standard",
    "form",
    flag_value="standard",
    help="One JSON document per standard message. With --limit, only as many whole turns as fit into that many stored "
    "messages, but at least one.",
)
@reads_store
def command(session: str, form: str | None, *, store: StoreToRead, **page: Any) -> None:
    """Show the messages of a session as typed content.

    SESSION is an id or its first characters, or a name (external id).

    \b
    ash messages 0d5c0a1e --type tool_use
    ash messages 0d5c0a1e --standard | jq .usage
    """
    if form == "standard":
        store.read(partial(_print_standard, reference=session, **_standard_bounds(page)))
        return
    show = {"json": _show_json, "raw": _show_raw}.get(form or "", _show_view)
    query: MessageQuery = {
        "after": page["after"],
        "limit": page["limit"],
        "kind": ",".join(page["kinds"]),
        "role": page["role"],
        "type": page["type"],
        "parsed": form != "raw",
    }
    show(store.read(partial(_read_page, reference=session, query=query)))


def _standard_bounds(page: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page options that apply to standard messages, which are built from all stored messages."""
    if page["role"] or page["type"] or tuple(page["kinds"]) != _DEFAULT_KINDS:
        raise click.UsageError("--kind, --role and --type cannot be used with --standard.")
    has_limit = get_current_context().get_parameter_source("limit") is ParameterSource.COMMANDLINE
    return {"after": page["after"], "limit": page["limit"] if has_limit else None}


async def _read_page(store: ReadStore, reference: str, query: MessageQuery) -> MessagePage:
    session = await session_named(store, reference)
    page = await store.list_messages(session.id, **query)
    is_last = not page.messages or page.messages[-1].sequence >= session.message_count
    return page.model_copy(update={"next_after": None}) if is_last else page


async def _print_standard(store: ReadStore, reference: str, *, after: int, limit: int | None) -> None:
    """Print standard messages as JSON lines; without a limit, all messages."""
    session = await session_named(store, reference)
    next_after: int | None = after
    while next_after is not None:
        page = await store.list_standard_messages(session.id, after=next_after, limit=limit or _STANDARD_PAGE)
        for message in page.messages:
            click.echo(visible_json(message))
        next_after = page.next_after
        if limit is not None:
            break
    print_next_page(next_after)


def _show_json(page: MessagePage) -> None:
    click.echo(visible_json(page.model_dump_json()))


def _show_raw(page: MessagePage) -> None:
    """Print the stored texts exactly; on a terminal with control characters replaced."""
    for message in page.messages:
        text = message.content or ""
        click.echo(visible(text) if sys.stdout.isatty() else text.encode())
    print_next_page(page.next_after)


def _show_view(page: MessagePage) -> None:
    console = stdout_console()
    for message in page.messages:
        time = message.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        heading = (f"#{message.sequence}", message.role, message.kind, message.source, f"stored {time}")
        show_message(console, heading, message.parsed or ())
    print_next_page(page.next_after)
