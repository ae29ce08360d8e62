"""The costs that the status line of Claude Code shows."""

from datetime import UTC, datetime
from typing import Annotated

from litestar import Controller, get
from litestar.datastructures import State
from litestar.params import QueryParameter
from litestar.types import Scope
from pydantic import Field

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import compared
from ash_server.prices.errors import PricesError
from ash_server.store.text import ONE_LINE
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.usage.report import UsageBlock, UsageCounts, UsageRow

_YEAR_10000 = 253_402_300_800
"""Seconds since 1970."""


class BlockUsage(UsageCounts):
    """The usage of the active five-hour block."""

    ends_at_seconds: int = Field(alias="endsAtSeconds")
    """The end of the block, in seconds since 1970."""


class UsageStatus(AshModel):
    """The usage of a session, of a day and of the active five-hour block."""

    session: Omittable[UsageCounts] = ABSENT
    """With its subagents; absent if no session or several have the id."""
    today: UsageCounts
    """Since the requested time."""
    block: Omittable[BlockUsage] = ABSENT
    """Absent without usage in the last five hours."""


class UsageStatusController(Controller):
    path = "/api/usage/status"
    tags = ("usage",)

    @get(
        operation_id="getUsageStatus",
        response_description="The usage.",
        responses=error_responses(*READ_ERRORS, PricesError),
    )
    async def get(
        self,
        scope: Scope,
        reader: InjectedReader,
        state: State,
        session: Annotated[
            str | None,
            QueryParameter(
                min_length=1,
                max_length=1000,
                pattern=ONE_LINE,
                description="The id that the agent has given the session, or an id or external id in Ash.",
            ),
        ] = None,
        since: Annotated[
            int | None,
            QueryParameter(
                ge=0,
                le=_YEAR_10000 - 1,
                schema_extra={"minimum": 0, "maximum": _YEAR_10000 - 1},  # omitted for optional parameters
                description="The start of the day, in seconds since 1970.",
            ),
        ] = None,
    ) -> UsageStatus:
        """Read the costs for a status line.

        Returns the usage of a session, of today and of the active five-hour block, as `ash statusline` shows them.
        """
        prices = await state.prices.get()
        start = _today() if since is None else datetime.fromtimestamp(since, UTC)
        name = compared(scope, session)
        figures = await reader(lambda store: store.usage.figures(name, start, prices=prices))
        row = figures.block
        block = _to_block(row, row.window) if row is not None and row.window is not None else None
        return UsageStatus(session=figures.session, today=figures.today, block=block)


def _today() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _to_block(row: UsageRow, window: UsageBlock) -> BlockUsage:
    counts = row.model_dump(include=set(UsageCounts.model_fields), by_alias=False)
    return BlockUsage(**counts, ends_at_seconds=round(window.end.timestamp()))
