"""Pages of sessions: filters, orders and cursors.

PostgreSQL finds the sessions of each filter by an index, also within a project or a period. A page with further filters
reads a limited number of the sessions found, so it may be short or empty although more pages follow.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack, cast, get_args
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.errors import InvalidParameter
from ash_server.prices import Prices
from ash_server.redaction import redact
from ash_server.redaction.session_filters import redacted_match, select_matching
from ash_server.store import session_rows
from ash_server.store.connections.pool import is_distributed, one_transaction
from ash_server.store.lists.cursors import ACTIVITY, not_a_cursor, read_cursor, to_cursor
from ash_server.store.session_rows import fetch_sessions, find_sessions, get_sessions
from ash_server.store.statements import Sql, statements
from ash_server.store.text import check_text
from ash_server.store.usage.groups import project_pattern
from ash_server.store.usage.kept_costs import list_with_shared_usage, read_costs, revision_of
from ash_server.store.usage.reports import default_prices
from ash_shared.model.keywords import check_keywords
from ash_shared.model.session import Session, SessionPage
from ash_shared.model.usage.answers import Cause
from ash_shared.parsing.accents import without_accents

T = TypeVar("T")

Several: TypeAlias = T | Sequence[T]
"""One value, or several; one must match."""

SessionSort = Literal["activity", "start", "duration", "cost", "errors"]
"""The order of a list: the latest, longest or largest first."""

Archived = Literal["exclude", "only", "include"]
"""Whether a list contains archived sessions."""

MAX_LIMIT = 1000

MAX_READ = 2_000
"""Sessions that a page reads to find those that match further filters."""

MAX_VALUES = 100
"""Values of one filter."""

MAX_FILTER_TEXT = 1000
"""Characters of a value of a filter, in a request."""

MAX_PATHS = 10_000
"""Changed files that one path of a filter matches."""

_MAX_TRANSCRIPTS = 10_000

_MAX_OUTDATED = 1_000
"""Outdated costs that a list by cost computes. If there are more, the order is by kept costs."""

_FIRST_READ = 500
"""Sessions that a page with further filters reads first."""

MAX_SORTED = 5_000
"""Sessions of a filter that are sorted; more are read in the order of an index."""

SQL = statements(
    __file__,
    activity=ACTIVITY,
    sessions=session_rows.SQL.sessions,
    max_transcripts=_MAX_TRANSCRIPTS,
    max_paths=MAX_PATHS,
    max_sorted=MAX_SORTED,
    max_outdated=_MAX_OUTDATED,
)


class SessionFilter(TypedDict, total=False):
    """Options of a page of sessions. An empty list of values is no filter."""

    after: str | None
    """The `next_after` of the previous page."""
    limit: int
    """100 by default, at most 1,000."""
    sort: SessionSort
    """`activity` by default."""
    source: Several[str] | None
    """The format, or the agent that wrote the session."""
    project: Several[str] | None
    """The root of the repository, the agent's working folder or a folder above them, by path or only by name."""
    branch: Several[str] | None
    machine: Several[str] | None
    key: Several[UUID] | None
    """The key that stored the session."""
    person: Several[str] | None
    """The name of this key."""
    cause: Several[Cause] | None
    model: Several[str] | None
    """A model of the answers."""
    tool: Several[str] | None
    """A tool that was called."""
    edited: Several[str] | None
    """The path of a changed file, the end of the path, or a folder above."""
    tag: Several[str] | None
    """Only sessions with all of these tags."""
    starred: bool | None
    archived: Archived | None
    """`exclude` by default, but `include` for a list of named sessions: with an external id or its beginning, a
    parent, a provider's session id or a reference."""
    errors: bool | None
    """True: only sessions with errors; False: only those without."""
    since: datetime | None
    """Only sessions with activity at this time or later."""
    until: datetime | None
    """Only sessions last active before this time."""
    q: str | None
    """Text in the title, external id, tags or note, in any case, or the beginning of the id."""
    parent_id: UUID | None
    provider_session_id: str | None
    """The provider's session id in the last message that names one."""
    external_id: str | None
    external_id_prefix: str | None
    """The beginning of the external id."""
    reference: str | None
    """Only sessions that `find_sessions` returns for this reference."""
    redact: bool
    """Compare parts of texts with redacted texts, so that a prefix of a secret finds nothing."""


SEVERAL = (
    "source",
    "project",
    "branch",
    "machine",
    "key",
    "person",
    "cause",
    "model",
    "tool",
    "edited",
    "tag",
)
"""Filters with several values."""

_TEXTS = ("q", "provider_session_id", "external_id", "external_id_prefix", "reference")

_NAMES = ("reference", "external_id", "external_id_prefix", "parent_id", "provider_session_id")
"""Filters that name sessions."""


async def list_sessions(
    conn: AsyncConnection, *, prices: Prices | None = None, **filters: Unpack[SessionFilter]
) -> SessionPage:
    """Return a page of sessions; `next_after` is the cursor of the next page.

    With several filters, a page may be short or empty although there is a next one. The order by cost uses `prices`; by
    default, ASH_PRICES and the installed price list. Raises InvalidParameter for a limit outside 1 to 1,000, or a
    cursor that is unknown or from another order, and PricesError.
    """
    check_keywords("list_sessions", filters, SessionFilter)
    limit, sort = filters.get("limit", 100), filters.get("sort") or "activity"
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidParameter(f"limit must be 1 to {MAX_LIMIT}")
    if sort not in get_args(SessionSort):
        raise InvalidParameter(f"sort is one of {', '.join(get_args(SessionSort))}")
    after = filters.get("after")
    position = _read_cursor(after, sort) if after else _Position(_ORDERS[sort].first, UUID(int=2**128 - 1))
    conditions = await find_conditions(conn, filters)
    if conditions is None:
        return SessionPage(sessions=[])
    if sort == "cost":
        prices = prices or await default_prices()
        by_cost, is_outdated = await _by_cost(conn, conditions, prices)
        page = await _read_page(conn, sort, position, limit, conditions, by_cost)
        return await _sort_by_cost(conn, page, prices, is_outdated=is_outdated)
    read = partial(_read_places, conn, sort, conditions)
    return await _read_page(conn, sort, position, limit, conditions, read)


class Conditions(NamedTuple):
    """The filters of a list as SQL."""

    indexed: frozenset[str]
    """Conditions that an index answers, or that follow from one that an index answers."""
    further: frozenset[str]
    """Conditions checked for a limited number of sessions."""
    params: Mapping[str, Any]
    matches: Callable[[Session], bool] | None
    """A check of redacted texts."""

    @property
    def is_exact(self) -> bool:
        """True if each session that the index finds matches."""
        return not self.further and self.matches is None


_BY_INDEX = (
    "with_ids",
    "with_external_id",
    "with_external_id_prefix",
    "with_parent",
    "with_provider_session_id",
    "with_edited",
    "with_tags",
    "starred",
    "archived",
    "with_keys",
    "with_persons",
    "with_branches",
    "with_tools",
    "with_machines",
    "with_models",
    "with_sources",
    "with_causes",
    "with_errors",
    "without_errors",
    "not_starred",
)
"""Conditions that an index answers, those with the fewest sessions first. A page uses the first one."""

_COMBINED = frozenset({"with_projects", "since", "until", "not_archived"})
"""Conditions that are combined with another one: by an index, or for few sessions."""


async def find_conditions(
    conn: AsyncConnection, filters: SessionFilter | Mapping[str, Any]
) -> Conditions | None:
    """Return the conditions of filters; None if no session matches. Raises InvalidParameter, NulByte, InvalidUtf8."""
    values = {name: _values(filters, name) for name in SEVERAL}
    texts: dict[str, Any] = {name: filters.get(name) for name in (*_TEXTS, "parent_id", "since", "until")}
    for name in _TEXTS:
        check_text(texts[name] or "", name)
    is_redacted = bool(filters.get("redact"))
    params = {
        **texts,
        "sources": values["source"],
        "agents": [_agent_prefix(source) for source in values["source"] or ()],
        "branches": values["branch"],
        "machines": values["machine"],
        "keys": values["key"],
        "causes": values["cause"],
        "models": values["model"],
        "tools": values["tool"],
        "tags": values["tag"],
        "id_prefix": _id_prefix(texts["q"]),
        "plain": without_accents(texts["q"] or ""),
    }
    names = {condition for condition, name in _BY_PARAMETER.items() if params[name] is not None}
    names |= _label_conditions(filters) | _error_conditions(filters)
    for resolve in _RESOLVED:
        resolved = await resolve(conn, values, texts, is_redacted)
        if resolved is None:
            return None
        condition, more = resolved
        names |= condition
        params |= more
    return _to_conditions(names, params, redacted_match(filters) if is_redacted else None)


_BY_PARAMETER = {
    "with_sources": "sources",
    "with_branches": "branches",
    "with_machines": "machines",
    "with_keys": "keys",
    "with_causes": "causes",
    "with_models": "models",
    "with_tools": "tools",
    "with_tags": "tags",
    "with_text": "q",
    "with_parent": "parent_id",
    "with_provider_session_id": "provider_session_id",
    "with_external_id": "external_id",
    "with_external_id_prefix": "external_id_prefix",
    "since": "since",
    "until": "until",
}
"""Conditions by their parameter."""


def _to_conditions(names: set[str], params: Mapping[str, Any], match: Any) -> Conditions:
    """Redacted texts are checked for sessions found otherwise: the number of those read would reveal contents."""
    checked = {"with_text", "with_external_id_prefix"} if match else {"with_text"}
    first = next((name for name in _BY_INDEX if name in names - checked), None)
    indexed = (names & _COMBINED) | ({first} if first else set())
    return Conditions(frozenset(indexed), frozenset(names - indexed), params, match)


def _label_conditions(filters: Mapping[str, Any]) -> set[str]:
    """Raises InvalidParameter."""
    is_named = any(filters.get(name) is not None for name in _NAMES)
    archived = filters.get("archived") or ("include" if is_named else "exclude")
    if archived not in _ARCHIVED:
        raise InvalidParameter(f"archived is one of {', '.join(_ARCHIVED)}")
    starred = {True: {"starred"}, False: {"not_starred"}}.get(cast(bool, filters.get("starred")), set())
    return starred | _ARCHIVED[archived]


_ARCHIVED: Mapping[str, set[str]] = {"exclude": {"not_archived"}, "only": {"archived"}, "include": set()}


def _error_conditions(filters: Mapping[str, Any]) -> set[str]:
    return {True: {"with_errors"}, False: {"without_errors"}}.get(cast(bool, filters.get("errors")), set())


def _values(filters: Mapping[str, Any], name: str) -> list[Any] | None:
    """Return the values of a filter; None without a value. Raises InvalidParameter, NulByte, InvalidUtf8."""
    value = filters.get(name)
    values = [] if value is None else [value] if isinstance(value, str | UUID) else list(value)
    if len(values) > MAX_VALUES:
        raise InvalidParameter(f"{name} has at most {MAX_VALUES} values")
    for each in values:
        check_text(str(each), name)
    return values or None


def _agent_prefix(source: str) -> str:
    """Return the beginning of the metadata of sessions that this agent wrote."""
    return f'{{"agent":{msgspec.json.encode(source).decode()}'


def _id_prefix(q: str | None) -> str | None:
    """Return the text as the beginning of an id, if it is long enough to mean one."""
    prefix = (q or "").lower()
    return prefix if re.fullmatch(r"[0-9a-f]{4}[0-9a-f-]{0,32}", prefix) else None


_Resolved: TypeAlias = tuple[set[str], dict[str, Any]] | None
"""A condition with its parameters, both empty without the filter; None if no session matches."""


async def _resolve_reference(
    conn: AsyncConnection, _: Mapping[str, Any], texts: Mapping[str, Any], is_redacted: bool
) -> _Resolved:
    if texts["reference"] is None:
        return set(), {}
    ids = [session.id for session in await find_sessions(conn, texts["reference"])]
    return ({"with_ids"}, {"ids": ids}) if ids else None


async def _resolve_persons(
    conn: AsyncConnection, values: Mapping[str, Any], _: Mapping[str, Any], is_redacted: bool
) -> _Resolved:
    if values["person"] is None:
        return set(), {}
    rows = await (await conn.execute(SQL.list_keys_of_persons, [values["person"]])).fetchall()
    return ({"with_persons"}, {"person_keys": [id for (id,) in rows]}) if rows else None


async def _resolve_projects(
    conn: AsyncConnection, values: Mapping[str, Any], _: Mapping[str, Any], is_redacted: bool
) -> _Resolved:
    """Folders are compared here, since few sessions have one of their own."""
    names = values["project"]
    if names is None:
        return set(), {}
    is_within = re.compile("|".join(map(project_pattern, names)), re.DOTALL).search
    shown: Callable[[str], str] = redact if is_redacted else str
    folders = await list_folders(conn)
    projects = {project for project, _ in folders if is_within(shown(project))}
    inside = [each for each in folders if each[1] and each[0] not in projects and is_within(shown(each[1]))]
    transcripts = [] if is_redacted else await _list_cursor_transcripts(conn, names)
    if not (projects or inside or transcripts):
        return None
    params = {
        "projects": sorted(projects),
        "parents": sorted({project for project, _ in inside}),
        "folders": sorted({folder for _, folder in inside if folder}),
        "transcripts": transcripts,
    }
    return {"with_projects"}, params


async def list_folders(conn: AsyncConnection) -> set[tuple[str, str | None]]:
    """Return the projects with each of their folders; without a folder, for sessions without one."""
    if is_distributed(conn):
        return set(await (await conn.execute(SQL.list_folders_on_workers)).fetchall())
    with_folders = await (await conn.execute(SQL.list_folders)).fetchall()
    projects = await (await conn.execute(SQL.list_projects)).fetchall()
    return {*with_folders, *((project, None) for (project,) in projects)}


async def _list_cursor_transcripts(conn: AsyncConnection, projects: Sequence[str]) -> list[UUID]:
    """Return transcripts of Cursor that only their name connects with a project, which is a path."""
    paths = [path.rstrip("/\\") for path in projects if re.match(r"/|\\|[A-Za-z]:", path)]
    found: list[UUID] = []
    for path in filter(None, paths):
        dashed = re.sub("[^A-Za-z0-9]", "-", path).lstrip("-")
        prefix = f"projects/{dashed}/agent-transcripts/"
        rows = await (await conn.execute(SQL.list_cursor_transcripts, {"prefix": prefix})).fetchall()
        found += [id for (id,) in rows]
    return found


async def _resolve_edited(
    conn: AsyncConnection, values: Mapping[str, Any], _: Mapping[str, Any], is_redacted: bool
) -> _Resolved:
    if values["edited"] is None:
        return set(), {}
    paths = set[str]()
    for name in values["edited"]:
        paths |= await _list_paths(conn, name, is_redacted)
    return ({"with_edited"}, {"edited": sorted(paths)}) if paths else None


async def _list_paths(conn: AsyncConnection, name: str, is_redacted: bool) -> set[str]:
    """Return the changed files that a path means. Raises InvalidParameter if they are too many."""
    path = name.rstrip("/\\") or name
    found = set[str]()
    for separator in "/\\":
        if re.match(r"/|\\|[A-Za-z]:", path):
            query, params = SQL.list_paths_in, {"path": path, "below": path.rstrip("/\\") + separator}
        else:
            query, params = SQL.list_paths_with_end, {"path": path, "end": separator + path}
        rows = await (await conn.execute(query, params)).fetchall()
        if len(rows) == MAX_PATHS:
            raise InvalidParameter(f"edited: more than {MAX_PATHS} changed files have such a path")
        found |= {stored for (stored,) in rows}
    return {stored for stored in found if _is_shown_path(stored, path)} if is_redacted else found


def _is_shown_path(stored: str, path: str) -> bool:
    """True if the path also matches without secrets."""
    shown = redact(stored)
    is_part = shown.startswith((f"{path}/", f"{path}\\")) or shown.endswith((f"/{path}", f"\\{path}"))
    return shown == path or is_part


_RESOLVED = (_resolve_reference, _resolve_persons, _resolve_projects, _resolve_edited)
"""Filters that other tables or rows translate into the columns of sessions, or that compare parts of texts."""


def select_sessions(conditions: Conditions) -> Sql:
    """Return SQL for the ids of all sessions that match the conditions, which compare no words."""
    return SQL.matching_ids.fill(conditions=all_of(conditions.indexed | conditions.further))


class _Position(NamedTuple):
    """A place in a list: the sort key as text, and the id."""

    key: str
    id: UUID


class _Order(NamedTuple):
    sort_key: Sql
    type: str
    first: str
    """A key before all others."""
    pattern: str
    """The pattern of keys in cursors."""
    keys: Sql
    sort_id: str = "id"


_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?\+00:00"
_ORDERS: Mapping[SessionSort, _Order] = {
    "activity": _Order(ACTIVITY, "timestamptz", "infinity", _TIME, SQL.keys),
    "start": _Order(SQL.start, "timestamptz", "infinity", _TIME, SQL.keys),
    "duration": _Order(SQL.duration, "interval", "178000000 years", r"-?\d{1,18}us", SQL.keys),
    "errors": _Order(Sql("errors"), "bigint", str(2**63 - 1), r"\d{1,18}", SQL.error_keys, "session_id"),
    "cost": _Order(Sql("cost"), "bigint", str(2**63 - 1), r"\d{1,18}", SQL.cost_keys, "session_id"),
}


@cache
def _statement(sort: SessionSort, names: frozenset[str], *, is_few: bool) -> Sql:
    order = _ORDERS[sort]
    parts = {"sort_key": order.sort_key} if order.keys is SQL.keys else {}
    keys = order.keys.fill(conditions=all_of(names), **parts)
    if is_few:
        return SQL.page_of_few.fill(found=keys, type=Sql(order.type))
    return SQL.page_of_many.fill(
        found=keys, sort_key=order.sort_key, sort_id=Sql(order.sort_id), type=Sql(order.type)
    )


@cache
def _matching(names: frozenset[str]) -> Sql:
    return SQL.matching.fill(conditions=all_of(names))


def all_of(names: frozenset[str]) -> Sql:
    """Return conditions as SQL."""
    return Sql(" AND ".join(f"({SQL[name]})" for name in sorted(names)) or "TRUE")


_Read: TypeAlias = Callable[[_Position, int], Awaitable[list[_Position]]]
"""Returns the next places in the order of a list."""


async def _read_page(
    conn: AsyncConnection,
    sort: SessionSort,
    position: _Position,
    limit: int,
    conditions: Conditions,
    read: _Read,
) -> SessionPage:
    if conditions.is_exact:
        places = await read(position, limit + 1)
        sessions = {each.id: each for each in await get_sessions(conn, [each.id for each in places[:limit]])}
        page = [sessions[each.id] for each in places[:limit] if each.id in sessions]
        return _to_page(page, sort, places[limit - 1] if len(places) > limit else None)
    found = list[tuple[_Position, Session]]()
    last: _Position | None = position
    for size in (_FIRST_READ, MAX_READ - _FIRST_READ):
        places = await read(cast(_Position, last), size)
        found += await _check(conn, places, conditions)
        last = places[-1] if len(places) == size else None
        if len(found) > limit or last is None:
            break
    return _to_page(
        [session for _, session in found[:limit]], sort, found[limit - 1][0] if len(found) > limit else last
    )


async def read_latest(conn: AsyncConnection, conditions: Conditions, limit: int) -> list[UUID]:
    """Return the ids of the latest sessions that meet the indexed conditions."""
    newest = _Position(_ORDERS["activity"].first, UUID(int=2**128 - 1))
    return [each.id for each in await _read_places(conn, "activity", conditions, newest, limit)]


async def _read_places(
    conn: AsyncConnection, sort: SessionSort, conditions: Conditions, after: _Position, limit: int
) -> list[_Position]:
    params = {**conditions.params, "key": after.key, "id": after.id, "limit": limit}
    if conditions.indexed - _ORDERED[sort]:
        rows = await _execute(conn, _statement(sort, conditions.indexed, is_few=True), params)
        if not rows or rows[0][2] <= MAX_SORTED:
            return [_Position(_to_text(key), id) for id, key, _ in rows]
    rows = await _execute(conn, _statement(sort, conditions.indexed, is_few=False), params)
    return [_Position(_to_text(key), id) for id, key in rows]


_ORDERED: Mapping[SessionSort, set[str]] = {
    "activity": {"not_archived", "since", "until"},
    "start": {"not_archived"},
    "duration": {"not_archived"},
    "errors": {"not_archived", "with_errors"},
    "cost": {"not_archived"},
}
"""Conditions that all or most sessions in the order of an index meet."""


async def _by_cost(conn: AsyncConnection, conditions: Conditions, prices: Prices) -> tuple[_Read, bool]:
    """Read kept costs by their index, and compute those that are outdated; True if they are too many."""
    params = {**conditions.params, "revision": revision_of(prices)}
    outdated = SQL.outdated_ids.fill(conditions=all_of(conditions.indexed))
    ids = [id for (id,) in await _execute(conn, outdated, params)]
    is_outdated = len(ids) > _MAX_OUTDATED
    computed = {} if is_outdated else await read_costs(conn, prices, ids)
    kept = conditions._replace(params={**params, "computed": list(computed)})

    async def read(after: _Position, limit: int) -> list[_Position]:
        places = [*await _read_places(conn, "cost", kept, after, limit), *_places(computed, after)]
        return sorted(places, key=_cost_and_id, reverse=True)[:limit]

    return read, is_outdated


async def _sort_by_cost(
    conn: AsyncConnection, page: SessionPage, prices: Prices, *, is_outdated: bool
) -> SessionPage:
    """Sort a page with kept costs that are outdated, or that other sessions have changed.

    Its sessions stay, and the cursor is of kept costs: a session that moved to a page before would be missing.
    """
    ids = [each.id for each in page.sessions]
    if not is_outdated and not await list_with_shared_usage(conn, ids):
        return page
    costs = await read_costs(conn, prices, ids)
    sessions = sorted(page.sessions, key=lambda each: (costs[each.id], each.id.int), reverse=True)
    return SessionPage(
        sessions=sessions, next_after=page.next_after, costs_outdated=True if is_outdated else None
    )


def _places(costs: Mapping[UUID, int], after: _Position) -> list[_Position]:
    """Return the places of sessions after a place in the order of costs."""
    places = [_Position(str(cost), id) for id, cost in costs.items()]
    return [each for each in places if _cost_and_id(each) < _cost_and_id(after)]


def _cost_and_id(place: _Position) -> tuple[int, int]:
    return int(place.key), place.id.int


async def _execute(conn: AsyncConnection, statement: Sql, params: Mapping[str, Any]) -> list[Any]:
    async with one_transaction(conn):
        # PostgreSQL would start processes to read a small part of an index.
        await conn.execute(SQL.set_serial)
        cursor = await conn.execute(statement, params, prepare=False)
    return await cursor.fetchall()


async def _check(
    conn: AsyncConnection, places: Sequence[_Position], conditions: Conditions
) -> list[tuple[_Position, Session]]:
    """Return the sessions that match all conditions, in the same order."""
    params = {**conditions.params, "read_ids": [each.id for each in places]}
    sessions = await fetch_sessions(conn, _matching(conditions.further), params)
    if conditions.matches is not None:
        sessions = await asyncio.to_thread(select_matching, sessions, conditions.matches)
    matching = {each.id: each for each in sessions}
    return [(each, matching[each.id]) for each in places if each.id in matching]


def _to_page(sessions: list[Session], sort: SessionSort, last: _Position | None) -> SessionPage:
    return SessionPage(sessions=sessions, next_after=None if last is None else _to_cursor(sort, last))


def _to_text(key: datetime | timedelta | int) -> str:
    if isinstance(key, datetime):
        return key.astimezone(UTC).isoformat()
    return f"{key // timedelta(microseconds=1)}us" if isinstance(key, timedelta) else str(key)


def _to_cursor(sort: SessionSort, last: _Position) -> str:
    return to_cursor(sort, last.key, str(last.id))


def _read_cursor(cursor: str, sort: SessionSort) -> _Position:
    """Raises InvalidParameter."""
    try:
        order, key, id = read_cursor(cursor, _ITEMS)
        position = _Position(key, UUID(id))
    except ValueError:
        raise not_a_cursor(_ITEMS) from None
    if order not in get_args(SessionSort):
        raise not_a_cursor(_ITEMS)
    if order != sort:
        raise InvalidParameter(f"after is the cursor of a list sorted by {order}, not by {sort}")
    if not re.fullmatch(_ORDERS[sort].pattern, key, re.ASCII):
        raise not_a_cursor(_ITEMS)
    return position


_ITEMS = "sessions"
