"""Titles of subagents that begin with a copy of their parent's messages: their own first prompt."""

from uuid import UUID

from psycopg import AsyncConnection

from ash_server.store.connections.pool import change_row
from ash_server.store.message_pages import list_messages
from ash_server.store.session_facts import FROM_PROMPT, UNNAMED, collect_facts
from ash_server.store.statements import statements
from ash_shared.model.message import declared_source
from ash_shared.parsing.parse import describe_message

_PAGE = 200

SQL = statements(__file__, from_prompt=FROM_PROMPT, unnamed=UNNAMED)


async def name_by_own_prompt(conn: AsyncConnection, session_id: UUID) -> None:
    """Set the first prompt of such a session to its own, and also the title unless the tool or a person set it."""
    row = await (await conn.execute(SQL.count_copied, [session_id])).fetchone()
    if row is not None:
        prompt = await _first_prompt(conn, session_id, after=row[0])
        await change_row(conn, SQL.set_prompt, {"session_id": session_id, "first_prompt": prompt})


async def _first_prompt(conn: AsyncConnection, session_id: UUID, *, after: int) -> str | None:
    while page := await list_messages(conn, session_id, after=after, limit=_PAGE):
        after = page[-1].sequence
        described = [describe_message(message.content, declared_source(message.source)) for message in page]
        if (prompt := collect_facts(described).first_prompt) is not None:
            return prompt
    return None
