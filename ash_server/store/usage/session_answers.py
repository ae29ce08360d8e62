"""The answers of a session, with their costs."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.prices import Prices
from ash_server.store.session_rows import get_session
from ash_server.store.statements import statements
from ash_shared.model.usage.report import AnswerCost, SessionAnswers
from ash_shared.projections.usage_report import to_dollars

SQL = statements(__file__)

MAX_MESSAGES = 1000
"""Messages of a page of answers."""


class _StoredAnswer(NamedTuple):
    source: str
    message_sequence: int
    turn: int
    quarter: datetime | None
    model: str | None
    service_tier: str | None
    speed: str | None
    region: str | None
    is_request: bool
    band: int
    input_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    output_tokens: int
    reasoning_tokens: int
    web_searches: int
    reported_cost: int | None

    @property
    def answers(self) -> int:
        return 1


async def read_answers(
    conn: AsyncConnection, session_id: UUID, prices: Prices, *, after: int, limit: int
) -> SessionAnswers:
    """Raises SessionNotFound."""
    session = await get_session(conn, session_id)
    until = after + limit
    params = {"session_id": session_id, "after": after, "until": until}
    rows = await (await conn.execute(SQL.list_answers, params)).fetchall()
    answers = [_to_answer(_StoredAnswer(session.source or "", *row), prices) for row in rows]
    return SessionAnswers(answers=answers, next_after=until if until < session.message_count else None)


async def count_answers(conn: AsyncConnection, session_id: UUID, *, with_copies: bool) -> dict[str, int]:
    """Return the number of answers with known usage by model; `with_copies`: also those that were copied."""
    params = {"session_id": session_id, "with_copies": with_copies}
    return dict(await (await conn.execute(SQL.count_answers, params)).fetchall())


def _to_answer(stored: _StoredAnswer, prices: Prices) -> AnswerCost:
    reported = stored.reported_cost
    cost = prices.cost(stored).nano_dollars if reported is None else reported
    return AnswerCost(
        message_sequence=stored.message_sequence,
        turn=stored.turn,
        model=stored.model,
        input_tokens=stored.input_tokens,
        output_tokens=stored.output_tokens,
        cache_read_input_tokens=stored.cache_read_tokens,
        cache_creation_input_tokens=stored.cache_write_5m_tokens + stored.cache_write_1h_tokens,
        cost_usd=to_dollars(cost),
        is_reported=reported is not None,
    )
