"""Two sessions side by side."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.datastructures import State
from litestar.params import QueryParameter

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, TEXT_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_shared.model.reports.comparison import SessionComparison

FirstSession = Annotated[UUID, QueryParameter(description="The id of the first session.")]
SecondSession = Annotated[UUID, QueryParameter(description="The id of the second session.")]


class ComparisonController(Controller):
    path = "/api/compare"
    tags = ("sessions",)

    @get(
        operation_id="compareSessions",
        response_description="The comparison.",
        responses=error_responses(*READ_ERRORS, *TEXT_ERRORS),
    )
    async def compare(
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        state: State,
        *,
        a: FirstSession,
        b: SecondSession,
    ) -> SessionComparison:
        """Compare two sessions.

        Returns the facts of both side by side, the calls of each tool, the files that they changed, and their
        prompts, aligned where they are equal. `common` is the beginning that a copy or a fork has in common with
        the other session. At most 1,000 prompts and 1,000 files of each session are compared.
        """
        redacts = is_redacted(request.scope)
        return await reader(
            lambda store: store.conversation.compare(a, b, files=state.prices, redacts=redacts)
        )
