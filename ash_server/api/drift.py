"""What Ash did not understand, over all sessions."""

from datetime import datetime
from typing import Annotated

from litestar import Controller, get
from litestar.params import QueryParameter

from ash_server.api.http.bodies import JSON
from ash_server.api.http.connections import Pool
from ash_server.api.http.operations import ONE_LINE, json_of, operation
from ash_server.api.http.problems import READS, refusals
from ash_server.db.drift import DriftReport, Reason, report_drift
from ash_server.errors import NulByte

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
        summary="List what no table of Ash covers",
        description="Blocks of types that Ash does not know, and blocks that are not what their type promises, by "
        "format, version of the tool, and type; last seen first. They are kept whole, as `raw` blocks: nothing is "
        "lost, and a newer Ash may read them. Each group names up to five messages that hold such a block.",
        response_description="The groups.",
        responses=refusals(*READS, NulByte),
        operation_class=operation(answers={200: {JSON: json_of(DriftReport, one=_EXAMPLE)}}),
    )
    async def list(
        self,
        pool: Pool,
        source: Annotated[
            str | None, QueryParameter(pattern=ONE_LINE, description="Only those of this format.")
        ] = None,
        reason: Annotated[Reason | None, QueryParameter(description="Only those of this reason.")] = None,
        since: Annotated[
            datetime | None,
            QueryParameter(description="Count only what was seen then or later. Without a zone it is UTC."),
        ] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000, description="The most groups to answer.")] = 100,
    ) -> DriftReport:
        async with pool.connection() as conn:
            return await report_drift(conn, source=source, reason=reason, since=since, limit=limit)
