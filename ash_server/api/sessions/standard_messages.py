"""List a session as standard messages, the same for every provider."""

import asyncio
from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Response, get
from litestar.params import FromPath, QueryParameter
from pydantic import Field, TypeAdapter

from ash_server.api.http.bodies import JSON
from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.store.conversation.standard_pages import Conversation
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.message import LAST_SEQUENCE, StandardMessage
from ash_shared.records.system_text import filter_system_messages


class StandardMessagePage(AshModel):
    """Standard messages, sorted by where they begin."""

    messages: list[StandardMessage]
    next_after: Omittable[int] = Field(default=ABSENT, alias="nextAfter")
    """The `after` of the next page: the last stored sequence that this page covers; absent on the last page."""


_PAGE = TypeAdapter(StandardMessagePage)


class StandardMessageController(Controller):
    path = "/api/sessions/{session_id:uuid}/standard-messages"
    tags = ("messages",)

    @get(
        operation_id="listStandardMessages",
        response_description="A page of standard messages.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS),
    )
    async def list(
        self,
        reader: InjectedReader,
        session_id: FromPath[UUID],
        *,
        after: Annotated[
            int,
            QueryParameter(
                ge=0, le=LAST_SEQUENCE, description="Only messages that begin after this sequence."
            ),
        ] = 0,
        limit: Annotated[
            int,
            QueryParameter(
                ge=1,
                le=1000,
                description="Maximum number of stored messages on the page, including stream chunks with usage. A page "
                "has at least one turn.",
            ),
        ] = 1000,
        visible: Annotated[
            bool,
            QueryParameter(description="Omit messages that only contain text inserted by the tool."),
        ] = False,
    ) -> Response[StandardMessagePage]:
        """List the conversation as standard messages.

        Returns a standard message for each message of the conversation, with usage, metadata and errors. The
        format is the same for every provider, and a message is whole even if it is stored as several lines.
        Other records only contribute metadata. Stream chunks are omitted.

        A page consists of whole turns: as many as fit into `limit` stored messages, fewer if they are large,
        but at least one. Only a turn of more than 10,000 stored messages or 16 MiB is split. All pages
        together are the same for every `limit`. A page may be empty and still have a `nextAfter`.
        """
        conversation = await reader(
            lambda store: store.conversation.get_page(session_id, after=after, limit=limit), session_id
        )
        page = await asyncio.to_thread(_render_page, conversation, visible=visible)
        return Response[Any](page, media_type=JSON)


def _render_page(conversation: Conversation, *, visible: bool) -> bytes:
    messages, next_after = conversation
    shown = filter_system_messages(messages) if visible else messages
    page = StandardMessagePage(messages=shown, next_after=next_after)
    return _PAGE.dump_json(page)
