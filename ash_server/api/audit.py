"""List the actions of a tenant's keys."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import client_of, needs
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.store.access.keys import AuditPage


class AuditController(Controller):
    path = "/api/audit"
    tags = ("keys",)

    @get(
        opt=needs("admin"),
        operation_id="listAudit",
        response_description="A page of entries.",
        responses=error_responses(*READ_ERRORS),
    )
    async def list(
        self,
        request: Request[Any, Any, Any],
        store: InjectedStore,
        before: Annotated[
            UUID | None, QueryParameter(description="Only entries older than the one with this id.")
        ] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000, description="Maximum number of entries.")] = 100,
    ) -> AuditPage:
        """List what keys did.

        Lists created, deleted and exported sessions, changes of keys, and browser sign-ins, newest first.
        Refused sign-ins belong to the tenant `default`. Requires the scope `admin`, and covers the key's own
        tenant.
        """
        return await store.keys.list_audit(client_of(request.scope).tenant, before=before, limit=limit)
