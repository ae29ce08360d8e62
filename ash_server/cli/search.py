"""`ash search`: where something was said or done."""

import time
from collections.abc import Iterator
from itertools import groupby
from typing import Unpack

import click
from psycopg import AsyncConnection
from rich.text import Text

from ash_server.cli.output.terminal import complain, counted, errors, output, visible, visible_json
from ash_server.cli.store import one_session
from ash_server.db.search.index import count_pending, index_pending
from ash_server.db.search.query import Search, SearchPage, SearchResult, find

_MANY = 20_000
"""Events of which it is said that they take a while."""
_PATIENCE = 2.0
"""Seconds for somebody else, such as a server, to come to the end of what it is at."""


async def search(conn: AsyncConnection, q: str, session: str | None, **wishes: Unpack[Search]) -> SearchPage:
    """What was stored before is found: that takes as long as it takes."""
    if session is not None:
        wishes["session_id"] = (await one_session(conn, session)).id
    pending = await _catch_up(conn)
    page = await find(conn, q, **wishes)
    return page.model_copy(update={"pending": pending}) if pending else page


def show_json(page: SearchPage) -> None:
    """As the API answers."""
    click.echo(visible_json(page.model_dump_json()))


def show_view(page: SearchPage) -> None:
    """Under the name of its session each that was found."""
    console = output()
    for _, of_session in groupby(page.results, lambda result: result.session_id):
        results = list(of_session)
        console.print(_heading(results[0]), soft_wrap=True)
        for result in results:
            console.print(_line(result), soft_wrap=True)
    _tell_rest(page)


async def _catch_up(conn: AsyncConnection) -> int:
    """How many events somebody else is still at."""
    pending = await count_pending(conn)
    if pending > _MANY:
        complain(f"{counted(pending, 'event')} are made searchable first, once")
    end = time.monotonic() + _PATIENCE
    while not await index_pending(conn):
        if time.monotonic() > end:
            return await count_pending(conn)
    return 0


def _heading(result: SearchResult) -> Text:
    title = "" if result.title is None else " ".join(visible(result.title).split())
    found = f" · {result.matches:,} found"
    return Text.assemble(
        (str(result.session_id)[:8], "bold"), f"  {visible(result.source)}  {title}", (found, "dim")
    )


def _line(result: SearchResult) -> Text:
    moment = result.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
    place = f"event {result.event_sequence}" if result.sequence is None else f"#{result.sequence}"
    pieces = [(visible(text), "bold" if is_hit else "") for text, is_hit in _pieces(result)]
    return Text.assemble((f"  {place:<6} {moment}  {result.role:<9}  ", "dim"), *pieces)


def _pieces(result: SearchResult) -> Iterator[tuple[str, bool]]:
    """The snippet, cut where a hit begins or ends."""
    units, at = result.snippet.encode("utf-16-le"), 0
    for start, end in result.marks:
        yield units[at * 2 : start * 2].decode("utf-16-le"), False
        yield units[start * 2 : end * 2].decode("utf-16-le"), True
        at = end
    yield units[at * 2 :].decode("utf-16-le"), False


def _tell_rest(page: SearchPage) -> None:
    if not page.results:
        complain("nothing was found")
    if page.next_after is not None:
        errors().print(f"more: --after {page.next_after}", style="dim")
    if page.pending is not None:
        complain(f"{counted(page.pending, 'event')} cannot be found yet")
