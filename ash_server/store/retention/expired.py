"""Sessions without a recent change, in trees that are deleted as a whole.

A tree is a session with those that it started, at any depth, and the sessions of prompts that its transcripts replace.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.store.statements import statements

_PAGE_SIZE = 500
_NONE = (datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))

SQL = statements(__file__)


class RelatedSession(NamedTuple):
    id: UUID
    parent_id: UUID | None
    replaced_by: UUID | None
    updated_at: datetime

    @property
    def above(self) -> set[UUID]:
        return {id for id in (self.parent_id, self.replaced_by) if id is not None}


SessionTree = Sequence[RelatedSession]
"""Sessions in the order of their deletion: each after those that it started."""


class UnchangedPage(NamedTuple):
    ids: Sequence[UUID]
    last: tuple[datetime, UUID] | None
    """The place after which the next page starts; None on the last page."""


async def list_unchanged(
    conn: AsyncConnection, before: datetime, after: tuple[datetime, UUID] | None
) -> UnchangedPage:
    """Return a page of the sessions without a change since a time, oldest change first."""
    at, id = after or _NONE
    params = {"before": before, "after": at, "after_id": id, "limit": _PAGE_SIZE}
    rows = await (await conn.execute(SQL.list_unchanged, params)).fetchall()
    last = (rows[-1][1], rows[-1][0]) if len(rows) == _PAGE_SIZE else None
    return UnchangedPage([id for id, _ in rows], last)


async def read_session_trees(conn: AsyncConnection, ids: Sequence[UUID]) -> list[SessionTree]:
    """Return the trees that contain some sessions."""
    found: dict[UUID, RelatedSession] = {}
    pending = set(ids)
    asked: set[UUID] = set()
    while pending:
        rows = await (await conn.execute(SQL.list_relatives, {"ids": list(pending)})).fetchall()
        asked |= pending
        related = [RelatedSession(*row) for row in rows]
        found |= {each.id: each for each in related}
        pending = {id for each in related for id in (each.id, *each.above)} - asked
    return _trees_of(found)


def _trees_of(sessions: Mapping[UUID, RelatedSession]) -> list[SessionTree]:
    links: dict[UUID, set[UUID]] = {id: set() for id in sessions}
    for session in sessions.values():
        for other in session.above & sessions.keys():
            links[session.id].add(other)
            links[other].add(session.id)
    trees, remaining = list[SessionTree](), dict(sessions)
    while remaining:
        tree, pending = list[RelatedSession](), [next(iter(remaining))]
        while pending:
            if (id := pending.pop()) in remaining:
                tree.append(remaining.pop(id))
                pending.extend(links[id])
        trees.append(_lowest_first(tree))
    return trees


def _lowest_first(tree: Sequence[RelatedSession]) -> list[RelatedSession]:
    """Return the sessions, each before those above it; the order within a circle is arbitrary."""
    by_id = {each.id: each for each in tree}
    below = Counter(id for each in tree for id in each.above)
    ordered = [each for each in tree if not below[each.id]]
    for each in ordered:  # grows
        below.subtract(each.above)
        ordered += [by_id[id] for id in each.above if id in by_id and not below[id]]
    placed = {each.id for each in ordered}
    return [*ordered, *(each for each in tree if each.id not in placed)]


async def list_labelled(conn: AsyncConnection, ids: Sequence[UUID], *, with_tagged: bool) -> set[UUID]:
    """Return the sessions among some that a person starred or noted, or tagged."""
    params = {"ids": list(ids), "with_tagged": with_tagged}
    return {id for (id,) in await (await conn.execute(SQL.list_labelled, params)).fetchall()}


async def count_all_sessions(conn: AsyncConnection) -> int:
    row = await (await conn.execute(SQL.count_all)).fetchone()
    return row[0] if row else 0
