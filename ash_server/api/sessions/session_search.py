"""Full-text search within one session."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import FromPath, QueryParameter

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.api.search import Query, SearchPlace
from ash_server.errors import NulByte, SessionNotFound
from ash_server.store.search.within import MAX_HITS, SessionHitPage
from ash_shared.model.message import LAST_SEQUENCE


class SessionSearchController(Controller):
    path = "/api/sessions/{session_id:uuid}/search"
    tags = ("search",)

    @get(
        operation_id="searchSession",
        response_description="A page of hits.",
        responses=error_responses(*READ_ERRORS, SessionNotFound, NulByte),
    )
    async def search(  # noqa: PLR0913  # one argument per parameter
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        session_id: FromPath[UUID],
        *,
        q: Query,
        place: SearchPlace = "everything",
        after: Annotated[
            int, QueryParameter(ge=0, le=LAST_SEQUENCE, description="Only hits after this number.")
        ] = 0,
        at: Annotated[
            int,
            QueryParameter(
                ge=0,
                le=LAST_SEQUENCE,
                description="A page around the first hit at or after this event sequence, or else the last hits.",
            ),
        ] = 0,
        limit: Annotated[int, QueryParameter(ge=1, le=MAX_HITS, description="Maximum number of hits.")] = 50,
    ) -> SessionHitPage:
        """Search one session.

        The events that match, numbered in the order of the log, with their total. The syntax of `q` is that
        of the search in all sessions. Page with `after` (continue with `nextAfter`; large texts make a page
        shorter), or go to a place with `at`. Events not indexed yet are indexed first, for a limited time;
        `pending` is the number of those that remain.
        """
        return await reader(
            lambda store: store.search.find_in_session(
                session_id, q, place=place, after=after, at=at, limit=limit, redact=is_redacted(request.scope)
            )
        )
