"""Full-text search within one session."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import FromPath, QueryParameter

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.api.search import Query, SearchPlace
from ash_server.errors import NulByte
from ash_server.store.search.within import MAX_HITS, SessionHitPage
from ash_shared.model.message import LAST_SEQUENCE


class SessionSearchController(Controller):
    path = "/api/sessions/{session_id:uuid}/search"
    tags = ("search",)

    @get(
        operation_id="searchSession",
        response_description="A page of hits.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS, NulByte),
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
            int,
            QueryParameter(ge=0, le=LAST_SEQUENCE, description="Only hits after this event sequence."),
        ] = 0,
        before: Annotated[
            int | None,
            QueryParameter(
                ge=1,
                le=LAST_SEQUENCE + 1,
                description="The last hits before this event sequence; excludes `at`.",
            ),
        ] = None,
        at: Annotated[
            int,
            QueryParameter(
                ge=0,
                le=LAST_SEQUENCE,
                description="A page around the first hit at or after this event sequence, otherwise the last hits.",
            ),
        ] = 0,
        limit: Annotated[int, QueryParameter(ge=1, le=MAX_HITS, description="Maximum number of hits.")] = 50,
    ) -> SessionHitPage:
        """Search one session.

        Returns the matching events in the order of the log, with their numbers and their total. `q` has the same
        syntax as in the search over all sessions. To page, pass `nextAfter` as `after`, or `prevBefore` as `before`;
        pages with large texts are shorter. To jump to a position, use `at`. In a session of more than 30,000 events,
        the hits of a frequent word have no numbers, `total` is at most 1,000 with `atLeast`, and a page reads 20,000
        events, so it may be empty although others follow. New events are indexed first, for a limited time;
        `pending` is the number of events that are still not indexed. If there are no hits, `suggestions` has queries
        with similar words.
        """
        return await reader(
            lambda store: store.search.find_in_session(
                session_id,
                q,
                place=place,
                after=after,
                before=before,
                at=at,
                limit=limit,
                redact=is_redacted(request.scope),
            )
        )
