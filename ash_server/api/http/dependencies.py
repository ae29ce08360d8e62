"""Dependency injection for the store."""

from typing import TypeAlias

from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from ash_server.store import Store

InjectedStore: TypeAlias = NamedDependency[SkipValidation[Store]]


def provide_store(state: State) -> Store:
    store: Store = state.store
    return store
