"""Sums of usage for reports: by period, session, project and other dimensions.

Groups differ in everything that prices depend on, so the cost of each is computed once.
"""

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias, get_args
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.store.session_rows import existing_ids
from ash_server.store.statements import statements
from ash_server.store.text import check_text
from ash_server.store.usage.trees import find_roots, read_subagents, top_of
from ash_shared.eventlog import NORMALIZER_VERSION

SQL = statements(__file__)

Period: TypeAlias = Literal["quarter", "hour", "day", "week", "month"]
GroupKey: TypeAlias = Literal["session", "project", "machine", "agent", "key", "agent_id", "cause"]


class UsageFilter(NamedTuple):
    """Conditions and groups of a sum. None: no condition."""

    by: Collection[GroupKey] = ()
    """Fields of the groups; the others are None."""
    period: Period | None = None
    """Groups by time have the `start` of their period, weeks from Monday."""
    timezone: str = "UTC"
    """The IANA name of the time zone of the periods."""
    price_changes: Sequence[datetime] = ()
    """Times when prices change, in ascending order; no group contains usage from before and after one of them."""
    since: datetime | None = None
    """Usage in the quarter of an hour with this time, and later. Usage at an unknown time is left out."""
    until: datetime | None = None
    """Usage in quarters of an hour that begin before this time."""
    sessions: Collection[UUID] | None = None
    sources: Collection[str] | None = None
    models: Collection[str] | None = None
    """Their names in the records; an empty name for answers without a model."""
    projects: Collection[str] | None = None
    """Folders with the folders below them, by path or only by name."""
    machines: Collection[str] | None = None
    agents: Collection[str] | None = None
    """The programs that wrote the sessions."""
    keys: Collection[UUID] | None = None
    with_repeated: bool = False
    """Also count lines of a subagent in another transcript if the subagent's session is stored with its usage."""


class UsageGroup(NamedTuple):
    """A sum of usage; `ash_server.prices` computes its cost."""

    start: datetime | None
    """The start of the period; None without periods, or if the time is unknown."""
    quarter: datetime | None
    """The start of its first quarter of an hour; None if the time is unknown."""
    last_quarter: datetime | None
    """The start of its last quarter of an hour."""
    source: str
    model: str | None
    service_tier: str | None
    speed: str | None
    region: str | None
    is_request: bool
    band: int
    session_id: UUID | None
    project: str | None
    machine: str | None
    agent: str | None
    """The program that wrote the session; its format if that names none."""
    key_id: UUID | None
    agent_id: str | None
    """The subagent of lines in another transcript."""
    cause: str | None
    answers: int
    input_tokens: int
    """Without tokens read from or written to a cache."""
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    output_tokens: int
    """Including reasoning."""
    reasoning_tokens: int
    web_searches: int
    reported_cost: int
    """The sum of the reported costs, in nano-dollars."""
    reported_answers: int
    """How many answers have a reported cost."""


async def read_groups(conn: AsyncConnection, usage: UsageFilter) -> list[UsageGroup]:
    """Return the groups that have answers, in no particular order. Shared messages of copies count once."""
    _check_texts(usage)
    shared = await _read_shared(conn, usage)
    params = {
        "period": usage.period,
        "timezone": usage.timezone,
        "price_changes": list(usage.price_changes),
        **{f"by_{key}": key in usage.by for key in get_args(GroupKey)},
        **_conditions(usage),
        "models": _as_list(usage.models),
        "since": usage.since,
        "until": usage.until,
        **shared._asdict(),
    }
    async with conn.cursor(row_factory=args_row(_to_group)) as cursor:
        await cursor.execute(SQL.read_groups, params)
        return await cursor.fetchall()


async def list_without_answers(conn: AsyncConnection, usage: UsageFilter, *, limit: int) -> list[UUID]:
    """Return the newest sessions with a stated cost and without answers, whatever the time and the models."""
    params = {**_conditions(usage), "limit": limit}
    return [id for (id,) in await (await conn.execute(SQL.list_without_answers, params)).fetchall()]


async def count_sessions_without_facts(
    conn: AsyncConnection, sessions: Collection[UUID] | None = None
) -> int:
    """Return how many of the sessions, or of all, `ash reindex` derives again."""
    params = {"version": NORMALIZER_VERSION, "sessions": _as_list(sessions)}
    row = await (await conn.execute(SQL.count_without_facts, params)).fetchone()
    return 0 if row is None else int(row[0])


_LISTS = ("sessions", "sources", "machines", "agents", "keys")
_FIRST_COUNT = UsageGroup._fields.index("answers")


def _check_texts(usage: UsageFilter) -> None:
    """Raises NulByte or InvalidUtf8."""
    for name in ("sources", "models", "projects", "machines", "agents"):
        for text in getattr(usage, name) or ():
            check_text(text, name)


def _conditions(usage: UsageFilter) -> dict[str, Any]:
    """Return the parameters of the conditions on sessions."""
    lists = {name: _as_list(getattr(usage, name)) for name in _LISTS}
    return {**lists, "projects": None if usage.projects is None else _pattern(usage.projects)}


def _to_group(*row: Any) -> UsageGroup:
    return UsageGroup(*row[:_FIRST_COUNT], *map(int, row[_FIRST_COUNT:]))


def _as_list(values: Collection[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _pattern(projects: Collection[str]) -> str:
    """Return a pattern for folders that are one of the projects or below it."""
    return "|".join(map(project_pattern, projects)) or r"(?!)"


def plain_project(project: str) -> str:
    """Return the path or the name of a folder without separators at its end."""
    return project.rstrip("/\\") or project


def project_pattern(project: str) -> str:
    """Return the pattern of a folder and those below it, by path or only by the name of a folder."""
    path = plain_project(project)
    is_absolute = re.match(r"/|\\|[A-Za-z]:", path) is not None
    start = "" if is_absolute else r"(.*[/\\])?"
    return rf"^{start}{re.escape(path)}([/\\].*)?$"


class _Shared(NamedTuple):
    """Usage that several sessions have."""

    without_original: list[UUID]
    """Copies with an original that is not stored."""
    repeated: list[str]
    """Sessions with lines of a subagent, and its id, if the subagent's own session has them, too."""


async def _read_shared(conn: AsyncConnection, usage: UsageFilter) -> _Shared:
    bounds = {"since": usage.since, "until": usage.until, "sessions": _as_list(usage.sessions)}
    rows = await (await conn.execute(SQL.list_shared, bounds)).fetchall()
    copies = sorted({session for session, _, is_copy in rows if is_copy})
    lines = {(session, agent) for session, agent, is_copy in rows if agent and not is_copy}
    repeated = set() if usage.with_repeated or not lines else await _find_repeated(conn, lines)
    return _Shared(
        await _without_original(conn, copies) if copies else [],
        [f"{session} {agent}" for session, agent in sorted(repeated)],
    )


async def _without_original(conn: AsyncConnection, copies: list[UUID]) -> list[UUID]:
    originals: dict[UUID, UUID] = dict(await (await conn.execute(SQL.list_originals, [copies])).fetchall())
    stored = await existing_ids(conn, list(originals.values()))
    return [copy for copy, original in originals.items() if original not in stored]


async def _find_repeated(conn: AsyncConnection, lines: set[tuple[UUID, str]]) -> set[tuple[UUID, str]]:
    """Return the lines that a session of their agent in the same tree has, too."""
    roots = await find_roots(conn, {session for session, _ in lines})
    own = await _find_agents(conn, {agent for _, agent in lines}, set(roots.values()))
    candidates = {line: own.get((roots[line[0]], line[1]), set()) - {line[0]} for line in lines}
    ids = sorted(set().union(*candidates.values()))
    rows = await (await conn.execute(SQL.list_sessions_with_usage, [ids])).fetchall() if ids else []
    with_usage = {id for (id,) in rows}
    return {line for line, sessions in candidates.items() if sessions & with_usage}


async def _find_agents(
    conn: AsyncConnection, agents: set[str], roots: Collection[UUID]
) -> dict[tuple[UUID, str], set[UUID]]:
    """Return the sessions of agents, by the root of their tree and the agent."""
    subagents = {id: each for id, each in (await read_subagents(conn, roots)).items() if id not in roots}
    parents = {id: each.parent for id, each in subagents.items()}
    found: dict[tuple[UUID, str], set[UUID]] = {}
    for id, each in subagents.items():
        if each.agent_id in agents:
            found.setdefault((top_of(id, parents), each.agent_id), set()).add(id)
    return found
