"""Budgets of a tenant."""

from typing import Any
from uuid import UUID

import msgspec
from litestar import Controller, Request, delete, get, put
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.types import Scope

from ash_server.api.http.bodies import BODY_ERRORS, JSON, decode_body, read_body
from ash_server.api.http.dependencies import InjectedStore
from ash_server.api.http.guards.access import client_of, needs
from ash_server.api.http.openapi.operations import documents
from ash_server.api.http.problems import READ_ERRORS, WRITE_ERRORS, error_responses
from ash_server.api.http.redaction import is_redacted
from ash_server.budgets.budgets import NewBudget, list_budgets, set_budget
from ash_server.errors import InvalidBudget, NulByte, ScopeMissing
from ash_server.store.usage.budgets import BudgetNotFound
from ash_shared.model.usage.budgets import BudgetPage, SetBudget

_decoder = msgspec.json.Decoder(NewBudget)


class BudgetController(Controller):
    path = "/api/budgets"
    tags = ("usage",)

    @get(
        operation_id="listBudgets",
        response_description="The budgets.",
        responses=error_responses(*READ_ERRORS),
    )
    async def list(self, store: InjectedStore) -> BudgetPage:
        """List budgets.

        Lists the budgets of the key's tenant, each with the cost of its current period.
        """
        return await list_budgets(store)

    @put(
        opt=needs("admin") | documents(body={JSON: NewBudget}),
        operation_id="setBudget",
        response_description="The budget, with the secret of its webhook.",
        responses=error_responses(*WRITE_ERRORS, *BODY_ERRORS, InvalidBudget, NulByte),
    )
    async def set(self, request: Request[Any, Any, Any], store: InjectedStore, state: State) -> SetBudget:
        """Set a budget.

        Replaces the budget of the same period and project. When the cost of a period is above the limit, the
        webhook receives a signed request, once for each period, in at most five attempts within an hour. Keys
        that redact cannot set the budget of a project, because its cost would tell whether the project exists.
        """
        body = await read_body(request, JSON)
        new = decode_body(body.text, _decoder)
        client = client_of(request.scope)
        if is_redacted(request.scope) and new.project:
            raise ScopeMissing("A key that redacts cannot set the budget of a project.")
        return await set_budget(store, state.settings, new, client.key)

    @delete(
        "/{budget_id:uuid}",
        opt=needs("admin"),
        operation_id="deleteBudget",
        response_description="Deleted.",
        responses=error_responses(*WRITE_ERRORS, BudgetNotFound),
    )
    async def delete(self, scope: Scope, store: InjectedStore, budget_id: FromPath[UUID]) -> None:
        """Delete a budget."""
        key = client_of(scope).key
        await store.budgets.delete(store.tenant, budget_id, key_id=key.id if key else None)
