"""`ash sessions`: list sessions."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple, TypeVar, Unpack, get_args
from uuid import UUID

import rich_click as click
from rich.table import Table
from rich.text import Text

from ash_client.requests import SessionQuery
from ash_server.cli.common.local_store import LocalStore
from ash_server.cli.common.options import json_option, reject_empty
from ash_server.cli.common.output.terminal import (
    local_time,
    print_next_page,
    stdout_console,
    visible,
    visible_json,
    warn,
)
from ash_server.cli.common.page_options import page_limit_option
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store
from ash_server.store import Store
from ash_server.store.lists.session_lists import SessionSort
from ash_shared.model.session import PROMPTS_OF, Session, SessionPage, active_at, transcript_name

_Command = TypeVar("_Command", bound=Callable[..., Any])

_MIN_ID_LENGTH = 8
_MAX_TITLE_LENGTH = 80
_MAX_PROJECT_LENGTH = 24
_MIN_WIDTH_WITH_PROJECT = 120
_INDENT = "  "
_PATH_SEPARATORS = ("/", "\\")
_SPAN = re.compile("([0-9]{1,5})([mhdw])")
_SPAN_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_moment(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """Return the time of a date, a time, or a span before now; times without a zone are local."""
    return None if value is None else parse_moment(value)


def parse_moment(text: str, zone: tzinfo | None = None) -> datetime:
    """Return the time; in `zone`, or local, if it states none. Raises BadParameter."""
    if span := _SPAN.fullmatch(text):
        return datetime.now(UTC) - timedelta(**{_SPAN_UNITS[span[2]]: int(span[1])})
    try:
        moment = datetime.fromisoformat(text)
        is_elsewhere = zone is not None and moment.tzinfo is None
        return moment.replace(tzinfo=zone) if is_elsewhere else moment.astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            "it is a date, a time such as 2026-11-02T09:00, or a span such as 7d"
        ) from None


def read_project(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the absolute path of a folder that is written as a path, else the name as it is."""
    name = reject_empty(context, parameter, value)
    is_path = name is not None and (name.startswith((".", "~")) or Path(name).is_absolute())
    return str(Path(name).expanduser().resolve()) if is_path else name


def read_projects(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [read_project(context, parameter, value) or "" for value in values]


def _reject_any_empty(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[str]:
    for value in values:
        reject_empty(context, parameter, value)
    return list(values)


def several_option(name: str, metavar: str, help: str) -> Callable[[_Command], _Command]:
    """Return an option that may be repeated."""
    return click.option(
        f"--{name}", metavar=metavar, multiple=True, callback=_reject_any_empty, help=f"{help} Repeatable."
    )


OF_SESSIONS = ("source", "project", "person", "tool", "edited")
"""The options of `session_options`."""


def session_options(command: _Command) -> _Command:
    """Add the filters of `ash sessions` and `ash search`."""
    for option in (
        several_option("edited", "PATH", "Only sessions that changed this file, or files in this folder."),
        several_option("tool", "NAME", "Only sessions that called this tool."),
        several_option("person", "NAME", "Only sessions stored with the key of this name."),
        click.option(
            "--project",
            metavar="FOLDER",
            multiple=True,
            callback=read_projects,
            help="Only sessions in this folder, or in any folder with this name. Repeatable.",
        ),
        several_option("source", "NAME", "Only this format or agent, for example claude."),
    ):
        command = option(command)
    return command


@click.command("sessions")
@session_options
@several_option("branch", "NAME", "Only sessions on this Git branch.")
@several_option("model", "NAME", "Only sessions with answers of this model.")
@several_option("machine", "NAME", "Only sessions stored by this machine.")
@several_option("tag", "TAG", "Only sessions with this tag.")
@click.option("--starred", flag_value=True, default=None, help="Only sessions with a star.")
@click.option("--archived", flag_value="only", default=None, help="Only archived sessions.")
@click.option(
    "--sort",
    type=click.Choice(get_args(SessionSort)),
    default="activity",
    show_default=True,
    help="The order: the latest, longest or largest first.",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=read_moment,
    help="Only sessions active since a date, a time, or for a span: 30m, 12h, 7d, 2w.",
)
@click.option("--errors", flag_value=True, default=None, help="Only sessions with errors.")
@click.option(
    "--after", metavar="CURSOR", callback=reject_empty, help="Next page: the cursor of the last one."
)
@page_limit_option
@json_option
@reads_store
def command(*, store: StoreToRead, as_json: bool, **filters: Unpack[SessionQuery]) -> None:
    """List sessions, newest activity first.

    Subagents are indented below the sessions that started them.

    \b
    ash sessions --project . --since 7d
    ash sessions --source codex --errors
    """
    store.read(partial(print_sessions, as_json=as_json, **filters))


async def print_sessions(store: ReadStore, *, as_json: bool, **filters: Unpack[SessionQuery]) -> None:
    page = await first_page(store, **filters)
    if as_json:
        click.echo(visible_json(page.model_dump_json()))
        return
    if page.sessions:
        console = stdout_console()
        shows_project = console.width >= _MIN_WIDTH_WITH_PROJECT
        console.print(session_table(page.sessions, shows_project=shows_project))
        if page.costs_outdated:
            warn(
                "prices or usage have changed: the order is approximate until a server has computed all costs"
            )
    elif (await store.list_sessions(limit=1)).sessions:
        warn("no session matches")
    elif isinstance(store, LocalStore):
        warn(await _without_sessions(store.store))
    else:
        warn(f"{store.url} has no sessions for this key; `ash push --discover` sends transcripts")
    print_next_page(page.next_after)


async def first_page(store: ReadStore, **filters: Unpack[SessionQuery]) -> SessionPage:
    """Return the first page with sessions: pages of several filters may be empty."""
    page = await store.list_sessions(**filters)
    while not page.sessions and page.next_after is not None:
        filters["after"] = page.next_after
        page = await store.list_sessions(**filters)
    return page


async def _without_sessions(store: Store) -> str:
    others = [tenant.name for tenant in await store.list_tenants() if tenant != store.tenant]
    if not others:
        return "no sessions yet; `ash import --discover` lists transcripts to import"
    return (
        f"the tenant {store.tenant.name} has no sessions; the store has other tenants: {', '.join(others)} "
        f"(`ASH_TENANT={others[0]} ash sessions`)"
    )


class _Row(NamedTuple):
    session: Session
    depth: int
    """Number of ancestors in the list."""


def session_table(sessions: list[Session], *, shows_project: bool = False) -> Table:
    table = Table("session", "source", "last activity", box=None, pad_edge=False, header_style="dim")
    if shows_project := shows_project and any(session.project for session in sessions):
        table.add_column("project", max_width=_MAX_PROJECT_LENGTH, no_wrap=True, overflow="ellipsis")
    table.add_column("messages", justify="right")
    table.add_column("name", overflow="fold")
    id_length = _unique_id_length(sessions)
    for session, depth in _nested(sessions):
        time = local_time(active_at(session))
        name = Text(_INDENT * depth + visible(_display_name(session)).replace("\n", " "))
        if session.copy_of is not None:
            original = str(session.copy_of)[:id_length]
            name.append(f"  copy of {original} up to message {session.copied_messages}", "dim")
        project = [visible(_last_segment(session.project or ""))] if shows_project else []
        first = (str(session.id)[:id_length], visible(session.agent), time)
        table.add_row(*first, *project, str(session.message_count), name)
    return table


def _last_segment(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _nested(sessions: Sequence[Session]) -> Iterator[_Row]:
    """Yield each session, followed by its subagents. The newest session of a tree determines the place of the tree."""
    by_id: dict[UUID | None, Session] = {session.id: session for session in sessions}
    children: dict[UUID | None, list[Session]] = {}
    for session in sessions:
        children.setdefault(session.parent_id, []).append(session)
    listed = set[UUID]()
    for session in sessions:
        rows = [_Row(_root(session, by_id), 0)]
        while rows:
            row = rows.pop()
            if row.session.id not in listed:
                listed.add(row.session.id)
                yield row
                rows += (_Row(child, row.depth + 1) for child in reversed(children.get(row.session.id, [])))


def _root(session: Session, by_id: Mapping[UUID | None, Session]) -> Session:
    """Return the topmost ancestor in the list. Parents may form a circle, since a parent need not exist."""
    passed = {session.id}
    while (parent := by_id.get(session.parent_id)) and parent.id not in passed:
        passed.add(parent.id)
        session = parent
    return session


def _unique_id_length(sessions: list[Session]) -> int:
    """Return the shortest length of unique id prefixes, which commands accept."""
    ids = [str(session.id) for session in sessions]
    return next(
        length for length in range(_MIN_ID_LENGTH, 37) if len({id[:length] for id in ids}) == len(ids)
    )


def _display_name(session: Session) -> str:
    """Return the external id and the title; if the external id is a path, the title or the name of the transcript."""
    name = "" if session.external_id is None else session.external_id
    is_path = any(each in name for each in _PATH_SEPARATORS)
    if session.title is None:
        return transcript_name(name) if is_path else name
    title = shorten(session.title, _MAX_TITLE_LENGTH, placeholder=" …")
    shows_both = name and name != title and not is_path and session.source not in PROMPTS_OF.values()
    return f"{name} · {title}" if shows_both else title
