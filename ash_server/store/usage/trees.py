"""Trees of sessions: the subagents of sessions at any depth, and the sessions that started them."""

from collections.abc import Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.store.session_rows import existing_ids
from ash_server.store.statements import statements
from ash_shared.projections.usage_report import ancestors_of

SQL = statements(__file__)


class Subagent(NamedTuple):
    parent: UUID
    agent_id: str | None


async def read_subagents(conn: AsyncConnection, session_ids: Collection[UUID]) -> dict[UUID, Subagent]:
    """Return the sessions of the subagents of some sessions."""
    found: dict[UUID, Subagent] = {}
    level = list(session_ids)
    while level:
        rows = await (await conn.execute(SQL.list_children, [level])).fetchall()
        new = {id: Subagent(parent, agent_id) for id, parent, agent_id in rows if id not in found}
        found |= new
        level = list(new)  # a circle of parents ends
    return found


async def find_roots(conn: AsyncConnection, sessions: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the stored session at the top of the tree of each session."""
    parents: dict[UUID, UUID] = {}
    level = set(sessions)
    while level:
        rows = await (await conn.execute(SQL.list_parents, [sorted(level)])).fetchall()
        stored = await existing_ids(conn, [parent for _, parent in rows])
        new = {id: parent for id, parent in rows if parent in stored}
        parents |= new
        level = set(new.values()) - parents.keys()
    return {session: top_of(session, parents) for session in sessions}


def top_of(session: UUID, parents: Mapping[UUID, UUID]) -> UUID:
    return [session, *ancestors_of(session, parents)][-1]
