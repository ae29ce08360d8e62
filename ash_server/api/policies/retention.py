"""Retention of the sessions of a tenant."""

from typing import Any

import msgspec
from litestar import Controller, Request, delete, get, post, put
from litestar.types import Scope

from ash_server.api.http.bodies import BODY_ERRORS, JSON, decode_body, read_body
from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import client_of, needs
from ash_server.api.http.openapi.operations import documents
from ash_server.api.http.problems import READ_ERRORS, WRITE_ERRORS, error_responses
from ash_server.errors import InvalidRetention
from ash_server.retention.policy import (
    NewRetention,
    NewRetentionRun,
    NoRetention,
    end_retention,
    get_retention,
    run_retention,
    set_retention,
)
from ash_server.store.retention.policies import RetentionBusy
from ash_shared.model.reports.retention import RetentionPolicy, RetentionRun

_MAX_DELETED = 1000
"""A request ends with the tree that reaches it; the server deletes the other sessions within an hour."""

_policy_decoder = msgspec.json.Decoder(NewRetention)
_run_decoder = msgspec.json.Decoder(NewRetentionRun)


class RetentionController(Controller):
    path = "/api/retention"
    tags = ("retention",)

    @get(
        operation_id="getRetention",
        response_description="The policy; without `age`, there is none.",
        responses=error_responses(*READ_ERRORS),
    )
    async def get(self, store: InjectedStore) -> RetentionPolicy:
        """Get the retention policy.

        Returns the policy of the key's tenant, and the result of the server's last run.
        """
        return await get_retention(store)

    @put(
        opt=needs("admin") | documents(body={JSON: NewRetention}),
        operation_id="setRetention",
        response_description="The policy.",
        responses=error_responses(*WRITE_ERRORS, *BODY_ERRORS, InvalidRetention),
    )
    async def set(self, request: Request[Any, Any, Any], store: InjectedStore) -> RetentionPolicy:
        """Set the retention policy.

        The server runs it every hour. The first run only reports; later ones schedule sessions without a change for
        the age of the policy, and delete them after 30 days unless they are changed, starred, noted or shared before.
        """
        body = await read_body(request, JSON)
        return await set_retention(
            store, decode_body(body.text, _policy_decoder), client_of(request.scope).key
        )

    @delete(
        operation_id="endRetention",
        opt=needs("admin"),
        response_description="Deleted.",
        responses=error_responses(*WRITE_ERRORS, NoRetention),
    )
    async def end(self, scope: Scope, store: InjectedStore) -> None:
        """Delete the retention policy.

        Scheduled sessions are kept.
        """
        await end_retention(store, client_of(scope).key)

    @post(
        "/runs",
        status_code=200,
        opt=needs("admin") | documents(body={JSON: NewRetentionRun}),
        operation_id="runRetention",
        response_description="The result of the run.",
        responses=error_responses(*WRITE_ERRORS, *BODY_ERRORS, NoRetention, RetentionBusy),
    )
    async def run(self, request: Request[Any, Any, Any], store: InjectedStore) -> RetentionRun:
        """Run the retention policy now.

        Schedules all sessions without a change for the age of the policy, also if the server waits for a confirmation
        because they are more than a tenth, and deletes those that were scheduled 30 days ago: about 1,000 at once. The
        server deletes the others within an hour.
        """
        body = await read_body(request, JSON)
        new = decode_body(body.text, _run_decoder)
        return await run_retention(
            store, is_dry_run=new.dry_run, key=client_of(request.scope).key, max_deleted=_MAX_DELETED
        )
