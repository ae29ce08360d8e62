"""Full-text search over all sessions."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.parameters import (
    EditedPaths,
    OnlyRole,
    PageCursor,
    Tools,
)
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import compared_all, is_redacted
from ash_server.api.http.session_filters import InjectedFilters
from ash_server.errors import NulByte, SessionNotFound
from ash_server.store.lists.session_lists import Archived
from ash_server.store.search.query import MAX_RESULTS, SearchScope
from ash_server.store.text import ONE_LINE
from ash_shared.model.pages import SearchPage

Query = Annotated[
    str,
    QueryParameter(
        min_length=1,
        max_length=1000,
        pattern=ONE_LINE,
        description="The query: at most 32 words, including at least one word that is not excluded.",
    ),
]
SearchPlace = Annotated[
    SearchScope,
    QueryParameter(
        name="in",
        description="`said`: texts of the user and the assistant. `conversation`: the same, thinking and tool "
        "calls. `results`: tool results and all other texts. `everything`: all texts.",
    ),
]
ResultSession = Annotated[UUID | None, QueryParameter(name="sessionId", description="Only this session.")]
ResultsSince = Annotated[
    datetime | None,
    QueryParameter(description="Only events at or after this time; UTC unless a time zone is specified."),
]
ResultsUntil = Annotated[datetime | None, QueryParameter(description="Only events before this time.")]
ResultsPerSession = Annotated[
    int | None,
    QueryParameter(
        name="perSession",
        ge=1,
        le=MAX_RESULTS,
        description="Maximum number of results per session, newest first. `matches` is the number per session, at most "
        "1,000.",
    ),
]
ArchivedResults = Annotated[
    Archived, QueryParameter(description="Whether archived sessions are searched: `only` searches no others.")
]
ResultLimit = Annotated[int, QueryParameter(ge=1, le=MAX_RESULTS, description="Maximum number of results.")]


class SearchController(Controller):
    path = "/api/search"
    tags = ("search",)

    @get(
        operation_id="search",
        response_description="A page of results.",
        responses=error_responses(*READ_ERRORS, SessionNotFound, NulByte),
    )
    async def search(  # noqa: PLR0913  # one argument per parameter
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        filters: InjectedFilters,
        *,
        q: Query,
        place: SearchPlace = "conversation",
        tool: Tools = None,
        edited: EditedPaths = None,
        archived: ArchivedResults = "include",
        role: OnlyRole = None,
        session_id: ResultSession = None,
        since: ResultsSince = None,
        until: ResultsUntil = None,
        per_session: ResultsPerSession = None,
        after: PageCursor = None,
        limit: ResultLimit = 20,
    ) -> SearchPage:
        """Search all sessions.

        Each word of `q` matches words that start with it, ignoring case and accents. Words joined without spaces,
        such as a path, match consecutive words. `"these words"` matches an exact phrase, `-word` excludes a word,
        and `or` separates alternatives. Other punctuation only separates words. All words must occur in the same
        event, and in a long event within the same section of about 4,000 words.

        Results are sorted from newest to oldest. To get the next page, pass `nextAfter` as `after`. A page reads a
        limited number of events: it may be short, or empty, although it has a `nextAfter`. New events are indexed
        first, for a limited time; `pending` is the number of events that are still not indexed. If there are no
        results, `suggestions` has queries with similar words.
        """
        return await reader(
            lambda store: store.search.search(
                q,
                **filters,
                place=place,
                tool=compared_all(request.scope, tool),
                edited=edited,
                archived=archived,
                role=role,
                session_id=session_id,
                since=since,
                until=until,
                per_session=per_session,
                after=after,
                limit=limit,
                redact=is_redacted(request.scope),
            )
        )
