"""How a route comes to the database.

Routes borrow a connection after they have read the request and give it back before they answer, so that a slow client
never holds one.
"""

from typing import TypeAlias

from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from ash_server.store import Store

Pool: TypeAlias = NamedDependency[SkipValidation[AsyncConnectionPool[AsyncConnection]]]


def provide_pool(state: State) -> AsyncConnectionPool[AsyncConnection]:
    pool: AsyncConnectionPool[AsyncConnection] = state.pool
    return pool


Stored: TypeAlias = NamedDependency[SkipValidation[Store]]


def provide_store(state: State) -> Store:
    store: Store = state.store
    return store
