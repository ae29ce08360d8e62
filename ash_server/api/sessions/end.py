"""End the stream of a session."""

from uuid import UUID

from litestar import Controller, post
from litestar.params import FromPath

from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.problems import WRITE_ERRORS, error_responses
from ash_server.errors import SessionNotFound
from ash_shared.model.base import AshModel


class Ended(AshModel):
    """The result of ending a session's stream."""

    events: int
    """Number of events appended to close everything open."""


class EndController(Controller):
    path = "/api/sessions/{session_id:uuid}/end"
    tags = ("events",)

    @post(
        operation_id="endSession",
        response_description="Everything is closed.",
        status_code=200,
        responses=error_responses(*WRITE_ERRORS, SessionNotFound),
    )
    async def end(self, store: InjectedStore, session_id: FromPath[UUID]) -> Ended:
        """Close everything open.

        Call this when the stream has ended, even prematurely. Open texts and tool calls are closed with the
        content received so far, then the turn is closed. No content is added. The session can continue later.
        """
        return Ended(events=await store.events.end(session_id))
