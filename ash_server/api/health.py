"""Whether the process lives, and whether it can work."""

from typing import Literal

from litestar import Controller, get
from pydantic import BaseModel

from ash_server.api.http.connections import Pool
from ash_server.api.http.problems import ALWAYS, READS, refusals
from ash_server.db import connection
from ash_server.errors import SchemaMismatch


class Health(BaseModel):
    """That something is well; what is not well is a problem."""

    status: Literal["ok"]


class HealthController(Controller):
    path = "/health"
    tags = ("health",)

    @get(
        "/live",
        operation_id="live",
        summary="Does the process answer?",
        description="Asks nothing of the database. A server that does not answer here is to be restarted.",
        response_description="It does.",
        responses=refusals(*ALWAYS),
    )
    async def live(self) -> Health:
        return Health(status="ok")

    @get(
        "/ready",
        operation_id="ready",
        summary="Can it do its work?",
        description="Whether the database answers and has the schema of this version. "
        "A server that is not ready gets well again by itself once the database does.",
        response_description="It can.",
        responses=refusals(*READS),
    )
    async def ready(self, pool: Pool) -> Health:
        async with pool.connection() as conn:
            revision = await connection.current_revision(conn)
        if revision != connection.REVISION:
            raise SchemaMismatch(
                f"It has schema {revision}, not {connection.REVISION}: run `ash db upgrade`."
            )
        return Health(status="ok")
