"""Projects: the roots of repositories and other folders that sessions began in."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from psycopg import AsyncConnection

from ash_server.errors import InvalidParameter
from ash_server.prices import Prices
from ash_server.store.lists.cursors import ACTIVITY, not_a_cursor, read_cursor, to_cursor
from ash_server.store.statements import statements
from ash_server.store.usage.groups import UsageFilter, read_groups
from ash_server.store.usage.priced_groups import read_priced
from ash_shared.model.reports.projects import Project, ProjectPage
from ash_shared.model.usage.report import UsageCounts
from ash_shared.projections.usage_report import sum_items

MAX_PROJECTS = 200
"""Projects of a page."""

MAX_FOLDERS = 100
"""Folders of a project in a list."""

SQL = statements(__file__, activity=ACTIVITY)


async def list_projects(
    conn: AsyncConnection, *, after: str | None = None, limit: int = 100, prices: Prices | None = None
) -> ProjectPage:
    """Return a page of projects, most recent activity first; with `prices`, also their usage.

    Raises InvalidParameter for a limit outside 1 to 200 or an unknown cursor.
    """
    if not 1 <= limit <= MAX_PROJECTS:
        raise InvalidParameter(f"limit must be 1 to {MAX_PROJECTS}")
    active_at, digest = _read_cursor(after) if after else ("infinity", "~")
    params = {"active_at": active_at, "digest": digest, "limit": limit + 1}
    rows = await (await conn.execute(SQL.list_projects, params)).fetchall()
    paths = [path for path, *_ in rows[:limit]]
    counts = await _count(conn, paths)
    usage = {} if prices is None else await _read_usage(conn, paths, prices)
    projects = [_to_project(path, at, counts.get(path, [])) for path, at, _ in rows[:limit]]
    return ProjectPage(
        projects=[
            each if prices is None else each.model_copy(update={"usage": usage[each.path]})
            for each in projects
        ],
        next_after=_to_cursor(*rows[limit - 1][1:]) if len(rows) > limit else None,
    )


_Folder = tuple[str | None, int, int]
"""A folder with its numbers of sessions and messages."""


async def _count(conn: AsyncConnection, paths: Sequence[str]) -> dict[str, list[_Folder]]:
    counts: dict[str, list[_Folder]] = {}
    rows = await (await conn.execute(SQL.count_by_folder, {"projects": paths})).fetchall()
    for path, *folder in rows:
        counts.setdefault(path, []).append((folder[0], folder[1], folder[2]))
    return counts


async def _read_usage(conn: AsyncConnection, paths: Sequence[str], prices: Prices) -> dict[str, UsageCounts]:
    usage = UsageFilter(by=["project"], projects=paths)
    items: dict[str | None, list[Any]] = {path: [] for path in paths}
    for item in await read_priced(partial(read_groups, conn), usage, prices):
        items.setdefault(item.values["project"], []).append(item)
    return {path: sum_items(items[path]) for path in paths}


def name_of(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or path


def _to_project(path: str, active_at: datetime, folders: Sequence[_Folder]) -> Project:
    return Project(
        path=path,
        name=name_of(path),
        folders=[folder for folder, _, _ in folders if folder is not None][:MAX_FOLDERS],
        session_count=sum(sessions for _, sessions, _ in folders),
        message_count=sum(messages for _, _, messages in folders),
        last_active_at=active_at,
    )


def _to_cursor(active_at: datetime, digest: str) -> str:
    """Return a cursor without the path, which may contain a secret."""
    return to_cursor(active_at.astimezone(UTC).isoformat(), digest)


def _read_cursor(cursor: str) -> tuple[str, str]:
    """Raises InvalidParameter."""
    try:
        moment, digest = read_cursor(cursor, _ITEMS)
        active_at = datetime.fromisoformat(moment).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise not_a_cursor(_ITEMS) from None
    if not re.fullmatch("[0-9a-f]{32}", digest):
        raise not_a_cursor(_ITEMS)
    return active_at, digest


_ITEMS = "projects"
