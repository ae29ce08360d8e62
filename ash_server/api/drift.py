"""List unknown and malformed blocks of all sessions (format drift)."""

from datetime import datetime
from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import compared
from ash_server.errors import NulByte
from ash_server.store.drift import DriftReport, Reason
from ash_server.store.text import ONE_LINE


class DriftController(Controller):
    path = "/api/drift"
    tags = ("drift",)

    @get(
        operation_id="listDrift",
        response_description="The groups.",
        responses=error_responses(*READ_ERRORS, NulByte),
    )
    async def list(
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        source: Annotated[
            str | None, QueryParameter(pattern=ONE_LINE, description="Only blocks from this source.")
        ] = None,
        reason: Annotated[Reason | None, QueryParameter(description="Only blocks with this reason.")] = None,
        since: Annotated[
            datetime | None,
            QueryParameter(
                description="Count only blocks seen at or after this time; UTC unless a time zone is specified."
            ),
        ] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000, description="Maximum number of groups.")] = 100,
    ) -> DriftReport:
        """List unknown and malformed blocks.

        Lists blocks that have an unknown type or do not match their type, grouped by source, client version
        and type, most recent first. They are kept completely as `raw` blocks, so a newer version of Ash may
        parse them. Each group has up to five sample messages.
        """
        source = compared(request.scope, source)
        return await reader(
            lambda store: store.drift.report(source=source, reason=reason, since=since, limit=limit)
        )
