"""Liveness and readiness checks."""

from typing import Literal

from litestar import Controller, get
from pydantic import BaseModel

from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.problems import COMMON_ERRORS, READ_ERRORS, error_responses


class Health(BaseModel):
    """The result of a successful health check; a failed one is a problem response."""

    status: Literal["ok"]


class HealthController(Controller):
    path = "/health"
    tags = ("health",)

    @get(
        "/live",
        operation_id="live",
        summary="Check liveness",
        description="Does not use the database. Restart a server that does not respond here.",
        response_description="The process responds.",
        responses=error_responses(*COMMON_ERRORS),
    )
    async def live(self) -> Health:
        return Health(status="ok")

    @get(
        "/ready",
        operation_id="ready",
        summary="Check readiness",
        description="Checks that the database is available and has the schema of this version. "
        "A server that is not ready recovers once the database does.",
        response_description="The server is ready.",
        responses=error_responses(*READ_ERRORS),
    )
    async def ready(self, store: InjectedStore) -> Health:
        await store.check_schema()
        return Health(status="ok")
