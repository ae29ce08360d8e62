"""Titles of subagents that begin with a copy of their parent's messages: their own first prompt."""

from uuid import UUID

from psycopg import AsyncConnection

from ash_server.store.connections.pool import change_row
from ash_server.store.messages import list_messages
from ash_server.store.session_facts import FROM_PROMPT, UNNAMED, collect_facts
from ash_shared.parsing.parse import describe_message

_PAGE = 200
_COPIED = """
    SELECT copied_messages FROM sessions
    WHERE id = %b AND copied_messages > 0 AND nullif(agent_id, '') IS NOT NULL
"""
_UPDATE = f"""
    UPDATE sessions SET
        first_prompt = %(first_prompt)b,
        title = CASE WHEN title_priority > {FROM_PROMPT} THEN title ELSE %(first_prompt)b END,
        title_priority = CASE
            WHEN title_priority > {FROM_PROMPT} THEN title_priority
            WHEN %(first_prompt)b::text IS NULL THEN {UNNAMED}
            ELSE {FROM_PROMPT}
        END
    WHERE id = %(session_id)b
"""  # noqa: S608  # constant SQL


async def name_by_own_prompt(conn: AsyncConnection, session_id: UUID) -> None:
    """Set the first prompt of such a session to its own, and also the title unless the tool or a person set it."""
    row = await (await conn.execute(_COPIED, [session_id])).fetchone()
    if row is not None:
        prompt = await _first_prompt(conn, session_id, after=row[0])
        await change_row(conn, _UPDATE, {"session_id": session_id, "first_prompt": prompt})


async def _first_prompt(conn: AsyncConnection, session_id: UUID, *, after: int) -> str | None:
    while page := await list_messages(conn, session_id, after=after, limit=_PAGE):
        after = page[-1].sequence
        described = [describe_message(message.content, _source_of(message.source)) for message in page]
        if (prompt := collect_facts(described).first_prompt) is not None:
            return prompt
    return None


def _source_of(source: str) -> str | None:
    return None if source == "unknown" else source
