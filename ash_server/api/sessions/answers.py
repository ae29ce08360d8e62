"""Usage and cost of the answers of a session."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.datastructures import State
from litestar.params import FromPath, QueryParameter

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.errors import SessionNotFound
from ash_server.prices.errors import PricesError
from ash_server.redaction import redact_name
from ash_server.store.usage.answers import MAX_NAME
from ash_server.store.usage.session_answers import MAX_MESSAGES
from ash_shared.model.message import LAST_SEQUENCE
from ash_shared.model.usage.report import AnswerCost, SessionAnswers

AfterStated = Annotated[
    int,
    QueryParameter(ge=0, le=LAST_SEQUENCE, description="Only answers of messages after this sequence."),
]
RangeLength = Annotated[int, QueryParameter(ge=1, le=MAX_MESSAGES, description="Number of messages.")]


class AnswerController(Controller):
    path = "/api/sessions/{session_id:uuid}/answers"
    tags = ("usage",)

    @get(
        operation_id="listAnswers",
        response_description="A page of answers.",
        responses=error_responses(*READ_ERRORS, SessionNotFound, PricesError),
    )
    async def list(
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        state: State,
        session_id: FromPath[UUID],
        *,
        after: AfterStated = 0,
        limit: RangeLength = MAX_MESSAGES,
    ) -> SessionAnswers:
        """List the usage of answers.

        Returns the model, tokens and cost of each answer that the next `limit` messages stated first.
        """
        prices = await state.prices.get()
        page = await reader(
            lambda store: store.usage.list_answers(session_id, after=after, limit=limit, prices=prices),
            session_id,
        )
        return _redacted(page) if is_redacted(request.scope) else page


def _redacted(page: SessionAnswers) -> SessionAnswers:
    return page.model_copy(update={"answers": [*map(_redacted_answer, page.answers)]})


def _redacted_answer(answer: AnswerCost) -> AnswerCost:
    if answer.model is None:
        return answer
    return answer.model_copy(update={"model": redact_name(answer.model, MAX_NAME)})
