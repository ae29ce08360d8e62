"""The facts of one session in detail."""

from typing import Any
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.store.log.stored_json import event_json
from ash_server.store.session_rows import get_session
from ash_server.store.statements import statements
from ash_shared.model.reports.facts import FileFacts, NameCount, Plan, SessionFacts, ToolFacts
from ash_shared.projections.plan import MAX_CALLS, is_plan_tool, plan_of

MAX_FILES = 1000
"""Files of a report."""
SQL = statements(__file__, event_json=event_json())


async def read_facts(conn: AsyncConnection, session_id: UUID) -> SessionFacts:
    """Return the facts of a session. Raises SessionNotFound."""
    session = await get_session(conn, session_id)
    if session.tool_call_count is None:  # derived by an earlier version
        return SessionFacts(session=session)
    tools = [
        ToolFacts(tool=tool, mcp_server=server or None, calls=calls, failures=failures, denied=denied)
        for tool, server, calls, failures, denied in await _fetch(conn, SQL.list_tools, session_id)
    ]
    files = await _fetch(conn, SQL.list_files, session_id, limit=MAX_FILES + 1)
    return SessionFacts(
        session=session,
        tools=tools,
        mcp_servers=await _count_names(conn, SQL.list_servers, session_id),
        skills=await _count_names(conn, SQL.list_skills, session_id),
        files=[
            FileFacts(path=path, reads=reads, changes=changes, added=added, removed=removed)
            for path, reads, changes, added, removed in files[:MAX_FILES]
        ],
        more_files=len(files) > MAX_FILES,
        plan=await _read_plan(conn, session_id, [each.tool for each in tools if is_plan_tool(each.tool)]),
    )


async def _fetch(conn: AsyncConnection, query: str, session_id: UUID, **more: Any) -> list[tuple[Any, ...]]:
    return await (await conn.execute(query, {"session_id": session_id, **more})).fetchall()


async def _count_names(conn: AsyncConnection, query: str, session_id: UUID) -> list[NameCount]:
    return [NameCount(name=name, calls=calls) for name, calls in await _fetch(conn, query, session_id)]


async def _read_plan(conn: AsyncConnection, session_id: UUID, tools: list[str]) -> Plan | None:
    """Return the plan after the last calls of some tools. It is read from their events, not stored."""
    if not tools:
        return None
    calls = await _fetch(conn, SQL.list_calls, session_id, tools=tools, limit=MAX_CALLS)
    rows = await _fetch(conn, SQL.list_events, session_id, places=[place for (place,) in calls])
    payloads = (msgspec.json.decode(bytes(content))["payload"] for (content,) in rows)
    return plan_of((payload["toolName"], payload["args"]) for payload in payloads)
