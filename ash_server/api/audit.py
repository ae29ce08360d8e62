"""The audit log: what was done with the keys of a tenant."""

from typing import Annotated, Any
from uuid import UUID

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import client_of, needs
from ash_server.api.http.problems import READ_ERRORS, error_responses
from ash_server.store.keys import AuditPage


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

        Created, deleted and exported sessions, changes of keys, and sign-ins of browsers, newest first.
        Refused sign-ins belong to the tenant `default`. Needs the scope `admin`, and lists the tenant of the
        key.
        """
        return await store.keys.list_audit(client_of(request.scope).tenant, before=before, limit=limit)
