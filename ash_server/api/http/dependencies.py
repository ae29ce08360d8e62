"""Dependency injection for the store."""

from typing import TypeAlias

from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.types import Scope

from ash_server.api.http.access import client_of
from ash_server.store import Store

InjectedStore: TypeAlias = NamedDependency[SkipValidation[Store]]


def provide_store(state: State, scope: Scope) -> Store:
    """Return the store of the tenant of the request."""
    store: Store = state.store
    return store.for_tenant(client_of(scope).tenant)
