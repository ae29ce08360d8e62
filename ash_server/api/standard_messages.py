"""The conversation of a session as standard messages: alike for every provider."""

import asyncio
from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Response, get
from litestar.params import FromPath, QueryParameter
from pydantic import MISSING, BaseModel, ConfigDict, Field, TypeAdapter

from ash_server.api.http.bodies import JSON
from ash_server.api.http.connections import Pool
from ash_server.api.http.operations import json_of, operation
from ash_server.api.http.problems import READS, refusals
from ash_server.errors import SessionNotFound
from ash_server.queries.standard_pages import Conversation, get_conversation
from ash_shared.model.message import LAST_SEQUENCE, StandardMessage
from ash_shared.reading.system_text import filter_system_messages


class StandardMessagePage(BaseModel):
    """Standard messages in the order in which each begins."""

    model_config = ConfigDict(use_attribute_docstrings=True, serialize_by_alias=True, populate_by_name=True)

    data: list[StandardMessage]
    next_after: int | MISSING = Field(default=MISSING, alias="nextAfter")
    """The `after` of the next page: the sequence of the last stored message that this one was made of; absent where
    nothing more is stored."""


_PAGE = TypeAdapter(StandardMessagePage)

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
        "A page is made of about `limit` stored messages, fewer where they are large: it ends before a prompt, so that "
        "no turn is cut, and goes on as far as that takes, up to 10,000 of them or 16 MiB. It may be empty and have a "
        "`nextAfter`.",
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
                ge=0, le=LAST_SEQUENCE, description="Read only what is stored after this sequence."
            ),
        ] = 0,
        limit: Annotated[
            int, QueryParameter(ge=1, le=1000, description="About so many stored messages.")
        ] = 1000,
        visible: Annotated[
            bool,
            QueryParameter(description="Leave out messages that consist of what a tool wrapped alone."),
        ] = False,
    ) -> Response[StandardMessagePage]:
        read = await get_conversation(pool.connection, session_id, after=after, limit=limit)
        page = await asyncio.to_thread(_page, read, visible=visible)
        return Response[Any](page, media_type=JSON)


def _page(read: Conversation, *, visible: bool) -> bytes:
    messages, next_after = read
    data = filter_system_messages(messages) if visible else messages
    page = StandardMessagePage(data=data, next_after=MISSING if next_after is None else next_after)
    return _PAGE.dump_json(page)
