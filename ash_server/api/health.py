"""Liveness and readiness checks."""

from functools import cache
from importlib.metadata import version
from typing import Any

from litestar import Controller, get
from litestar.datastructures import State

from ash_server.api.http.guards.access import PUBLIC
from ash_server.api.http.problems import COMMON_ERRORS, error_responses
from ash_server.errors import DatabaseUnavailable, SchemaMismatch
from ash_server.live.replica import ReplicaStatus
from ash_shared.model.health import API_VERSION, ClusterHealth, Health, ReplicaHealth


class HealthController(Controller):
    path = "/health"
    opt = PUBLIC
    tags = ("health",)

    @get(
        "/live",
        operation_id="live",
        response_description="The process responds.",
        responses=error_responses(*COMMON_ERRORS),
    )
    async def live(self) -> Health:
        """Check liveness.

        Does not use the database. If this request fails, restart the server.
        """
        return _health()

    @get(
        "/ready",
        operation_id="ready",
        response_description="The server is ready.",
        responses=error_responses(*COMMON_ERRORS, DatabaseUnavailable, SchemaMismatch),
    )
    async def ready(self, state: State) -> Health:
        """Check readiness.

        Checks that the database is available and that its schema matches this version of Ash. The server
        becomes ready again as soon as the database recovers. If a worker of a database cluster does not
        answer, the server is ready and the `status` is `degraded`.
        """
        await state.store.check_schema()
        parts: dict[str, Any] = {}
        if state.replica is not None:
            status: ReplicaStatus = state.replica.status
            parts["replica"] = ReplicaHealth(**status._asdict())
        workers, unavailable = await state.store.count_workers()
        if workers:
            parts["cluster"] = ClusterHealth(workers=workers, unavailable=unavailable)
        return _health().model_copy(update={**parts, "status": "degraded" if unavailable else "ok"})


@cache  # the version is read from files
def _health() -> Health:
    return Health(status="ok", version=version("ash-messages"), api=API_VERSION)
