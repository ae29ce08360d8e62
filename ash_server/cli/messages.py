"""`ash messages`: show the stored messages of a session."""

import sys
from collections.abc import Callable
from typing import Any, Unpack, get_args
from uuid import UUID

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from ash_server.cli.common.options import session_argument
from ash_server.cli.common.output.message_view import show_message
from ash_server.cli.common.output.terminal import print_next_page, stdout_console, visible, visible_json
from ash_server.cli.common.page_options import after_option, page_limit_option
from ash_server.cli.common.store import resolve_session, with_store
from ash_server.store import Store
from ash_server.store.message_pages import MessageFilter, StoredMessage, to_message
from ash_server.store.pagination import may_have_more
from ash_shared import parse_message_content
from ash_shared.model.blocks import CLASSES
from ash_shared.model.message import Kind, Role

_DEFAULT_KINDS = ("message", "record")
_STANDARD_PAGE = 1000
"""Stored messages per page of standard messages."""

ShowMessages = Callable[[UUID, list[StoredMessage], int | None], None]
"""Called with the session, a page of messages, and the cursor of the next page, if there is one."""


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
def command(session: str, form: str | None, **page: Unpack[MessageFilter]) -> None:
    """Show the messages of a session as typed content.

    SESSION is an id or its first characters, or a name (external id).

    \b
    ash messages 0d5c0a1e --type tool_use
    ash messages 0d5c0a1e --standard | jq .usage
    """
    if form == "standard":
        bounds = _standard_bounds(page)
        with_store(lambda store: _print_standard(store, session, **bounds))
        return
    show = {"json": _show_json, "raw": _show_raw}.get(form or "", _show_view)
    with_store(lambda store: _print_messages(store, session, show, **page))


def _standard_bounds(page: MessageFilter) -> dict[str, Any]:
    """Return the page options that apply to standard messages, which are built from all stored messages."""
    if page["role"] or page["type"] or tuple(page["kinds"]) != _DEFAULT_KINDS:
        raise click.UsageError("--kind, --role and --type cannot be used with --standard.")
    has_limit = get_current_context().get_parameter_source("limit") is ParameterSource.COMMANDLINE
    return {"after": page["after"], "limit": page["limit"] if has_limit else None}


async def _print_messages(
    store: Store, reference: str, show: ShowMessages, **page: Unpack[MessageFilter]
) -> None:
    session = await resolve_session(store, reference)
    messages = await store.messages.list_messages(session.id, **page)
    has_more = may_have_more(messages, page["limit"]) and messages[-1].sequence < session.message_count
    show(session.id, messages, messages[-1].sequence if has_more else None)


async def _print_standard(store: Store, reference: str, *, after: int, limit: int | None) -> None:
    """Print standard messages as JSON lines; without a limit, all messages."""
    session = await resolve_session(store, reference)
    next_after: int | None = after
    while next_after is not None:
        page = await store.conversation.get_page(session.id, after=next_after, limit=limit or _STANDARD_PAGE)
        for message in page.messages:
            click.echo(visible_json(message.model_dump_json()))
        next_after = page.next_after
        if limit is not None:
            break
    print_next_page(next_after)


def _show_json(session_id: UUID, messages: list[StoredMessage], next_after: int | None) -> None:
    items = ",".join(to_message(session_id, message).model_dump_json() for message in messages)
    more = "" if next_after is None else f',"nextAfter":{next_after}'
    click.echo(visible_json(f'{{"messages":[{items}]{more}}}'))


def _show_raw(_: UUID, messages: list[StoredMessage], next_after: int | None) -> None:
    """Print the stored texts exactly; on a terminal with control characters replaced."""
    for message in messages:
        click.echo(visible(message.content) if sys.stdout.isatty() else message.content.encode())
    print_next_page(next_after)


def _show_view(session_id: UUID, messages: list[StoredMessage], next_after: int | None) -> None:
    console = stdout_console()
    for message in messages:
        time = message.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        heading = (f"#{message.sequence}", message.role, message.kind, message.source, f"stored {time}")
        show_message(console, heading, parse_message_content(message.content, message.source))
    print_next_page(next_after)
