"""The number of items of a session, by the filters of the viewer."""

from uuid import UUID

from litestar import Controller, get
from litestar.params import FromPath

from ash_server.api.http.bodies import JSON
from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.openapi.operations import json_of, operation
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.errors import SessionNotFound
from ash_server.store.conversation.item_counts import ItemCounts

_EXAMPLE = {"thinking": 31, "tools": 84, "results": 83, "answers": 22, "system": 12, "raw": 0}


class ItemCountController(Controller):
    path = "/api/sessions/{session_id:uuid}/item-counts"
    tags = ("sessions",)

    @get(
        operation_id="countItems",
        summary="Count items by filter",
        description="The number of items that each filter of the viewer hides, in the whole session. Texts that are "
        "streamed in chunks, and calls with their results, are one item.",
        response_description="The counts.",
        responses=error_responses(*READ_ERRORS, SessionNotFound),
        operation_class=operation(responses={200: {JSON: json_of(ItemCounts, counts=_EXAMPLE)}}),
    )
    async def count(self, reader: InjectedReader, session_id: FromPath[UUID]) -> ItemCounts:
        return await reader(lambda store: store.conversation.count_items(session_id), session_id)
