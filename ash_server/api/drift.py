"""Format drift: unknown and malformed blocks of all sessions."""

from datetime import datetime
from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from ash_server.api.http.bodies import JSON
from ash_server.api.http.dependencies import InjectedReader
from ash_server.api.http.openapi.operations import ONE_LINE, json_of, operation
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.api.http.redaction import compared
from ash_server.errors import NulByte
from ash_server.store.drift import DriftReport, Reason

_EXAMPLE = {
    "drift": [
        {
            "source": "claude",
            "clientVersion": "2.4.0",
            "rawType": "holo_frame",
            "reason": "unknown_type",
            "count": 17,
            "firstSeen": "2026-11-02T09:14:07.130000Z",
            "lastSeen": "2026-11-02T09:31:55.002000Z",
            "samples": [{"sessionId": "0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60", "sequence": 12}],
        }
    ]
}


class DriftController(Controller):
    path = "/api/drift"
    tags = ("drift",)

    @get(
        operation_id="listDrift",
        summary="List unknown and malformed blocks",
        description="Blocks of unknown types and blocks that do not match their type, grouped by source, client "
        "version and type; most recently seen first. They are stored completely, as `raw` blocks, so a newer version "
        "of Ash may parse them. Each group has up to five sample messages.",
        response_description="The groups.",
        responses=error_responses(*READ_ERRORS, NulByte),
        operation_class=operation(responses={200: {JSON: json_of(DriftReport, one=_EXAMPLE)}}),
    )
    async def list(
        self,
        request: Request[Any, Any, Any],
        reader: InjectedReader,
        source: Annotated[
            str | None, QueryParameter(pattern=ONE_LINE, description="Only this source.")
        ] = None,
        reason: Annotated[Reason | None, QueryParameter(description="Only this reason.")] = None,
        since: Annotated[
            datetime | None,
            QueryParameter(
                description="Count only blocks seen at or after this time. Without a time zone: UTC."
            ),
        ] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000, description="Maximum number of groups.")] = 100,
    ) -> DriftReport:
        source = compared(request.scope, source)
        return await reader(
            lambda store: store.drift.report(source=source, reason=reason, since=since, limit=limit)
        )
