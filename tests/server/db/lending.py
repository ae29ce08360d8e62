"""Lend one connection, as a pool does."""

from contextlib import nullcontext

from psycopg import AsyncConnection

from ash_server.db.connection import LendConnection


def lending(connection: AsyncConnection) -> LendConnection:
    return lambda: nullcontext(connection)
