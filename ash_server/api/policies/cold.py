"""Cold sessions of a tenant."""

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
from ash_server.retention.cold_policy import (
    NewColdPolicy,
    NewColdRun,
    NoColdPolicy,
    end_cold_policy,
    get_cold_policy,
    run_cold_policy,
    set_cold_policy,
)
from ash_server.store.cold.policies import ColdBusy
from ash_shared.model.reports.cold import ColdPolicy, ColdRun

_MAX_ARCHIVED = 200
"""Sessions that a request archives."""

_policy_decoder = msgspec.json.Decoder(NewColdPolicy)
_run_decoder = msgspec.json.Decoder(NewColdRun)


class ColdController(Controller):
    path = "/api/cold"
    tags = ("retention",)

    @get(
        operation_id="getColdPolicy",
        response_description="The policy; without `age`, there is none.",
        responses=error_responses(*READ_ERRORS),
    )
    async def get(self, store: InjectedStore) -> ColdPolicy:
        """Get the policy for cold sessions.

        Returns the policy of the key's tenant, the number of cold sessions, and the size of their archives.
        """
        return await get_cold_policy(store)

    @put(
        opt=needs("admin") | documents(body={JSON: NewColdPolicy}),
        operation_id="setColdPolicy",
        response_description="The policy.",
        responses=error_responses(*WRITE_ERRORS, *BODY_ERRORS, InvalidRetention),
    )
    async def set(self, request: Request[Any, Any, Any], store: InjectedStore) -> ColdPolicy:
        """Set the policy for cold sessions.

        The server runs it every hour: it moves the texts of sessions without a change for the age of the policy to
        compressed archives. Reading a cold session restores it.
        """
        body = await read_body(request, JSON)
        return await set_cold_policy(
            store, decode_body(body.text, _policy_decoder), client_of(request.scope).key
        )

    @delete(
        operation_id="endColdPolicy",
        opt=needs("admin"),
        response_description="Deleted.",
        responses=error_responses(*WRITE_ERRORS, NoColdPolicy),
    )
    async def end(self, scope: Scope, store: InjectedStore) -> None:
        """Delete the policy for cold sessions.

        Cold sessions stay in their archives until they are read.
        """
        await end_cold_policy(store, client_of(scope).key)

    @post(
        "/runs",
        status_code=200,
        opt=needs("admin") | documents(body={JSON: NewColdRun}),
        operation_id="runColdPolicy",
        response_description="The result of the run.",
        responses=error_responses(*WRITE_ERRORS, *BODY_ERRORS, NoColdPolicy, ColdBusy),
    )
    async def run(self, request: Request[Any, Any, Any], store: InjectedStore) -> ColdRun:
        """Run the policy for cold sessions now.

        Archives at most 200 sessions, and restores the cold sessions that were changed. The server archives the others
        in its hourly runs.
        """
        body = await read_body(request, JSON)
        new = decode_body(body.text, _run_decoder)
        return await run_cold_policy(store, is_dry_run=new.dry_run, max_archived=_MAX_ARCHIVED)
