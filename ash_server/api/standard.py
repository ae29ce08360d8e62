"""The conversation of a session as standard messages: alike for every provider."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Response, get
from litestar.params import FromPath, QueryParameter
from psycopg import AsyncConnection
from pydantic import MISSING, BaseModel, ConfigDict, Field

from ash_server.api.bodies import JSON
from ash_server.api.operations import json_of, operation
from ash_server.api.pool import Pool
from ash_server.api.problems import READS, refusals
from ash_server.db.messages import StoredMessage, list_lines
from ash_server.db.sessions import get_session
from ash_server.errors import SessionNotFound
from ash_shared.message import LAST_SEQUENCE, StandardMessage
from ash_shared.standard import transform_page
from ash_shared.visibility import filter_system_messages

_HEAD = 20
"""So many first lines tell which session it is, and which client wrote it."""


class StandardMessagePage(BaseModel):
    """Standard messages in the order in which each begins."""

    model_config = ConfigDict(use_attribute_docstrings=True, serialize_by_alias=True, populate_by_name=True)

    data: list[StandardMessage]
    next_after: int | MISSING = Field(default=MISSING, alias="nextAfter")
    """The `after` of the next page: the sequence of the last stored message that this one was made of; absent where
    nothing more is stored."""


_EXAMPLE = {
    "data": [
        {
            "id": "5b0c",
            "role": "assistant",
            "timestamp": 1793611915002,
            "content": [{"type": "text", "text": "Done."}],
            "usage": {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15},
            "metadata": {"source": "claude", "model": "claude-sonnet-4-5", "stop_reason": "end_turn"},
            "_original": [{"type": "assistant", "uuid": "5b0c", "message": {"role": "assistant"}}],
        }
    ],
    "nextAfter": 12,
}


class StandardMessageController(Controller):
    path = "/api/sessions/{session_id:uuid}/standard-messages"
    tags = ("messages",)

    @get(
        operation_id="listStandardMessages",
        summary="List the conversation as standard messages",
        description="One message for each message of the conversation, whatever number of lines it was written in "
        "and whichever tool wrote it, with usage, metadata and errors. Records beside the conversation add to them "
        "and are none themselves; fragments of streams are left out.\n\n"
        "A page is made of up to `limit` stored messages (fewer where they are large), and ends before a prompt, so "
        "that no turn is cut; a turn that is longer than that is cut. It may be empty and have a `nextAfter`.",
        response_description="A page of standard messages.",
        responses=refusals(*READS, SessionNotFound),
        operation_class=operation(answers={200: {JSON: json_of(StandardMessagePage, page=_EXAMPLE)}}),
    )
    async def list(
        self,
        pool: Pool,
        session_id: FromPath[UUID],
        *,
        after: Annotated[
            int,
            QueryParameter(
                ge=0, le=LAST_SEQUENCE, description="Read only what is stored behind this sequence."
            ),
        ] = 0,
        limit: Annotated[
            int, QueryParameter(ge=1, le=10_000, description="The most stored messages to read.")
        ] = 1000,
        visible: Annotated[
            bool,
            QueryParameter(description="Leave out messages that consist of what a tool wrapped alone."),
        ] = False,
    ) -> Response[StandardMessagePage]:
        async with pool.connection() as conn:
            last = (await get_session(conn, session_id)).message_count
            lines = await list_lines(conn, session_id, after=after, limit=limit)
            head = await _head(conn, session_id, after) if lines else []
        more = bool(lines) and lines[-1].sequence < last
        page = await asyncio.to_thread(_page, head, lines, more=more, visible=visible)
        return Response[Any](page, media_type=JSON)


async def _head(conn: AsyncConnection, session_id: UUID, after: int) -> list[StoredMessage]:
    first = await list_lines(conn, session_id, limit=_HEAD) if after else []
    return [each for each in first if each.sequence <= after]


def _page(
    head: Sequence[StoredMessage], lines: Sequence[StoredMessage], *, more: bool, visible: bool
) -> bytes:
    made = transform_page(_texts(lines), head=_texts(head), more=more)
    data = filter_system_messages(made.messages) if visible else made.messages
    next_after = lines[made.lines - 1].sequence if more else MISSING
    return StandardMessagePage(data=data, next_after=next_after).model_dump_json().encode()


def _texts(stored: Sequence[StoredMessage]) -> list[tuple[str, str | None]]:
    return [(each.content, None if each.source == "unknown" else each.source) for each in stored]
