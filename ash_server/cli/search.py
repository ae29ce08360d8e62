"""`ash search`: search all sessions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, Unpack, get_args
from uuid import UUID

import rich_click as click
from rich.text import Text

from ash_client.requests import SearchQuery
from ash_server.cli.common.options import json_option, reject_empty
from ash_server.cli.common.output.terminal import (
    counted,
    local_time,
    print_next_page,
    stdout_console,
    visible,
    visible_json,
    warn,
)
from ash_server.cli.common.read_store import ReadStore, StoreToRead, reads_store, session_named
from ash_server.cli.sessions import OF_SESSIONS, first_page, print_sessions, session_options
from ash_server.store.search.query import MAX_COLD, SearchScope
from ash_shared.model.message import Role
from ash_shared.model.pages import SearchPage, SearchResult
from ash_shared.model.session import Session

_DEFAULT_PLACE = "conversation"
_DEFAULT_PER_SESSION = 3


@click.command("search")
@click.argument("words", nargs=-1)
@click.option(
    "--in",
    "place",
    type=click.Choice(get_args(SearchScope)),
    default=_DEFAULT_PLACE,
    show_default=True,
    help="said: texts of the user and the assistant. conversation: also thinking and tool calls. "
    "results: tool results and all other texts. everything: all of it.",
)
@session_options
@click.option("--session", callback=reject_empty, help="Only this session.")
@click.option("--role", type=click.Choice(get_args(Role)), help="Only texts with this role.")
@click.option(
    "--per-session",
    type=click.IntRange(1, 100),
    help="At most this many results per session; default: 3, unless --session is given.",
)
@click.option(
    "--after", metavar="CURSOR", callback=reject_empty, help="Next page: the cursor of the last one."
)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@json_option
@reads_store
def command(
    words: tuple[str, ...],
    session: str | None,
    *,
    store: StoreToRead,
    as_json: bool,
    per_session: int | None,
    **filters: Any,
) -> None:
    """Search the titles and texts of all sessions, newest results first.

    All words must occur; each also matches longer words that start with it. "these words" matches a phrase, -word
    excludes a word, `or` separates alternatives. Quote the whole query, since the shell removes quotes and a leading
    dash starts an option. Sessions with this title or name come first, unless --session, --role or --after is given.

    Without words, lists the sessions that match --edited, --tool, --project or --person.

    \b
    ash search summer time
    ash search '"summer time" -winter' --in everything
    ash search README.md --session 363175b0
    ash search heron --project . --tool Bash
    ash search --edited README.md
    """
    if not words:
        _list_sessions(store, filters, as_json=as_json)
        return
    max_per_session = per_session or (None if session else _DEFAULT_PER_SESSION)
    matches = store.read(
        partial(_search, q=" ".join(words), session=session, per_session=max_per_session, **filters)
    )
    (_show_json if as_json else _show_view)(matches)


def _list_sessions(store: StoreToRead, filters: Mapping[str, Any], *, as_json: bool) -> None:
    named = {name: filters[name] for name in (*OF_SESSIONS, "after", "limit") if filters.get(name)}
    if not named.keys() & set(OF_SESSIONS):
        raise click.UsageError(f"Missing words, or one of --{', --'.join(OF_SESSIONS)}.")
    store.read(partial(print_sessions, as_json=as_json, **named))


class _Matches(NamedTuple):
    page: SearchPage
    named: list[Session]
    """Sessions that match by title or name and have no result on the page."""
    names: Mapping[UUID, str]
    """The names of sessions that have results and no title."""


async def _search(store: ReadStore, q: str, session: str | None, **query: Unpack[SearchQuery]) -> _Matches:
    if session is not None:
        query["session_id"] = (await session_named(store, session)).id
    named_query = query.copy()
    page = await store.search(q, **query)
    while page.next_after and not page.results:
        query["after"] = page.next_after
        page = await store.search(q, **query)
    untitled = {result.session_id for result in page.results if not result.title}
    names = {session.id: session.name for session in await store.get_sessions(untitled)}
    return _Matches(page, await _find_named(store, q, page, **named_query), names)


async def _find_named(
    store: ReadStore, q: str, page: SearchPage, **query: Unpack[SearchQuery]
) -> list[Session]:
    name = q.replace('"', "").strip()
    if not name or any(query.get(each) for each in ("after", "role", "session_id")):
        return []
    of_sessions: Any = {name: query.get(name) for name in OF_SESSIONS}
    named = await first_page(store, q=name, limit=query["limit"], archived="include", **of_sessions)
    with_results = {result.session_id for result in page.results}
    return [session for session in named.sessions if session.id not in with_results]


def _show_json(matches: _Matches) -> None:
    sessions = [session.model_dump(mode="json") for session in matches.named]
    click.echo(visible_json(json.dumps({"sessions": sessions, **matches.page.model_dump(mode="json")})))


def _show_view(matches: _Matches) -> None:
    """Print the sessions that match by name, then results grouped by session."""
    console, page = stdout_console(), matches.page
    for session in matches.named:
        console.print(
            _format_session(session.id, session.agent, session.name, "title or name"), soft_wrap=True
        )
    for _, of_session in groupby(page.results, lambda result: result.session_id):
        results = list(of_session)
        console.print(_format_heading(results[0], matches.names), soft_wrap=True)
        for result in results:
            console.print(_format_result(result), soft_wrap=True)
    if not (page.results or matches.named):
        warn("no results")
        _show_suggestions(page.suggestions or ())
    print_next_page(page.next_after)
    if page.pending is not None:
        warn(f"{counted(page.pending, 'event')} not indexed yet")
    if page.cold_sessions is not None:
        at_least = "at least " if page.cold_sessions == MAX_COLD else ""
        warn(f"{at_least}{counted(page.cold_sessions, 'cold session')} not searched; see `ash cold --help`")


def _show_suggestions(queries: Sequence[str]) -> None:
    if queries:
        warn(f"did you mean: {', '.join(map(visible, queries))}?")


def _format_heading(result: SearchResult, names: Mapping[UUID, str]) -> Text:
    name = result.title or names.get(result.session_id, "")
    number = f"{result.matches:,}+ matching events"
    reason = number if result.at_least else counted(result.matches, "matching event")
    return _format_session(result.session_id, result.agent or result.source, name, reason)


def _format_session(id: UUID, source: str, name: str, reason: str) -> Text:
    text = " ".join(visible(name).split())
    return Text.assemble((str(id)[:8], "bold"), f"  {visible(source)}  {text}", (f" · {reason}", "dim"))


def _format_result(result: SearchResult) -> Text:
    moment = local_time(result.created_at)
    place = f"event {result.event_sequence}" if result.sequence is None else f"#{result.sequence}"
    parts = [(visible(text), "bold" if is_match else "") for text, is_match in _split_snippet(result)]
    return Text.assemble((f"  {place:<6} {moment}  {result.role:<9}  ", "dim"), *parts)


def _split_snippet(result: SearchResult) -> Iterator[tuple[str, bool]]:
    """Yield the parts of the snippet, and whether each is a match; marks count UTF-16 units."""
    units, position = result.snippet.encode("utf-16-le"), 0
    for start, end in result.marks:
        yield units[position * 2 : start * 2].decode("utf-16-le"), False
        yield units[start * 2 : end * 2].decode("utf-16-le"), True
        position = end
    yield units[position * 2 :].decode("utf-16-le"), False
