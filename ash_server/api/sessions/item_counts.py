"""Count the items of a session for the filters of the viewer."""

from uuid import UUID

from litestar import Controller, get
from litestar.params import FromPath

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_shared.projections.item_counts import ItemCounts


class ItemCountController(Controller):
    path = "/api/sessions/{session_id:uuid}/item-counts"
    tags = ("sessions",)

    @get(
        operation_id="countItems",
        response_description="The counts.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS),
    )
    async def count(self, reader: InjectedReader, session_id: FromPath[UUID]) -> ItemCounts:
        """Count items by filter.

        Counts the items of the whole session that each filter of the viewer hides. A streamed text counts as
        one item, and so does a tool call together with its result.
        """
        return await reader(lambda store: store.conversation.count_items(session_id), session_id)
